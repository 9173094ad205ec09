#include "algorithms/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/elementary.hpp"

namespace starling::algorithms {

OptimizerSettings read_optimizer(const Section& section, Step steps) {
  OptimizerSettings s;
  s.steps = steps;
  s.learning_rate = section.required<double>("learning_rate", "factor before the gradient");
  section.expect(s.learning_rate > 0, "learning_rate", "must be positive, got {}", s.learning_rate);
  s.momentum = section.optional<double>("momentum", 0.0,
                                        "share of the last step that is kept; local to the node");
  section.expect(s.momentum >= 0 && s.momentum < 1, "momentum", "must be in [0, 1), got {}",
                 s.momentum);
  s.nesterov = section.optional<bool>("nesterov", false, "look-ahead form of momentum");
  section.expect(!s.nesterov || s.momentum > 0, "nesterov", "needs momentum > 0");
  s.weight_decay =
      section.optional<double>("weight_decay", 0.0, "share of the model added to the gradient");
  section.expect(s.weight_decay >= 0, "weight_decay", "must not be negative, got {}",
                 s.weight_decay);
  s.schedule = section.choice("schedule", {"constant", "step", "cosine"}, "constant",
                              "how the learning rate changes with the node's step");
  s.warmup_steps =
      section.optional<std::int64_t>("warmup_steps", 0, "steps of linear rise to learning_rate");
  section.expect(s.warmup_steps >= 0, "warmup_steps", "must not be negative, got {}",
                 s.warmup_steps);
  if (s.schedule == "step") {
    s.decay_steps = section.numbers("decay_steps", {}, "steps at which the learning rate falls");
    section.expect(!s.decay_steps.empty(), "decay_steps",
                   "must list the steps for schedule = step");
    section.expect(std::is_sorted(s.decay_steps.begin(), s.decay_steps.end()), "decay_steps",
                   "must grow");
    s.decay_factor = section.optional<double>("decay_factor", 0.1, "factor at each of decay_steps");
    section.expect(s.decay_factor > 0, "decay_factor", "must be positive, got {}", s.decay_factor);
  }
  return s;
}

double OptimizerSettings::rate(Step k) const {
  if (k < warmup_steps) {
    return learning_rate * static_cast<double>(k + 1) / static_cast<double>(warmup_steps);
  }
  if (schedule == "cosine") {
    const double span = static_cast<double>(std::max<Step>(1, steps - warmup_steps));
    const double done = std::min(1.0, static_cast<double>(k - warmup_steps) / span);
    return learning_rate * 0.5 * (1 + exact_cos_turns(0.5 * done));
  }
  double rate = learning_rate;
  for (const double at : decay_steps) {
    if (static_cast<double>(k) >= at) rate *= decay_factor;
  }
  return rate;
}

void Optimizer::update(Vector& x, const Vector& g, const Vector& at, Step k) {
  x.add_scaled(-settings_.rate(k), direction(g, at));
}

Vector Optimizer::direction(const Vector& g, const Vector& at) {
  Vector step = g;
  if (settings_.weight_decay > 0) step.add_scaled(settings_.weight_decay, at);
  if (settings_.momentum > 0) {
    if (velocity_) {
      velocity_.scale(settings_.momentum);
      velocity_.add(step);
    } else {
      velocity_ = step;
    }
    if (settings_.nesterov) {
      step.add_scaled(settings_.momentum, velocity_);
    } else {
      step = velocity_;
    }
  }
  return step;
}

}  // namespace starling::algorithms
