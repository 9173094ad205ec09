// Local gossip: H local steps, then one mixing step with a matrix that may change from round to
// round,
//
//   X <- X - learning_rate * G   (H times);   X <- X W_r   in round r = 0, 1, ..
//
//   topology          W_r is the scenario's topology at step r of its period
//   random_matching   W_r averages disjoint random pairs of neighbors, the same draw on all nodes
//
// Compressed, mixing keeps the mean model, but for pairs that send lattice codes: as in SwarmSGD both take the mean of what
// the codes say, and are equal.
//
// Koloskova, Loizou, Boreiri, Jaggi, Stich, "A Unified Theory of Decentralized SGD with Changing
// Topology and Local Updates", ICML 2020, Algorithm 1; it converges if, over some rounds, mixing
// shrinks the distance from the mean in expectation. Momentum stays local, is mixed with the
// models (moment_mixing.hpp), or begins anew after every mixing.
//
// It is also cooperative SGD, A(tau, W, v) with tau = H (Wang, Joshi, "Cooperative SGD", JMLR 2021):
// the first v = `auxiliary` nodes hold auxiliary models, which take part in the mixing and have no
// gradient; evaluations and epochs count them like any node. With J = 1/n everywhere, A(1, J, 0) is
// allreduce SGD, A(H, J, 0) local SGD, A(1, W, 0) D-PSGD that adapts first; on a star, whose center is
// node 0, A(H, W, 1) is elastic averaging (EASGD). Also one-peer and random-matching SGD.

#include <memory>

#include "algorithms/averaging.hpp"
#include "algorithms/coded_exchange.hpp"
#include "algorithms/matching.hpp"
#include "algorithms/moment_mixing.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct LocalGossipSettings {
  Step local_steps;  // H
  SharedCodec codec;
  NodeId auxiliary;  // v
  MomentumPolicy momentum_policy;
  OptimizerSettings optimizer;
};

/// `matching` is shared by all nodes of the run: they ask it the same questions. Empty: the
/// topology decides.
Task<> run(Node& node, std::shared_ptr<Matching> matching, const LocalGossipSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec);
  const auto moments = mixing_of(settings.momentum_policy, node, settings.codec, optimizer);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    if (node.id() >= settings.auxiliary) {
      const Gradient g = co_await node.gradient(x);
      optimizer.update(x, g.values, x, k);
    }
    if ((k + 1) % settings.local_steps == 0) {
      const Step round = k / settings.local_steps;
      if (!matching) {
        co_await mixing.send(round, x);
        if (moments) co_await moments->send(round);
        x = co_await mixing.mix(round, x);
        if (moments) co_await moments->mix(round);
      } else {
        const NodeId peer = matching->partner(node, round);
        if (peer != node.id()) x = co_await average_with(node, peer, round, x, settings.codec);
      }
      if (settings.momentum_policy == MomentumPolicy::reset) optimizer.forget();
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program local_gossip(const Section& section, const Context& context) {
  LocalGossipSettings settings{};
  settings.local_steps =
      read_period(section, context, 1, "local_steps", "steps between two rounds of mixing");
  settings.auxiliary = static_cast<NodeId>(read_whole(
      section, "auxiliary", 0, 0, context.nodes - 1,
      "so many nodes, from the first on, only mix and compute no gradients; samples, epochs and "
      "throughput count their steps, too"));
  const bool is_matching = section.choice<bool>(
      "mixing", {{"topology", false}, {"random_matching", true}}, "topology",
      "mix over the whole topology, or in random pairs of its neighbors; pairs with lattice "
      "codes both take the mean of what these say, which moves the mean model");
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context);
  settings.momentum_policy =
      read_gossip_momentum(section, context.topology, *settings.codec, settings.optimizer,
                           {MomentumPolicy::keep, MomentumPolicy::mix, MomentumPolicy::reset});
  const bool mixes_moments = settings.momentum_policy == MomentumPolicy::mix;
  section.expect(!mixes_moments || !is_matching, "momentum_policy",
                 "= mix needs mixing = topology");
  section.expect(!mixes_moments || settings.auxiliary == 0, "momentum_policy",
                 "= mix needs auxiliary = 0: auxiliary nodes have no moments");
  section.finish();
  const auto matching = is_matching ? std::make_shared<Matching>(context.nodes) : nullptr;
  return [settings, matching](Node& node) { return run(node, matching, settings); };
}

}  // namespace starling::algorithms
