// ADPSGD, adaptive periodic averaging (not AD-PSGD): local SGD that chooses its period p by how far
// the models drift apart. At every averaging, with the learning rate gamma of that step,
//
//   S <- (1/n) sum_i ||mean(x) - x_i||^2
//   before `switch_step`        models are averaged at every step, as if p were 1
//   before `sampling_steps`, and at the first averaging after `switch_step`
//                               C <- mean of S / gamma so far;   p stays
//   afterwards                  S < low * gamma * C   =>   p <- p + 1
//                               S > high * gamma * C  =>   p <- max(1, p - 1)
//
// so that the drift stays proportional to the learning rate. S is summed over all nodes, so p is
// the same on each.
//
// Jiang, Agrawal, "Adaptive Periodic Averaging: A Practical Approach to Reducing Communication in
// Distributed Learning", 2020. Defaults: p starts at 4, C is sampled for the first quarter of all
// steps, low = 0.7, high = 1.3. In the paper, p is 1 in the first epoch: switch_step is its steps. C is
// sampled only after it, as models drift less in one step than in p. S depends on the models, so every
// averaging waits for the arithmetic; without numbers (workload `timing`) p stays.

#include <algorithm>

#include "algorithms/block_mean.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct AdaptivePeriodSettings {
  Step period;
  Step switch_step;
  Step sampling_steps;
  double low;
  double high;
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;
  OptimizerSettings optimizer;
};

/// The period and what it is steered by.
class AdaptivePeriod {
 public:
  explicit AdaptivePeriod(const AdaptivePeriodSettings& settings)
      : settings_(settings), period_(settings.period) {}

  /// Local steps between the averagings before and after step k.
  Step at(Step k) const { return k < settings_.switch_step ? 1 : period_; }

  /// Takes the drift `s` found when averaging after step k. At a learning rate of 0 it tells nothing.
  void adapt(Step k, double s) {
    const double rate = settings_.optimizer.rate(k);
    if (k < settings_.switch_step || rate == 0) return;
    if (k < settings_.sampling_steps || samples_ == 0) {
      ++samples_;
      drift_per_rate_ += (s / rate - drift_per_rate_) / samples_;
    } else if (s < settings_.low * rate * drift_per_rate_) {
      ++period_;
    } else if (s > settings_.high * rate * drift_per_rate_) {
      period_ = std::max<Step>(1, period_ - 1);
    }
  }

 private:
  const AdaptivePeriodSettings& settings_;
  Step period_;
  double samples_ = 0;
  double drift_per_rate_ = 0;  // C
};

Task<> run(Node& node, const AdaptivePeriodSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  AdaptivePeriod period(settings);
  BlockMean mean(node, settings.mean);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  Vector start = x;  // of the period
  Step local_steps = 0;
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    ++local_steps;
    if (local_steps == period.at(k)) {
      local_steps = 0;
      const Vector local = x;
      x = co_await mean.of_models(tag_of(Channel::collective, k), x, start, k);
      start = x;
      const bool has_numbers = static_cast<bool>(g.loss);
      const double own = has_numbers ? squared_distance(x, local).value() : 0;
      const double sum = co_await sum_of_numbers(node, tag_of(Channel::drift, k), own);
      if (has_numbers) period.adapt(k, sum / node.nodes());
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::tracker, k),
                                     settings.momentum_policy, optimizer, settings.mean.collective);
    }
    node.record("period", k, static_cast<double>(period.at(k + 1)));
    node.end_step(k, x);
  }
}

}  // namespace

Program adaptive_period(const Section& section, const Context& context) {
  AdaptivePeriodSettings settings{};
  settings.period = read_period(section, context, 4);
  settings.switch_step = read_at_least(
      section, "switch_step", 0, 0,
      "steps with an averaging each before the first period (an epoch's in the paper)");
  settings.sampling_steps = read_at_least(
      section, "sampling_steps", context.steps / 4, 0,
      "steps before the period changes; the drift is sampled in them, but for those before "
      "switch_step; run.steps / 4 if not given");
  warn_beyond_run(section, "sampling_steps", settings.sampling_steps, context,
                  "the period never changes");
  section.expect(settings.switch_step == 0 || settings.sampling_steps > settings.switch_step,
                 "switch_step", "must leave steps to sample the drift in, of {}, got {}",
                 settings.sampling_steps, settings.switch_step);
  settings.low = read_not_negative(section, "low", 0.7,
                                   "share of the sampled drift under which the period grows");
  settings.high = section.optional<double>(
      "high", 1.3, "share of the sampled drift over which the period shrinks");
  section.expect(settings.high >= settings.low, "high", "must be at least low ({}), got {}",
                 settings.low, settings.high);
  settings.optimizer = read_optimizer(section, context);
  settings.momentum_policy =
      read_momentum_policy(section, settings.optimizer, MomentumPolicy::keep);
  settings.mean = read_block_mean(section, context, settings.momentum_policy);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
