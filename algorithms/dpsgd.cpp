// D-PSGD: decentralized SGD by synchronous gossip averaging. Two published orders, which are not the same
// algorithm (on the complete graph only the second equals allreduce SGD):
//
//   combine_while_adapt   x_i <- sum_j W_ij x_j - learning_rate * g_i(x_i)      communication overlaps the gradient
//   adapt_then_combine    x_i <- sum_j W_ij (x_j - learning_rate * g_j(x_j))
//
// With `rounds` R models are mixed R times per step, W^R in place of W; where W changes, a round is a step of its schedule:
// W_kR ... W_(kR+R-1) at step k. Rounds but the first begin when the one before has ended, after the gradient.
//
// With a `global_period` H the models of all nodes are averaged at every H-th step, in place of mixing; with the second order this is
// Gossip-PGA (Chen, Yuan, Zhang, Pan, Xu, Yin, "Accelerating Gossip SGD with Periodic Global Averaging", ICML 2021, Algorithm 1).
//
// Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms? A Case Study for Decentralized
// Parallel Stochastic Gradient Descent", NeurIPS 2017, Algorithm 1 (the first order). Momentum stays local, or is mixed with the
// models (moment_mixing.hpp): momentum_policy = mix with the second order is DmSGD.

#include <cstdint>

#include "algorithms/averaging.hpp"
#include "algorithms/coded_exchange.hpp"
#include "algorithms/moment_mixing.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct DpsgdSettings {
  bool adapt_then_combine;
  std::int64_t rounds;  // of mixing per step
  Step global_period;   // 0: models are only mixed
  CollectiveKind collective;
  SharedCodec codec;
  MomentumPolicy momentum_policy;
  OptimizerSettings optimizer;

  /// Whether all average at the end of step k.
  bool is_global(Step k) const { return global_period > 0 && (k + 1) % global_period == 0; }
};

Task<> run(Node& node, const DpsgdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec);
  const auto moments = mixing_of(settings.momentum_policy, node, settings.codec, optimizer);
  Vector x = node.initial_model();
  // Exchanges that overlap the backward pass send what was computed from, too: tensors leave as their gradients appear.
  const bool may_send_first = !settings.adapt_then_combine && !node.plan().overlaps_backward;
  for (Step k = 0; k < node.steps(); ++k) {
    const Step first = k * settings.rounds;
    const bool is_global = settings.is_global(k);
    const bool sends_first = may_send_first && !is_global;
    if (sends_first) co_await mixing.send(first, x);
    if (sends_first && moments) co_await moments->send(first);
    const Gradient g = co_await node.gradient_in_pieces(x);
    if (settings.adapt_then_combine) optimizer.update(x, g.values, x, k);
    const Vector own = x;
    if (is_global) {
      x = co_await average(node, node.everybody(), tag_of(Channel::collective, k), x,
                           settings.collective);
    }
    const Step end = is_global ? first : first + settings.rounds;
    for (Step round = first; round < end; ++round) {
      const bool is_sent = sends_first && round == first;
      if (!is_sent) co_await mixing.send(round, x);
      if (!is_sent && moments) co_await moments->send(round);
      x = co_await mixing.mix(round, x);
      if (moments) co_await moments->mix(round);
    }
    if (!settings.adapt_then_combine) optimizer.update(x, g.values, own, k);
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

}  // namespace

Program dpsgd(const Section& section, const Context& context) {
  DpsgdSettings settings{};
  settings.adapt_then_combine =
      section.choice<bool>("order", {{"combine_while_adapt", false}, {"adapt_then_combine", true}},
                           "combine_while_adapt",
                           "average and step: at once, and models travel during the gradient, or "
                           "step first, and they travel after it");
  settings.rounds = read_whole(section, "rounds", 1, 1, 1000, "rounds of mixing per step");
  settings.global_period =
      read_at_least(section, "global_period", 0, 0,
                    "steps after each of which all models are averaged, in place of mixing "
                    "(Gossip-PGA, with order = adapt_then_combine); 0: none");
  warn_beyond_run(section, "global_period", settings.global_period, context, "nodes only mix");
  if (settings.global_period > 0) settings.collective = read_collective(section);
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context);
  if (settings.adapt_then_combine) expect_steps_by_piece(section, settings.optimizer);
  settings.momentum_policy =
      read_gossip_momentum(section, context.topology, *settings.codec, settings.optimizer,
                           {MomentumPolicy::keep, MomentumPolicy::mix});
  section.expect(settings.global_period == 0 || settings.momentum_policy != MomentumPolicy::mix,
                 "momentum_policy", "must not be mix with a global_period: moments stay local");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
