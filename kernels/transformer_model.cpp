#include "kernels/transformer_model.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/model_facts.hpp"
#include "kernels/scratch.hpp"
#include "sim/base/error.hpp"

namespace starling {
namespace {

/// As long as the GELU of one number takes.
constexpr std::size_t gelu_multiplications = 16;

/// out = a + b, row by row.
void add(std::size_t rows, std::size_t columns, TransformerModel::Matrix a,
         TransformerModel::Matrix b, TransformerModel::Matrix out) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float *left = a.row(r), *right = b.row(r);
    float* to = out.row(r);
    for (std::size_t o = 0; o < columns; ++o) to[o] = left[o] + right[o];
  }
}

void run(const DividedProducts& products, const DenseLayer& layer, const float* x, std::size_t rows,
         TransformerModel::Matrix in, TransformerModel::Matrix out) {
  products.forward({rows, layer.inputs, layer.outputs}, in.at, in.stride, x + layer.weights,
                   x + layer.bias, false, out.at, out.stride);
}

/// Gradients of a dense layer's parameters and, in `slope`, of its input.
void run_back(const DividedProducts& products, const DenseLayer& layer, const float* x,
              std::size_t rows, TransformerModel::Matrix in, TransformerModel::Matrix out_slope,
              TransformerModel::Matrix slope, float* gradient) {
  const dense::Shape shape{rows, layer.inputs, layer.outputs};
  products.parameter_gradient(shape, in.at, in.stride, out_slope.at, out_slope.stride,
                              gradient + layer.weights, gradient + layer.bias);
  products.input_gradient(shape, out_slope.at, out_slope.stride, x + layer.weights, nullptr,
                          slope.stride, slope.at);
}

/// So many floats, aligned to cache lines, of the calling thread.
float* scratch_of_thread(std::size_t count) {
  thread_local Scratch floats;  // lives on between calls
  float* scratch = nullptr;
  deal_out(floats, [&](float* base) {
    ScratchDealer dealer(base);
    scratch = dealer(count);
    return dealer.used();
  });
  return scratch;
}

/// Tokens of the longest sequence.
std::size_t longest_of(const PackedBatch& batch) {
  std::size_t longest = 0;
  for (std::size_t s = 0; s + 1 < batch.begin.size(); ++s)
    longest = std::max(longest, batch.begin[s + 1] - batch.begin[s]);
  return longest;
}

}  // namespace

TransformerModel::TransformerModel(TransformerShape shape, const dense::Kernels& kernels)
    : shape_(shape), kernels_(kernels) {
  ensure(shape.width % shape.heads == 0, "heads must divide the width of a transformer");
  const std::size_t width = shape.width;
  std::size_t at = (shape.vocabulary + shape.context) * width;
  const auto norm = [&] {
    at += 2 * width;
    return at - 2 * width;
  };
  const auto connected = [&at](std::size_t inputs, std::size_t outputs) {
    return next_layer(inputs, outputs, at);
  };
  for (std::size_t l = 0; l < shape.layers; ++l) {
    Layer layer{};
    layer.attention_norm = norm();
    layer.qkv = connected(width, 3 * width);
    layer.project = connected(width, width);
    layer.mlp_norm = norm();
    layer.expand = connected(width, 4 * width);
    layer.contract = connected(4 * width, width);
    layers_.push_back(layer);
  }
  output_norm_ = norm();
  head_ = connected(width, shape.classes);
  parameters_ = at;
}

void TransformerModel::add_tensors(WorkloadFacts& facts) const {
  const std::size_t width = shape_.width;
  const auto norm = [&] { facts.tensors.insert(facts.tensors.end(), {width, width}); };
  const auto connected = [&facts](const DenseLayer& layer) { add_dense_layer(facts, layer); };
  facts.tensors.insert(facts.tensors.end(), {shape_.vocabulary * width, shape_.context * width});
  for (const Layer& layer : layers_) {
    norm();
    connected(layer.qkv);
    connected(layer.project);
    norm();
    connected(layer.expand);
    connected(layer.contract);
  }
  norm();
  connected(head_);
}

