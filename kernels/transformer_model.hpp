// A transformer that reads from left to right (Vaswani et al., "Attention Is All You Need", NeurIPS
// 2017, the decoder without cross-attention; layer norm before each part as in GPT-2):
//
//   h_t = token[w_t] + position[t]
//   h <- h + project(attention(qkv(norm(h))))         causal, `heads` heads of width / heads
//   h <- h + contract(gelu(expand(norm(h))))          4 width wide           `layers` times
//   logits_t = head(norm(h_t))                        to foretell the next token, or
//   logits   = head(mean_t norm(h_t))                 for the label of a sequence
//
// The sequences of a mini-batch lie one after the other as rows of one matrix, so nothing is spent
// on padding: the dense layers see all tokens as one batch, attention goes sequence by sequence.
// The arithmetic is that of kernels/dense/dense.hpp; what is left are sums over rows in order: a residual
// is x + y, the mean over a sequence adds n_to (1 / length) over t in order, and gradients of
// embeddings add up over the rows in order.
//
// A model is token (vocabulary x width), position (context x width), both row-major, then each
// layer: norm (gain, bias), qkv, project, norm, expand, contract; then norm and head. Dense layers
// are panel-major weights, then bias.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/dense/dense.hpp"
#include "kernels/dense/layer.hpp"
#include "kernels/divided_products.hpp"
#include "kernels/scratch.hpp"
#include "sim/base/random.hpp"
#include "sim/node/workload.hpp"

namespace starling {

struct TransformerShape {
  std::size_t layers, heads, width, context;  // positive; heads divide the width
  std::size_t vocabulary, classes;
  bool predicts_next;  // logits for every token, or for every sequence
};

/// The sequences of a mini-batch, without padding.
struct PackedBatch {
  std::vector<std::int32_t> tokens;
  std::vector<std::size_t> begin{0};  // (sequences + 1), rows where each begins
  std::vector<std::int32_t> labels;   // of each token if predicts_next, else of each sequence

  void clear() {
    tokens.clear();
    labels.clear();
    begin.assign(1, 0);
  }
  /// Appends one sequence, whose labels are appended by hand.
  void push(std::span<const std::int32_t> sequence) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    begin.push_back(tokens.size());
  }
};

class TransformerModel {
 public:
  struct Layer {
    std::size_t attention_norm;  // gain, then bias
    DenseLayer qkv, project;
    std::size_t mlp_norm;
    DenseLayer expand, contract;
  };
  struct Matrix {
    float* at;
    std::size_t stride;
    float* row(std::size_t r) const { return at + r * stride; }
  };
  /// What one layer keeps for its gradient.
  struct Kept {
    Matrix input, input_normed, qkv, attended, middle, middle_normed, expanded, activated;
    float *input_moments, *middle_moments;
  };
  /// How much a mini-batch is.
  struct Extent {
    std::size_t sequences, tokens, longest;  // longest: tokens of a sequence
  };
  /// Scratch of one thread, as large as its largest batch so far.
  struct Work {
    Scratch floats;
    std::vector<Kept> kept;
    Matrix output, output_normed, pooled, logits;  // after the last layer
    Matrix slope, branch, normed_slope, wide_slope, qkv_slope;
    float* output_moments;
    std::vector<double> losses;
    PackedBatch batch;
    std::vector<std::int32_t> samples;
  };

  TransformerModel(TransformerShape shape, const dense::Kernels& kernels);

  std::size_t parameters() const { return parameters_; }
  /// Adds tensors and weight matrices; embeddings are no matrices, as they lie row by row.
  void add_tensors(WorkloadFacts& facts) const;
  const TransformerShape& shape() const { return shape_; }
  /// Floats of a Work that fits the gradient of such a batch.
  std::size_t work_floats(const Extent& batch) const;
  /// Embeddings are normal with deviation 0.1; weights of dense layers with 1 / sqrt(inputs), those
  /// that add to the residual stream divided by sqrt(2 layers) (GPT-2), those of the head by 10;
  /// drawn in the order of the model, input by input. Gains are 1, biases 0.
  void initialize(std::span<float> x, Random random) const;

  /// Loss and gradient of the mean loss over labels of work.batch. `member`: who gets help with it, or null.
  double gradient(const float* x, Work& work, float* gradient,
                  Crew::Member* member = nullptr) const;
  /// Leaves the logits of work.batch in work.logits, a row for each label, and room for their losses.
  void score(const float* x, Work& work) const;

  std::span<const Layer> layers() const { return layers_; }
  std::size_t position_embedding() const { return shape_.vocabulary * shape_.width; }
  std::size_t output_norm() const { return output_norm_; }
  const DenseLayer& head() const { return head_; }

 private:
  std::size_t outputs(const Extent& batch) const {
    return shape_.predicts_next ? batch.tokens : batch.sequences;
  }
  /// Makes `work` large enough for its batch.
  void fit(Work& work, bool keeps) const;
  /// Deals floats out from `base` on, aligned to cache lines, and returns how many; null: only counts them.
  std::size_t deal(Work& work, float* base, const Extent& batch, bool keeps) const;
  void forward(const float* x, Work& work, const DividedProducts& products) const;
  void embed(const float* x, const PackedBatch& batch, Matrix out) const;
  void run_layer(const float* x, const Layer& layer, const Kept& kept, Matrix out, Work& work,
                 const DividedProducts& products) const;
  void pool(Work& work) const;
  void spread(Matrix pooled_slope, Work& work) const;
  void layer_gradient(const float* x, const Layer& layer, const Kept& kept, Work& work,
                      const DividedProducts& products, float* gradient) const;
  void embedding_gradient(const Work& work, float* gradient) const;

  void norm(const float* x, std::size_t gain, Matrix in, Matrix out, float* moments,
            std::size_t rows, const DividedProducts& products) const;
  /// Calls part(shape, first row, first column, scratch) for each head of each sequence.
  template <class Part>
  void for_heads(const PackedBatch& batch, const DividedProducts& products, const Part& part) const;
  std::size_t head_width() const { return shape_.width / shape_.heads; }

  TransformerShape shape_;
  const dense::Kernels& kernels_;
  std::vector<Layer> layers_;
  std::size_t output_norm_ = 0;
  DenseLayer head_{};
  std::size_t parameters_ = 0;
};

}  // namespace starling
