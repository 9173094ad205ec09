// Local SGD (periodic model averaging): every node takes `period` steps on its own, then all models are averaged.
//
//   x_i <- x_i - learning_rate * g_i(x_i);   after every `period`-th step   x_i <- mean_j x_j
//
// Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019. Momentum buffers are kept by default, as
// in Lin et al., ICLR 2020; `average` and `reset` give other trajectories for period > 1.
//
// Post-local SGD: before `switch_step` every step is one of allreduce SGD,
//
//   x <- x - learning_rate * mean_i g_i(x)
//
// and periods count from there. Lin, Stich, Patel, Jaggi, "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020,
// who switch when the learning rate falls first.
//
// With `compression` nodes send codes of what they have moved since the last mean (block_mean.hpp): FedPAQ, Qsparse-local-SGD.

#include "algorithms/averaging.hpp"
#include "algorithms/block_mean.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  Step period;
  Step switch_step;
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const Settings& settings) {
  Optimizer optimizer(settings.optimizer);
  BlockMean mean(node, settings.mean);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  Vector start = x;  // of the period
  for (Step k = 0; k < node.steps(); ++k) {
    Gradient g = co_await node.gradient_in_pieces(x);
    const Step local_steps = k + 1 - settings.switch_step;  // since the switch, with this one
    if (local_steps <= 0) {
      g.values = co_await average(node, everybody, tag_of(Channel::collective, 2 * k), g.values,
                                  settings.mean.collective);
    }
    optimizer.update(x, g.values, x, k);
    if (local_steps > 0 && local_steps % settings.period == 0) {
      x = co_await mean.of_models(tag_of(Channel::collective, 2 * k), x, start, k);
      start = x;
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::collective, 2 * k + 1),
                                     settings.momentum_policy, optimizer, settings.mean.collective);
    }
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

}  // namespace

Program local_sgd(const Section& section, const Context& context) {
  Settings settings;
  const auto period =
      section.required<std::int64_t>("period", "local steps between two averagings");
  settings.period = check_period(section, "period", period, context);
  settings.switch_step = section.optional<std::int64_t>(
      "switch_step", 0, "steps of allreduce SGD before the first local one (post-local SGD)");
  section.expect(settings.switch_step >= 0, "switch_step", "must not be negative, got {}",
                 settings.switch_step);
  warn_beyond_run(section, "switch_step", settings.switch_step, context, "no step is local");
  settings.optimizer = read_optimizer(section, context);
  settings.momentum_policy = read_momentum_policy(section, settings.optimizer, "keep");
  settings.mean = read_block_mean(section, settings.momentum_policy);
  section.expect(
      settings.switch_step == 0 || settings.mean.compression.is_exact(), "switch_step",
      "must be 0 with compression: codes are of what models have moved, not of gradients");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
