// AD-PSGD: asynchronous decentralized SGD. Every node computes without ever waiting; beside it, it averages its
// model pairwise with random neighbors.
//
//   compute    s <- x;  g <- gradient(s);  x <- x - learning_rate * g         a stale gradient on the current x
//   active     a <- x;  b <- the neighbor's model;  x <- x + (b - a) / 2
//   passive    on a request with model m:  a <- x;  x <- x + (m - a) / 2;  answer a
//
// Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018. The paper avoids
// deadlock by a bipartite graph; here any graph works, see pair_averaging.hpp. A node starts `exchanges_per_step`
// exchanges per gradient, one after the other.

#include "algorithms/companions.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/pair_averaging.hpp"
#include "algorithms/pieces.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  Step exchanges_per_step;
  SharedCodec codec;
  OptimizerSettings optimizer;
};

/// What the fibres of one node share.
struct State {
  State(Node& node, const SharedCodec& codec)
      : x(node.initial_model()),
        pairs(node, x, {.codec = codec}, node.plan().overlaps_backward),
        gradient_begun(node),
        companions(node) {}

  Vector x;
  PairAveraging pairs;
  Step begun = 0;  // gradients: allows that many times exchanges_per_step exchanges
  Signal gradient_begun;
  Companions companions;
};

Task<> gossip(Node& node, State& state, Step exchanges_per_step) {
  const std::vector<NodeId>& peers = state.pairs.peers();
  const Step exchanges = node.steps() * exchanges_per_step;
  for (Step e = 0; e < exchanges && !peers.empty(); ++e) {
    while (e >= state.begun * exchanges_per_step) co_await state.gradient_begun.wait();
    Random random = node.random("partner", e);
    const NodeId peer = peers[random.below(peers.size())];
    co_await state.pairs.exchange(peer);
  }
  co_await state.pairs.finish();
  state.companions.leave();
}

/// What it costs that exchanges go on in a copy in host memory: every tensor comes there, is averaged with the copy, is
/// copied, and goes back, as its gradient appears (the released code of the WAGMA-SGD paper).
Task<> meet_copy_on_host(Node& node, Vector x) {
  const Cut cut(node, x);
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Vector part = cut.part(i);
    co_await node.ready(cut[i]);
    co_await node.stage(part);
    co_await node.reduce(part, 2);
    co_await node.stage(part);
  }
  co_await node.finish_backward();
}

Task<> run(Node& node, Settings settings) {
  Optimizer optimizer(settings.optimizer);
  State state(node, settings.codec);
  state.pairs.begin();
  state.companions.enter();
  node.spawn(gossip(node, state, settings.exchanges_per_step));
  for (Step k = 0; k < node.steps(); ++k) {
    ++state.begun;
    state.gradient_begun.notify();
    const Vector snapshot = state.x;
    const Gradient g = co_await node.gradient_in_pieces(snapshot);
    if (node.plan().overlaps_backward) co_await meet_copy_on_host(node, snapshot);
    optimizer.update(state.x, g.values, snapshot, k);
    node.end_step(k, state.x);
  }
  co_await state.companions.join();
  node.set_final_model(state.x);  // exchanges went on after the last step
}

}  // namespace

Program adpsgd(const Section& section, const Context& context) {
  Settings settings;
  settings.exchanges_per_step = section.optional<std::int64_t>(
      "exchanges_per_step", 1, "exchanges a node starts per gradient");
  section.expect(settings.exchanges_per_step >= 1, "exchanges_per_step",
                 "must be at least 1, got {}", settings.exchanges_per_step);
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
