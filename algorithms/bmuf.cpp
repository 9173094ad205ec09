// BMUF: blockwise model-update filtering. The average progress of a block of local steps is
// filtered by momentum before it enters the model. All nodes start a block at W_g; after `period`
// local steps x_i <- x_i - lr g_i(x_i):
//
//   G <- mean_i x_i - W_g                                  measured from where the block started
//   D <- block_momentum * D + block_learning_rate * G
//   W <- W + D
//   W_g <- W                         classical block momentum (cbm)
//   W_g <- W + block_momentum * D    Nesterov block momentum (nbm)
//   W_g <- W <- W + block_momentum * D    what fairseq's `use_nbm` does (released): it leaves out that W_g was ahead of W
//
// Chen, Huo, "Scalable Training of Deep Learning Machines by Incremental Block Training with Intra-block Parallel
// Optimization and Blockwise Model-Update Filtering", ICASSP 2016. Their momentum, the default, is 1 - 1/n. Momentum
// of the local steps stays on its node by default, as in fairseq. nbm is DiLoCo with plain SGD inside, cbm is SlowMo
// over local SGD.
//
// With `alone_steps` nodes first take so many steps on their own; then all go on with node 0's model, without local momentum,
// and blocks begin (fairseq's warm-up of 500 steps).

#include "algorithms/block_mean.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct BmufSettings {
  Step period;
  Step alone_steps;
  double block_learning_rate;
  double block_momentum;
  enum class Filter { nbm, cbm, released } filter;
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const BmufSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  BlockMean mean(node, settings.mean);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  Vector start = x;   // W_g
  Vector global = x;  // W
  Vector direction = node.zeros(x.size());
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    const Step block_steps = k + 1 - settings.alone_steps;
    if (block_steps == 0) {
      x = co_await broadcast(node, tag_of(Channel::collective, k), x);
      start = global = x;
      optimizer.forget();
    } else if (block_steps > 0 && block_steps % settings.period == 0) {
      x = co_await mean.of_models(tag_of(Channel::collective, k), x, start, k);
      direction.scale(settings.block_momentum);
      direction.add_scaled(settings.block_learning_rate, difference(x, start));
      global.add(direction);
      start = global;
      if (settings.filter != BmufSettings::Filter::cbm)
        start.add_scaled(settings.block_momentum, direction);
      if (settings.filter == BmufSettings::Filter::released) global = start;
      x = start;
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::tracker, k),
                                     settings.momentum_policy, optimizer, settings.mean.collective);
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program bmuf(const Section& section, const Context& context) {
  BmufSettings settings{};
  settings.period = read_period(section, context, 50);
  settings.alone_steps = read_at_least(
      section, "alone_steps", 0, 0,
      "steps of each node before all go on with the model of node 0, and the first block begins");
  warn_beyond_run(section, "alone_steps", settings.alone_steps, context, "nodes never average");
  settings.block_learning_rate =
      read_positive(section, "block_learning_rate", 1.0, "factor before a block's progress");
  settings.block_momentum = read_share_below_1(
      section, "block_momentum", 1 - 1.0 / context.nodes,
      "share of the last block's step that is kept; 1 - 1 / run.nodes if not given");
  using Filter = BmufSettings::Filter;
  settings.filter = section.choice<Filter>(
      "filter", {{"nbm", Filter::nbm}, {"cbm", Filter::cbm}, {"released", Filter::released}}, "nbm",
      "block momentum: Nesterov (nbm), classical (cbm), or Nesterov as in fairseq (released)");
  settings.optimizer = read_optimizer(section, context);
  settings.momentum_policy =
      read_momentum_policy(section, settings.optimizer, MomentumPolicy::keep);
  settings.mean = read_block_mean(section, context, settings.momentum_policy);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