void TransformerModel::initialize(std::span<float> x, Random random) const {
  ensure(x.size() == parameters_, "initialize: wrong size");
  std::fill(x.begin(), x.end(), 0.0f);
  const auto draw = [&random](double deviation) {
    return static_cast<float>(deviation * random.normal());
  };
  const auto weights = [&](const DenseLayer& layer, double factor) {
    const double deviation = factor / std::sqrt(static_cast<double>(layer.inputs));
    draw_weights(layer.inputs, layer.outputs, &x[layer.weights], [&] { return draw(deviation); });
  };
  const auto gain = [&](std::size_t norm) {
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(norm), shape_.width, 1.0f);
  };
  for (float& value : x.first((shape_.vocabulary + shape_.context) * shape_.width))
    value = draw(0.1);
  const double into_residual = 1 / std::sqrt(2.0 * static_cast<double>(shape_.layers));
  for (const Layer& layer : layers_) {
    gain(layer.attention_norm);
    weights(layer.qkv, 1);
    weights(layer.project, into_residual);
    gain(layer.mlp_norm);
    weights(layer.expand, 1);
    weights(layer.contract, into_residual);
  }
  gain(output_norm_);
  weights(head_, 0.1);
}

std::size_t TransformerModel::deal(Work& work, float* base, const Extent& batch, bool keeps) const {
  const std::size_t sequences = batch.sequences, tokens = batch.tokens;
  const std::size_t width = shape_.width;
  ScratchDealer floats(base);
  const auto matrix = [&](std::size_t rows, std::size_t columns) {
    const std::size_t stride = dense::row_stride(columns);
    return Matrix{floats(rows * stride), stride};
  };
  work.kept.resize(keeps ? layers_.size() : 1);
  for (Kept& kept : work.kept) {
    kept.input = matrix(tokens, width);
    kept.input_normed = matrix(tokens, width);
    kept.qkv = matrix(tokens, 3 * width);
    kept.attended = matrix(tokens, width);
    kept.middle = matrix(tokens, width);
    kept.middle_normed = matrix(tokens, width);
    kept.expanded = matrix(tokens, 4 * width);
    kept.activated = matrix(tokens, 4 * width);
    kept.input_moments = floats(2 * tokens);
    kept.middle_moments = floats(2 * tokens);
  }
  work.output = matrix(tokens, width);
  work.output_normed = matrix(tokens, width);
  work.output_moments = floats(2 * tokens);
  work.pooled = matrix(sequences, width);
  work.logits = matrix(outputs(batch), shape_.classes);
  work.branch = matrix(tokens, width);
  if (!keeps) return floats.used();
  work.slope = matrix(tokens, width);
  work.normed_slope = matrix(tokens, width);
  work.wide_slope = matrix(tokens, 4 * width);
  work.qkv_slope = matrix(tokens, 3 * width);
  return floats.used();
}

std::size_t TransformerModel::work_floats(const Extent& batch) const {
  Work nobodys{};
  return deal(nobodys, nullptr, batch, true) +
         dense::attention_scratch(batch.longest, head_width());
}

void TransformerModel::fit(Work& work, bool keeps) const {
  const Extent batch{work.batch.begin.size() - 1, work.batch.tokens.size(), longest_of(work.batch)};
  deal_out(work.floats, [&](float* base) { return deal(work, base, batch, keeps); });
  work.losses.resize(outputs(batch));
}

void TransformerModel::embed(const float* x, const PackedBatch& batch, Matrix out) const {
  for (std::size_t s = 0; s + 1 < batch.begin.size(); ++s) {
    const float* position = x + position_embedding();
    for (std::size_t r = batch.begin[s]; r < batch.begin[s + 1]; ++r, position += shape_.width) {
      const float* token = x + static_cast<std::size_t>(batch.tokens[r]) * shape_.width;
      float* to = out.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) to[o] = token[o] + position[o];
    }
  }
}

void TransformerModel::embedding_gradient(const Work& work, float* gradient) const {
  std::fill_n(gradient, (shape_.vocabulary + shape_.context) * shape_.width, 0.0f);
  const PackedBatch& batch = work.batch;
  for (std::size_t s = 0; s + 1 < batch.begin.size(); ++s) {
    float* position = gradient + position_embedding();
    for (std::size_t r = batch.begin[s]; r < batch.begin[s + 1]; ++r, position += shape_.width) {
      float* token = gradient + static_cast<std::size_t>(batch.tokens[r]) * shape_.width;
      const float* slope = work.slope.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) {
        token[o] += slope[o];
        position[o] += slope[o];
      }
    }
  }
}

