// One node's steps of overlap SGP (overlap_sgp.cpp), alone or for another algorithm (base_steps.hpp).
#pragma once

#include <deque>

#include "algorithms/optimizer.hpp"
#include "algorithms/push_shares.hpp"

namespace starling::algorithms {

class OverlapSgpSteps {
 public:
  struct Settings {
    PushSchedule schedule;
    Step tau;
    bool is_debiased;
    OptimizerSettings optimizer;
  };
  /// Reads the keys of the schedule, the overlap and the optimizer; the caller calls section.finish().
  static Settings read(const Section& section, const Context& context);

  /// `node` and `settings` outlive the steps.
  OverlapSgpSteps(Node& node, const Settings& settings)
      : node_(node),
        settings_(settings),
        optimizer_(settings.optimizer),
        mass_{node.initial_model(), 1},
        z_(mass_.x) {}

  Task<> take(Step first, Step last);
  /// z = x / w
  const Vector& model() const { return z_; }
  double weight() const { return settings_.is_debiased ? mass_.w : 1; }
  Optimizer& optimizer() { return optimizer_; }

  /// x when all shares up to step `last` have come: nothing is under way, so the mean of w is one.
  Task<Vector> settle(Step last);
  /// From `x` with w = 1.
  Task<> restart(Step last, Vector x);
  /// Takes what is still under way into the final model.
  Task<> finish();

 private:
  /// A share that has been sent, or will be.
  struct Expected {
    Step step;
    NodeId peer;
  };

  const Codec& codec() const { return settings_.schedule.codec(); }
  void fold_arrived();
  Task<> fold_until(Step last);

  Node& node_;
  const Settings& settings_;
  Optimizer optimizer_;
  Mass mass_;
  Vector z_;
  std::deque<Expected> missing_;  // in order of step, then of peer
};

}  // namespace starling::algorithms
