// Randomized pairwise gossip: a node wakes at the ticks of a Poisson clock of its own, picks a
// random neighbor, and both take the average of their models; beside it, every node computes
// without waiting.
//
//   gossip    at every tick:  x_i, x_j <- (x_i + x_j) / 2,   j a random neighbor of i
//   compute   s <- x;  g <- gradient(s);  x <- x - learning_rate * g     (the gradient is stale: x has moved on)
//
// Boyd, Ghosh, Prabhakar, Shah, "Randomized Gossip Algorithms", IEEE Trans. Information Theory
// 52(6), 2006, without gradients (curvature 0); one tick multiplies the models, in expectation, by
// I - D / 2n + (P + P^T) / 2n, where P_ij is the chance that i picks j and D_ii = sum_j (P_ij +
// P_ji). Averaging keeps pace with time, not, as in AD-PSGD, with steps: fast and slow nodes gossip
// equally often. A tick during an exchange waits for its end. Momentum stays on its node.

#include <algorithm>

#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/pair_averaging.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct PairwiseGossipSettings {
  Duration interval;
  Duration patience;
  SharedCodec codec;
  OptimizerSettings optimizer;
};

constexpr Tag stop = tag_of(Channel::entry);

/// What the fibres of one node share.
struct GossipState {
  GossipState(Node& node, const PairwiseGossipSettings& settings)
      : x(node.initial_model()),
        pairs(node, x, {.patience = settings.patience, .codec = settings.codec}),
        companions(node) {}

  Vector x;
  PairAveraging pairs;
  Companions companions;
};

Task<> gossip(Node& node, GossipState& state, Duration interval) {
  const Pattern patterns[] = {{node.id(), stop}};
  const std::size_t peers = state.pairs.peers();
  Time tick = node.now();
  for (Step e = 0; peers > 0; ++e) {
    Random random = node.random("gossip", e);
    tick = after(tick, from_seconds(to_seconds(interval) * random.exponential()));
    const Node::Select::Result got = co_await node.select(patterns, std::max(tick, node.now()));
    if (got.index == 0) break;
    co_await state.pairs.exchange(state.pairs.peer(random.below(peers)));
  }
  co_await state.pairs.finish();
}

Task<> run(Node& node, const PairwiseGossipSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  GossipState state(node, settings);
  state.pairs.begin();
  state.companions.spawn(gossip(node, state, settings.interval));
  for (Step k = 0; k < node.steps(); ++k) {
    const Vector snapshot = state.x;
    const Gradient g = co_await node.gradient(snapshot);
    optimizer.update(state.x, g.values, snapshot, k);
    node.end_step(k, state.x);
  }
  node.send(node.id(), stop);
  co_await state.companions.join();
  node.set_final_model(state.x);  // exchanges went on after the last step
}

}  // namespace

Program pairwise_gossip(const Section& section, const Context& context) {
  PairwiseGossipSettings settings{};
  settings.interval =
      section.optional<Duration>("interval", std::chrono::milliseconds(1),
                                 "mean time between two exchanges that a node starts");
  section.expect(settings.interval > Duration::zero(), "interval", "must be positive, got {}",
                 to_text(settings.interval));
  settings.patience = read_patience(section);
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context);
  section.note_other("topology");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