template <class Part>
void TransformerModel::for_heads(const PackedBatch& batch, const DividedProducts& products,
                                 const Part& part) const {
  const std::size_t longest = longest_of(batch);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width()));
  products.over((batch.begin.size() - 1) * shape_.heads, 2 * longest * longest * head_width(),
                [&](dense::Range heads) {
                  float* scratch =
                      scratch_of_thread(dense::attention_scratch(longest, head_width()));
                  for (std::size_t h = heads.begin; h < heads.end; ++h) {
                    const std::size_t s = h / shape_.heads, first = batch.begin[s];
                    part(dense::AttentionShape{batch.begin[s + 1] - first, head_width(), scale},
                         first, h % shape_.heads * head_width(), scratch);
                  }
                });
}

void TransformerModel::norm(const float* x, std::size_t gain, Matrix in, Matrix out, float* moments,
                            std::size_t rows, const DividedProducts& products) const {
  products.over(rows, 8 * shape_.width, [&](dense::Range r) {
    kernels_.sequences.layer_norm(r.end - r.begin, shape_.width, in.row(r.begin), in.stride,
                                  x + gain, out.row(r.begin), moments + 2 * r.begin);
  });
}

void TransformerModel::run_layer(const float* x, const Layer& layer, const Kept& kept, Matrix out,
                                 Work& work, const DividedProducts& products) const {
  const std::size_t tokens = work.batch.tokens.size(), width = shape_.width;
  norm(x, layer.attention_norm, kept.input, kept.input_normed, kept.input_moments, tokens,
       products);
  run(products, layer.qkv, x, tokens, kept.input_normed, kept.qkv);
  for_heads(work.batch, products,
            [&](const dense::AttentionShape& shape, std::size_t first, std::size_t column,
                float* scratch) {
              const float* q = kept.qkv.row(first) + column;
              kernels_.sequences.attention(shape, q, q + width, q + 2 * width, kept.qkv.stride,
                                           kept.attended.row(first) + column, kept.attended.stride,
                                           scratch);
            });
  run(products, layer.project, x, tokens, kept.attended, work.branch);
  add(tokens, width, kept.input, work.branch, kept.middle);

  norm(x, layer.mlp_norm, kept.middle, kept.middle_normed, kept.middle_moments, tokens, products);
  run(products, layer.expand, x, tokens, kept.middle_normed, kept.expanded);
  products.over(tokens, gelu_multiplications * 4 * width, [&](dense::Range rows) {
    for (std::size_t r = rows.begin; r < rows.end; ++r) {
      kernels_.sequences.gelu(kept.expanded.row(r), kept.activated.row(r), 4 * width);
    }
  });
  run(products, layer.contract, x, tokens, kept.activated, work.branch);
  add(tokens, width, kept.middle, work.branch, out);
}

/// Mean over the positions of each sequence.
void TransformerModel::pool(Work& work) const {
  for (std::size_t s = 0; s + 1 < work.batch.begin.size(); ++s) {
    const std::size_t first = work.batch.begin[s], end = work.batch.begin[s + 1];
    const float share = 1.0f / static_cast<float>(end - first);
    float* to = work.pooled.row(s);
    std::fill_n(to, shape_.width, 0.0f);
    for (std::size_t r = first; r < end; ++r) {
      const float* from = work.output_normed.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) to[o] += from[o] * share;
    }
  }
}

/// The gradient of pool(): each token gets its share of its sequence's.
void TransformerModel::spread(Matrix pooled_slope, Work& work) const {
  for (std::size_t s = 0; s + 1 < work.batch.begin.size(); ++s) {
    const std::size_t first = work.batch.begin[s], end = work.batch.begin[s + 1];
    const float share = 1.0f / static_cast<float>(end - first);
    const float* from = pooled_slope.row(s);
    for (std::size_t r = first; r < end; ++r) {
      float* to = work.normed_slope.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) to[o] = from[o] * share;
    }
  }
}

