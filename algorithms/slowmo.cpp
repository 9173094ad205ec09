// SlowMo: momentum on the progress of whole blocks of steps of a cheaper base algorithm. After
// `period` base steps from the common model x_0, with the learning rate gamma of the block's last
// step:
//
//   x'  <- mean_i x_i                                exact average
//   u   <- slow_momentum * u + (x_0 - x') / gamma
//   x_i <- x_0 - slow_learning_rate * gamma * u
//
// base = local   x_i <- x_i - gamma * g_i(x_i)                        no exchange inside a block
// base = gossip  x_i <- sum_j W_ij x_j - gamma * g_i(x_i)             D-PSGD inside a block
//
// Wang, Tantia, Ballas, Rabbat, "SlowMo: Improving Communication-Efficient Distributed SGD with
// Slow Momentum", ICLR 2020, Algorithm 1. Dividing by gamma lets u survive a change of the learning
// rate. What becomes of the base's momentum at the end of a block is an option of the paper; reset
// is the default here.

#include "algorithms/averaging.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  Step period;
  double slow_learning_rate;
  double slow_momentum;
  bool gossips;
  MomentumPolicy momentum_policy;
  CollectiveKind collective;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const Settings& settings) {
  Optimizer optimizer(settings.optimizer);
  const std::vector<NodeId> everybody = all_nodes(node);
  Vector x = node.initial_model();
  Vector start = x;  // of the block
  Vector u = node.zeros(x.size());
  for (Step k = 0; k < node.steps(); ++k) {
    if (settings.gossips) co_await send_to_neighbors(node, k, x);
    const Gradient g = co_await node.gradient(x);
    const Vector old = x;
    if (settings.gossips) x = co_await mix_with_neighbors(node, k, x);
    optimizer.update(x, g.values, old, k);

    if ((k + 1) % settings.period == 0) {
      const double rate = settings.optimizer.rate(k);
      x = co_await average(node, everybody, tag_of(Channel::collective, 2 * k), x,
                           settings.collective);
      u.scale(settings.slow_momentum);
      u.add_scaled(1 / rate, difference(start, x));
      x = start;
      x.add_scaled(-settings.slow_learning_rate * rate, u);
      start = x;
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::collective, 2 * k + 1),
                                     settings.momentum_policy, optimizer, settings.collective);
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program slowmo(const Section& section, const Context& context) {
  Settings settings;
  settings.period = read_period(section, 12);
  settings.slow_learning_rate =
      section.optional<double>("slow_learning_rate", 1.0, "factor of the slow step (alpha)");
  section.expect(settings.slow_learning_rate > 0, "slow_learning_rate", "must be positive, got {}",
                 settings.slow_learning_rate);
  settings.slow_momentum =
      section.optional<double>("slow_momentum", 0.5, "share of the last slow step kept (beta)");
  section.expect(settings.slow_momentum >= 0 && settings.slow_momentum < 1, "slow_momentum",
                 "must be in [0, 1), got {}", settings.slow_momentum);
  settings.gossips = section.choice("base", {"local", "gossip"}, "local",
                                    "what happens inside a block") == "gossip";
  settings.momentum_policy = read_momentum_policy(section, "reset");
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
