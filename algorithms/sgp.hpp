// One node's steps of SGP (sgp.cpp), alone or for another algorithm (base_steps.hpp).
#pragma once

#include "algorithms/optimizer.hpp"
#include "algorithms/push_shares.hpp"

namespace starling::algorithms {

class SgpSteps {
 public:
  struct Settings {
    PushSchedule schedule;
    OptimizerSettings optimizer;
    Step local_steps = 1;  // per exchange; not read here
  };
  /// Reads the keys of the schedule and the optimizer; the caller calls section.finish().
  static Settings read(const Section& section, const Context& context);

  /// `node` and `settings` outlive the steps.
  SgpSteps(Node& node, const Settings& settings)
      : node_(node),
        settings_(settings),
        optimizer_(settings.optimizer),
        mass_{node.initial_model(), 1},
        z_(mass_.x) {}

  Task<> take(Step first, Step last);
  /// z = x / w
  const Vector& model() const { return z_; }
  double weight() const { return mass_.w; }
  Optimizer& optimizer() { return optimizer_; }

  /// x: nothing is under way between steps, so the mean of w is one.
  Task<Vector> settle(Step last);
  /// From `x` with w = 1.
  Task<> restart(Step last, Vector x);
  Task<> finish();

 private:
  Node& node_;
  const Settings& settings_;
  Optimizer optimizer_;
  Mass mass_;
  Vector z_;
};

}  // namespace starling::algorithms
