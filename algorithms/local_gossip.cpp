// Local gossip: H local steps, then one mixing step with a matrix that may change from round to
// round,
//
//   X <- X - learning_rate * G   (H times);   X <- X W_r   in round r = 0, 1, ..
//
//   topology          W_r is the scenario's topology at step r of its period
//   random_matching   W_r averages disjoint random pairs of neighbors, the same draw on all nodes
//
// Koloskova, Loizou, Boreiri, Jaggi, Stich, "A Unified Theory of Decentralized SGD with Changing
// Topology and Local Updates", ICML 2020, Algorithm 1; it converges if, over some rounds, mixing
// shrinks the distance from the mean in expectation. Instances: local SGD (complete topology),
// D-PSGD that adapts first (H = 1), one-peer and random-matching SGD, and the framework of
// cooperative SGD (Wang, Joshi, 2018) without auxiliary models. Momentum stays local.

#include <memory>

#include "algorithms/exchange.hpp"
#include "algorithms/matching.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  Step local_steps;  // H
  OptimizerSettings optimizer;
};

/// `matching` is shared by all nodes of the run: they ask it the same questions. Empty: the
/// topology decides.
Task<> run(Node& node, std::shared_ptr<Matching> matching, Settings settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    if ((k + 1) % settings.local_steps == 0) {
      const Step round = k / settings.local_steps;
      if (!matching) {
        co_await send_to_neighbors(node, round, x);
        x = co_await mix_with_neighbors(node, round, x);
      } else {
        const NodeId peer = matching->partner(node, round);
        if (peer != node.id()) x = co_await average_with(node, peer, round, x);
      }
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program local_gossip(const Section& section, const Context& context) {
  Settings settings;
  settings.local_steps =
      section.optional<std::int64_t>("local_steps", 1, "steps between two rounds of mixing");
  section.expect(settings.local_steps >= 1, "local_steps", "must be at least 1, got {}",
                 settings.local_steps);
  const bool is_matching =
      section.choice("mixing", {"topology", "random_matching"}, "topology",
                     "mix over the whole topology, or in random pairs of its neighbors") ==
      "random_matching";
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  const auto matching = is_matching ? std::make_shared<Matching>() : nullptr;
  return [settings, matching](Node& node) { return run(node, matching, settings); };
}

}  // namespace starling::algorithms
