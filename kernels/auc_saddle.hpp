// AUC maximization as a saddle-point problem. A score h(w; z), linear or an MLP with one output, is to
// rank positive samples above negative ones; the square surrogate of the pairwise ranking loss is, per
// sample (z, y) and with p the share of positives among all training samples,
//
//   F = (1-p) (h - a)^2 [y=1] + p (h - b)^2 [y=-1] + 2 (1 + alpha) (p h [y=-1] - (1-p) h [y=1])
//       - p (1-p) alpha^2,                         minimized over (w, a, b), maximized over alpha
//
// For given scores the best a, b, alpha are mean h+, mean h-, mean h- - mean h+, and F is then
// p (1-p) (mean over pairs of (1 - (h+ - h-))^2 - 1).
//
// Ying, Wen, Lyu, "Stochastic Online AUC Maximization", NIPS 2016, Theorem 1; Guo et al.,
// "Communication-Efficient Distributed Stochastic AUC Maximization with Deep Neural Networks",
// ICML 2020.
//
// A model is the layers of the score, as in kernels/dense/layer.hpp, then a, b, alpha. Gradients are what a
// step subtracts: of alpha it is minus the derivative, so that every algorithm descends in w, a, b
// and ascends in alpha. Sums over samples run in order, in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/data/dataset.hpp"
#include "kernels/data/partition.hpp"
#include "kernels/dense/dense.hpp"
#include "kernels/dense/stack.hpp"
#include "kernels/supervised.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// Area under the ROC curve: the share of pairs (positive, negative) in which the positive sample
/// scores higher, ties counting half; label 1 is positive. NaN if there is no pair. O(n log n).
double area_under_curve(std::span<const float> scores, std::span<const std::int32_t> labels);

class Auc final : public Workload {
 public:
  /// Labels are 0 and 1, both in train and in test.
  struct Problem : Supervised {
    std::vector<std::size_t> hidden;  // width of each hidden layer; empty: linear scores
  };

  explicit Auc(Problem problem);

  const WorkloadFacts& facts() const override { return facts_; }
  /// Weights as in an MLP; biases, a, b and alpha are 0.
  void initial_model(std::span<float> x) const override;
  std::int64_t batch_cost(NodeId node, Step draw) const override;
  std::vector<std::int32_t> labels() const override { return sampler_.labels(problem_.data.train); }
  void gradients(std::span<GradientRequest> requests) const override;
  /// Loss: F over the test samples with the best a, b, alpha for the model's scores, and with the
  /// share of positives among them. Accuracy: the area under the curve.
  void evaluate(std::span<EvaluationRequest> requests) const override;

  /// p
  double positive_share() const { return share_; }
  const SplitDataset& data() const { return problem_.data; }

 private:
  static constexpr std::size_t evaluation_block = 64;  // samples that go forward at once
  struct Work;

  void gradient(GradientRequest& request, Work& work) const;
  void judge(std::span<const float> scores, EvaluationRequest& request) const;

  Problem problem_;
  double share_ = 0;
  const dense::Kernels& kernels_;
  BatchSampler sampler_;
  std::vector<DenseLayer> layers_;
  WorkloadFacts facts_;
};

}  // namespace starling
