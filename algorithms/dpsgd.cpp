// D-PSGD: decentralized SGD by synchronous gossip averaging. Two published orders, which are not the same
// algorithm (on the complete graph only the second equals allreduce SGD):
//
//   combine_while_adapt   x_i <- sum_j W_ij x_j - learning_rate * g_i(x_i)      communication overlaps the gradient
//   adapt_then_combine    x_i <- sum_j W_ij (x_j - learning_rate * g_j(x_j))
//
// Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms? A Case Study for Decentralized
// Parallel Stochastic Gradient Descent", NeurIPS 2017, Algorithm 1 (the first order). Momentum stays local, or is mixed with the
// models (moment_mixing.hpp): momentum_policy = mix with the second order is DmSGD.

#include <utility>

#include "algorithms/coded_exchange.hpp"
#include "algorithms/moment_mixing.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  bool adapt_then_combine;
  SharedCodec codec;
  GossipMomentum momentum_policy;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const Settings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec);
  const auto moments = mixing_of(settings.momentum_policy, node, settings.codec, optimizer);
  Vector x = node.initial_model();
  // Exchanges that overlap the backward pass send what was computed from, too: tensors leave as their gradients appear.
  const bool sends_first = !settings.adapt_then_combine && !node.plan().overlaps_backward;
  for (Step k = 0; k < node.steps(); ++k) {
    if (sends_first) co_await mixing.send(k, x);
    if (sends_first && moments) co_await moments->send(k);
    const Gradient g = co_await node.gradient_in_pieces(x);
    if (settings.adapt_then_combine) optimizer.update(x, g.values, x, k);
    if (!sends_first) co_await mixing.send(k, x);
    if (!sends_first && moments) co_await moments->send(k);
    const Vector own = std::move(x);
    x = co_await mixing.mix(k, own);
    if (moments) co_await moments->mix(k);
    if (!settings.adapt_then_combine) optimizer.update(x, g.values, own, k);
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

}  // namespace

Program dpsgd(const Section& section, const Context& context) {
  Settings settings;
  settings.adapt_then_combine =
      section.choice("order", {"combine_while_adapt", "adapt_then_combine"}, "combine_while_adapt",
                     "average and step: at once, or step first") == "adapt_then_combine";
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context.steps);
  settings.momentum_policy = read_gossip_momentum(section, context.topology, *settings.codec,
                                                  settings.optimizer, {"keep", "mix"});
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