void TransformerModel::forward(const float* x, Work& work, const DividedProducts& products) const {
  const std::size_t tokens = work.batch.tokens.size(), last = work.kept.size() - 1;
  embed(x, work.batch, work.kept[0].input);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const bool is_last = l + 1 == layers_.size();
    // Without a gradient to come, layers take turns in one place: its input has been read by then.
    const Matrix out = is_last ? work.output : work.kept[std::min(l + 1, last)].input;
    run_layer(x, layers_[l], work.kept[std::min(l, last)], out, work, products);
  }
  norm(x, output_norm_, work.output, work.output_normed, work.output_moments, tokens, products);
  if (!shape_.predicts_next) pool(work);
  run(products, head_, x, work.losses.size(),
      shape_.predicts_next ? work.output_normed : work.pooled, work.logits);
}

void TransformerModel::score(const float* x, Work& work) const {
  fit(work, false);
  forward(x, work, {kernels_, nullptr});
}

void TransformerModel::layer_gradient(const float* x, const Layer& layer, const Kept& kept,
                                      Work& work, const DividedProducts& products,
                                      float* gradient) const {
  const std::size_t tokens = work.batch.tokens.size(), width = shape_.width;
  run_back(products, layer.contract, x, tokens, kept.activated, work.slope, work.wide_slope,
           gradient);
  products.over(tokens, gelu_multiplications * 4 * width, [&](dense::Range rows) {
    for (std::size_t r = rows.begin; r < rows.end; ++r) {
      kernels_.sequences.gelu_gradient(kept.expanded.row(r), work.wide_slope.row(r), 4 * width);
    }
  });
  run_back(products, layer.expand, x, tokens, kept.middle_normed, work.wide_slope,
           work.normed_slope, gradient);
  kernels_.sequences.layer_norm_gradient(
      tokens, width, kept.middle.at, kept.middle.stride, kept.middle_moments, x + layer.mlp_norm,
      work.normed_slope.at, work.slope.at, gradient + layer.mlp_norm);

  run_back(products, layer.project, x, tokens, kept.attended, work.slope, work.branch, gradient);
  for_heads(work.batch, products,
            [&](const dense::AttentionShape& shape, std::size_t first, std::size_t column,
                float* scratch) {
              const float* q = kept.qkv.row(first) + column;
              float* dq = work.qkv_slope.row(first) + column;
              kernels_.sequences.attention_gradient(
                  shape, q, q + width, q + 2 * width, kept.qkv.stride,
                  work.branch.row(first) + column, work.branch.stride, dq, dq + width,
                  dq + 2 * width, scratch);
            });
  run_back(products, layer.qkv, x, tokens, kept.input_normed, work.qkv_slope, work.normed_slope,
           gradient);
  kernels_.sequences.layer_norm_gradient(
      tokens, width, kept.input.at, kept.input.stride, kept.input_moments, x + layer.attention_norm,
      work.normed_slope.at, work.slope.at, gradient + layer.attention_norm);
}

double TransformerModel::gradient(const float* x, Work& work, float* gradient,
                                  Crew::Member* member) const {
  const DividedProducts products(kernels_, member);
  fit(work, true);
  forward(x, work, products);
  const std::size_t tokens = work.batch.tokens.size(), rows = work.losses.size();
  kernels_.softmax_cross_entropy(rows, shape_.classes, work.logits.at, work.logits.stride,
                                 work.batch.labels.data(), work.losses.data());
  double loss = 0;
  for (const double label_loss : work.losses) loss += label_loss;

  if (shape_.predicts_next) {
    run_back(products, head_, x, rows, work.output_normed, work.logits, work.normed_slope,
             gradient);
  } else {
    const Matrix pooled_slope = work.branch;  // which is not in use yet
    run_back(products, head_, x, rows, work.pooled, work.logits, pooled_slope, gradient);
    spread(pooled_slope, work);
  }
  for (std::size_t r = 0; r < tokens; ++r) std::fill_n(work.slope.row(r), shape_.width, 0.0f);
  kernels_.sequences.layer_norm_gradient(
      tokens, shape_.width, work.output.at, work.output.stride, work.output_moments,
      x + output_norm_, work.normed_slope.at, work.slope.at, gradient + output_norm_);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layer_gradient(x, layers_[l], work.kept[l], work, products, gradient);
  }
  embedding_gradient(work, gradient);
  return loss / static_cast<double>(rows);
}

}  // namespace starling
