// Multilayer perceptron: fully connected layers with ReLU between them, softmax and mean
// cross-entropy at the end. Without hidden layers it is softmax regression. The arithmetic, and
// with it the order of every sum, is that of kernels/dense/dense.hpp; a batch's loss is the sum of its
// samples' losses in order, in double, over the batch size.
// A model is its layers one after the other (kernels/dense/layer.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/data/dataset.hpp"
#include "kernels/data/partition.hpp"
#include "kernels/dense/dense.hpp"
#include "kernels/dense/layer.hpp"
#include "kernels/divided_products.hpp"
#include "kernels/for_all.hpp"
#include "kernels/score.hpp"
#include "kernels/supervised.hpp"
#include "sim/base/section.hpp"
#include "sim/node/workload.hpp"

namespace starling {

class Mlp final : public Workload {
 public:
  /// Samples whose losses are added first in an evaluation; part of the order of sums.
  static constexpr std::size_t evaluation_block = 64;

  /// Everything that defines the problem.
  struct Problem : Supervised {
    std::vector<std::size_t>
        hidden;               // width of each hidden layer, positive; empty: softmax regression
    bool is_uniform = false;  // the initial model
  };

  /// `kernels` is a parameter for tests; results do not depend on it.
  explicit Mlp(Problem problem, const dense::Kernels& kernels = dense::kernels());

  const WorkloadFacts& facts() const override { return facts_; }
  /// "normal": weights are normal with variance 2 / inputs where a ReLU follows (He et al., "Delving Deep
  /// into Rectifiers", ICCV 2015), 2 / (inputs + outputs) in the last layer (Glorot and Bengio,
  /// "Understanding the Difficulty of Training Deep Feedforward Neural Networks", AISTATS 2010);
  /// drawn layer by layer, input by input. Biases are 0.
  /// "uniform": weights, and then the biases of the layer, are uniform in +-1 / sqrt(inputs) (LeCun et al., "Efficient
  /// BackProp", 1998, of variance 1 / (3 inputs)): what PyTorch does unless told otherwise.
  void initial_model(std::span<float> x) const override;
  std::int64_t batch_cost(NodeId node, Step draw) const override;
  std::vector<std::int32_t> labels() const override { return sampler_.labels(problem_.data.train); }
  bool folds_sums() const override { return true; }
  void gradients(std::span<GradientRequest> requests) const override;
  void gradients_of(RowOwner& owner, std::span<GradientRequest> requests) const override;
  bool takes_one_by_one() const override { return true; }
  /// Mean loss over the test samples and the fraction whose largest logit (the first, if equal) is
  /// the label's.
  void evaluate(std::span<EvaluationRequest> requests) const override;

  std::span<const DenseLayer> layers() const { return layers_; }
  const Dataset& train() const { return problem_.data.train; }
  const Dataset& test() const { return problem_.data.test; }
  const BatchSampler& sampler() const { return sampler_; }

 private:
  struct Activations;
  class SampleFetch;

  /// `next`: which is likely to follow on this thread, or null; its rows need not be in place.
  void gradient(GradientRequest& request, const GradientRequest* next, Activations& work,
                const DividedProducts& products) const;
  void load_batch(const GradientRequest& request, Activations& work) const;
  std::span<const std::int32_t> draw_ahead(const GradientRequest& next, Activations& work) const;
  void backward(const GradientRequest& request, Activations& work, const DividedProducts& products,
                SampleFetch& fetch) const;
  dense::Ahead list_ahead(const GradientRequest& request, Activations& work) const;
  bool is_finite(const Activations& work) const;
  /// `ahead`: what is fetched into the cache meanwhile.
  void forward(const float* x, std::size_t batch, const float* input, std::size_t input_stride,
               Activations& work, const DividedProducts& products, dense::Ahead ahead) const;
  Score score(const float* x, std::size_t first, std::size_t count, Activations& work) const;

  Problem problem_;
  const dense::Kernels& kernels_;
  BatchSampler sampler_;
  std::vector<DenseLayer> layers_;
  WorkloadFacts facts_;
  std::uint64_t instance_;            // 1, 2, .. in this process
  double multiplications_;            // of a gradient
  bool models_exceed_cache_ = false;  // those of all nodes, before and after a step
};

namespace workloads {

/// Makes an MLP with these hidden layers from a section whose other keys are still unread; calls
/// finish().
std::unique_ptr<Workload> make_mlp(const Section& section, std::vector<std::size_t> hidden,
                                   NodeId nodes, std::uint64_t seed);

}  // namespace workloads
}  // namespace starling
