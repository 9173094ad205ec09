// Optimizer: the local update rule that all algorithms share: learning-rate schedule, momentum, weight decay.
//
//   d <- g + weight_decay * x_at           x_at: the model at which g was taken
//   m <- momentum * m + d                  the step is m (heavy ball), d + momentum * m (Nesterov), or d
//   x <- x - learning_rate(k) * step
//
// The velocity holds no learning rate, so a schedule changes the pace at once (Goyal et al., 2017, section 3).
#pragma once

#include <string>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

struct OptimizerSettings {
  double learning_rate = 0;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  std::string schedule;  // constant, step, cosine
  std::vector<double> decay_steps;
  double decay_factor = 0.1;
  Step warmup_steps = 0;
  Step steps = 0;  // of the whole run, for cosine

  /// Learning rate of step k.
  double rate(Step k) const;
};

/// Reads and checks the keys of the shared update rule; the caller calls section.finish().
OptimizerSettings read_optimizer(const Section& section, Step steps);

/// The update rule with one node's momentum.
class Optimizer {
 public:
  explicit Optimizer(const OptimizerSettings& settings) : settings_(settings) {}

  /// x <- x - learning_rate(k) * step, for the gradient `g` taken at `at` (a snapshot of x, or x itself).
  void update(Vector& x, const Vector& g, const Vector& at, Step k);

  /// The same step without its learning rate: for algorithms that treat it further before they apply it.
  Vector direction(const Vector& g, const Vector& at);

  /// The momentum buffer; empty without momentum or before the first update.
  Vector& velocity() { return velocity_; }

 private:
  OptimizerSettings settings_;
  Vector velocity_;
};

}  // namespace starling::algorithms
