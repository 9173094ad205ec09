// DiLoCo: local training in long blocks, joined by an outer optimizer. From the common model theta
// every node takes `period` inner steps to x_i; then, with the outer learning rate eta and momentum
// mu,
//
//   D     <- mean_i (theta - x_i)                  the outer gradient
//   m     <- mu * m + D
//   theta <- theta - eta * (D + mu * m)            Nesterov
//   x_i   <- theta
//
// Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023, Algorithm 1. Inner
// optimizer state stays on its node from block to block, unless `momentum_policy` says otherwise. The inner rule has
// the keys of all algorithms; the paper's is optimizer = adamw with weight_decay = 0.1. Outer defaults are the
// paper's: 500 inner steps, eta = 0.7, mu = 0.9; outer_optimizer = adagrad or adam are the adaptive ones it compares
// with.

#include "algorithms/block_mean.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"

namespace starling::algorithms {
namespace {

struct DilocoSettings {
  Step period;
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;
  OptimizerSettings outer;
  OptimizerSettings inner;
};

Task<> run(Node& node, const DilocoSettings& settings) {
  Optimizer inner(settings.inner);
  Optimizer outer(settings.outer);
  BlockMean mean(node, settings.mean);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  Vector theta = x;
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    inner.update(x, g.values, x, k);
    if ((k + 1) % settings.period == 0) {
      Vector d = difference(theta, x);
      d = co_await mean.of_progress(tag_of(Channel::collective, k), d, k);
      outer.update(theta, d, theta, k);
      x = theta;
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::tracker, k),
                                     settings.momentum_policy, inner, settings.mean.collective);
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program diloco(const Section& section, const Context& context) {
  DilocoSettings settings{};
  settings.period = read_period(section, context, 500);
  settings.outer = read_outer_optimizer(section, 0.7, 0.9);
  settings.inner = read_optimizer(section, context);
  settings.momentum_policy = read_momentum_policy(section, settings.inner, MomentumPolicy::keep);
  settings.mean = read_block_mean(section, context, settings.momentum_policy);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
