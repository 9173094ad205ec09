// Convolutional network: the layers that kernels/cnn_layers.hpp spells, then softmax and mean
// cross-entropy. A batch's loss is the sum of its samples' losses in order, in double, over the
// batch size.
//
// Batch normalization keeps no running statistics, so a model is its trained parameters and nothing
// else; before a model is evaluated, its statistics are measured anew on 256 training samples, the
// same ones always. That is what Izmailov et al. do for averaged models ("Averaging Weights Leads to
// Wider Optima and Better Generalization", UAI 2018, section 3.2), and every model evaluated here is
// an average over nodes. (The top-k thesis of kernels/cnn_layers.hpp sends running statistics along,
// uncompressed: 2 floats per channel more in each message.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cnn_network.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/data/partition.hpp"
#include "kernels/for_all.hpp"
#include "kernels/score.hpp"
#include "kernels/supervised.hpp"
#include "sim/node/workload.hpp"

namespace starling {

class Cnn final : public Workload {
 public:
  /// Samples whose losses are added first in an evaluation; part of the order of sums.
  static constexpr std::size_t evaluation_block = 16;

  /// Everything that defines the problem.
  struct Problem : Supervised {
    std::string name = "CNN";  // in descriptions
    std::vector<CnnLayer> layers;
    Extent image;             // its size is that of the samples
    bool is_uniform = false;  // the initial model
  };

  /// `kernels` is a parameter for tests; results do not depend on it. Throws std::invalid_argument
  /// if the layers do not fit the image.
  explicit Cnn(Problem problem, const dense::Kernels& kernels = dense::kernels());

  const WorkloadFacts& facts() const override { return facts_; }
  /// Weights are normal with variance 2 / (inputs of a sum) (He et al., "Delving Deep into
  /// Rectifiers", ICCV 2015), in the last layer 2 / (inputs + outputs) (Glorot and Bengio,
  /// "Understanding the Difficulty of Training Deep Feedforward Neural Networks", AISTATS 2010);
  /// drawn layer by layer, input by input. Scales are 1, biases and shifts 0. Uniform: as in Mlp::initial_model.
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

  const CnnNetwork& network() const { return network_; }
  const Dataset& train() const { return problem_.data.train; }
  const Dataset& test() const { return problem_.data.test; }
  const BatchSampler& sampler() const { return sampler_; }
  std::uint64_t seed() const { return problem_.seed; }
  /// Training samples by which batch normalization is measured before an evaluation; none without it.
  std::span<const std::int32_t> calibration_samples() const { return calibration_samples_; }

 private:
  void gradient(GradientRequest& request, CnnNetwork::Work& work, Crew::Member* member) const;
  void calibrate(const float* x, std::span<float> statistics, CnnNetwork::Work& work) const;
  Score score(const float* x, std::span<const float> statistics, std::size_t first,
              std::size_t count, CnnNetwork::Work& work) const;
  void load(const Dataset& data, std::span<const std::int32_t> samples,
            CnnNetwork::Work& work) const;

  Problem problem_;
  const dense::Kernels& kernels_;
  BatchSampler sampler_;
  CnnNetwork network_;
  std::vector<std::int32_t> calibration_samples_;  // empty without batch normalization
  WorkloadFacts facts_;
  double multiplications_;  // of a gradient
};

}  // namespace starling
