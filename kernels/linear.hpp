// Linear regression: least squares on samples that are made, so that its answer is known. Node i has samples (z, y), z of
// independent standard normal numbers,
//
//   y = <u_i, z> + e,    u_i = u + node_spread s_i,    e = noise r,
//
// u, s_i and r standard normal, too. A model is weights w and a bias c; on samples it has the loss
//
//   mean of (<w, z> + c - y)^2 / 2.
//
// Over all samples there could be, node i has (|w - u_i|^2 + c^2 + noise^2) / 2, and the mean of all nodes is least at the mean
// of u_i, with c = 0. linear.cpp gives the order of the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/data/partition.hpp"
#include "sim/node/workload.hpp"

namespace starling {

class Linear final : public Workload {
 public:
  /// Everything that defines the problem.
  struct Problem {
    NodeId nodes = 1;
    std::size_t features = 1;
    std::size_t samples = 1;  // over all nodes, as equal as can be, the first ones get the rest
    std::size_t test_samples = 1;  // the t-th is one of node t mod nodes
    double noise = 0;
    double node_spread = 0;
    std::int64_t batch_size = 1;
    std::string sampling = "epochs";  // see BatchSampler
    std::uint64_t seed = 1;
    std::int64_t wire_parameters = 0;  // 0: features + 1
  };

  explicit Linear(const Problem& problem);

  const WorkloadFacts& facts() const override { return facts_; }
  /// Zeros.
  void initial_model(std::span<float> x) const override;
  std::int64_t batch_cost(NodeId, Step) const override { return sampler_.batch_size(); }
  void gradients(std::span<GradientRequest> requests) const override;
  /// The loss is that of the held-out samples; there is no accuracy.
  void evaluate(std::span<EvaluationRequest> requests) const override;

  struct Samples {
    std::vector<float> z;  // (samples, features)
    std::vector<float> y;  // (samples)
  };
  const Samples& train() const { return train_; }  // node after node
  const Samples& test() const { return test_; }
  /// (features), u_i.
  std::vector<double> truth(NodeId node) const;

 private:
  void draw(Samples& samples, std::size_t at, const std::vector<double>& truth,
            Random random) const;
  float miss(const float* x, const Samples& samples, std::size_t s) const;
  void gradient(GradientRequest& request, std::span<std::int32_t> indices) const;

  Problem problem_;
  Samples train_, test_;
  BatchSampler sampler_;
  WorkloadFacts facts_;
};

}  // namespace starling
