// Linear regression: least squares on samples that are made, so that the answer is known (data/made_regression.hpp), or on those
// of a file. A model is weights w and a bias c; on samples z with targets y it has the loss
//
//   mean of (<w, z> + c - y)^2 / 2.
//
// linear.cpp gives the order of the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/data/dataset.hpp"
#include "kernels/data/partition.hpp"
#include "kernels/supervised.hpp"
#include "sim/node/workload.hpp"

namespace starling {

class Linear final : public Workload {
 public:
  /// Data with targets, both to train on and held out.
  explicit Linear(Supervised problem);

  const WorkloadFacts& facts() const override { return facts_; }
  /// Zeros.
  void initial_model(std::span<float> x) const override;
  std::int64_t batch_cost(NodeId node, Step draw) const override;
  void gradients(std::span<GradientRequest> requests) const override;
  /// The loss is that of the held-out samples; there is no accuracy.
  void evaluate(std::span<EvaluationRequest> requests) const override;

 private:
  static float miss(const float* x, const Dataset& samples, std::size_t s);
  void gradient(GradientRequest& request, std::span<std::int32_t> indices) const;

  Supervised problem_;
  BatchSampler sampler_;
  WorkloadFacts facts_;
};

}  // namespace starling
