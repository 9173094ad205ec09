// Diagonal quadratics: the workload whose every answer is known. Node i has
//
//   f_i(x) = 1/2 sum_k a_ik (x_k - b_ik)^2,    f(x) = mean_i f_i(x),
//   x*_k = sum_i a_ik b_ik / sum_i a_ik,
//
// so fixed points of algorithms can be written down and compared. A mini-batch adds a random slope,
//
//   f_i(x; draw) = f_i(x) + sum_k s_k (x_k - b_ik),
//
// s_k normal with mean 0 and named by (node, draw). Its gradient is a_ik (x_k - b_ik) + s_k: noise
// on the gradient, with which the loss still agrees. quadratic.cpp gives the order of the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/node/workload.hpp"

namespace starling {

class Quadratic final : public Workload {
 public:
  /// Everything that defines the problem.
  struct Problem {
    NodeId nodes = 1;
    std::size_t dimension = 1;
    std::vector<float> curvature{};    // (nodes, dimension), a >= 0
    std::vector<float> center{};       // (nodes, dimension), b
    std::vector<float> start{};        // (dimension), the initial model
    double noise = 0;                  // standard deviation of s
    std::uint64_t seed = 1;            // names the streams of s
    std::int64_t wire_parameters = 0;  // 0: dimension
  };

  /// The arrays must have the shapes stated in Problem.
  explicit Quadratic(Problem problem);

  const WorkloadFacts& facts() const override { return facts_; }
  void initial_model(std::span<float> x) const override;
  std::int64_t batch_cost(NodeId, Step) const override { return 1; }
  void gradients(std::span<GradientRequest> requests) const override;
  /// The loss is f(x), the global objective without noise; there is no accuracy.
  void evaluate(std::span<EvaluationRequest> requests) const override;

  float curvature(NodeId node, std::size_t k) const { return problem_.curvature[at(node, k)]; }
  float center(NodeId node, std::size_t k) const { return problem_.center[at(node, k)]; }
  /// (nodes, dimension)
  std::span<const float> curvatures() const { return problem_.curvature; }
  std::span<const float> centers() const { return problem_.center; }
  double noise() const { return problem_.noise; }
  /// The random slopes s of the node's draw-th mini-batch; zeros without noise.
  void draw_slopes(NodeId node, Step draw, std::span<float> slopes) const;
  /// (dimension), mean over the nodes.
  std::span<const double> mean_curvature() const { return mean_curvature_; }
  /// (dimension), x*; 0 where no node has curvature.
  std::span<const double> optimum() const { return optimum_; }
  /// f(x*), the least loss that evaluate() can give.
  double optimal_loss() const { return optimal_loss_; }

 private:
  std::size_t at(NodeId node, std::size_t k) const {
    return static_cast<std::size_t>(node) * problem_.dimension + k;
  }
  float draw_slope(Random& random) const;
  void gradient(GradientRequest& request) const;

  Problem problem_;
  WorkloadFacts facts_;
  std::vector<double> mean_curvature_;  // (dimension)
  std::vector<double> optimum_;         // (dimension)
  double optimal_loss_ = 0;
};

}  // namespace starling
