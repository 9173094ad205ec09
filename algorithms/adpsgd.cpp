// AD-PSGD: asynchronous decentralized SGD. Every node computes without ever waiting; beside it, it averages its
// model pairwise with random neighbors.
//
//   compute    s <- x;  g <- gradient(s);  x <- x - learning_rate * g         a stale gradient on the current x
//   active     a <- x;  b <- the neighbor's model;  x <- x + (b - a) / 2
//   passive    on a request with model m:  a <- x;  x <- x + (m - a) / 2;  answer a
//
// Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018. The paper avoids
// deadlock by a bipartite graph; here a node answers requests while it waits for its own answer, so any graph
// works, and the difference form keeps what either side applied meanwhile: every exchange conserves x_i + x_j.
// Two nodes whose requests cross have exchanged already: each takes the other's request for its answer.
// A node starts `exchanges_per_step` exchanges per gradient, one after the other.

#include <algorithm>

#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  Step exchanges_per_step;
  OptimizerSettings optimizer;
};

constexpr NodeId nobody = -1;

/// What the fibres of one node share.
struct State {
  State(Node& node, const Settings& settings)
      : node(node),
        settings(settings),
        optimizer(settings.optimizer),
        x(node.initial_model()),
        changed(node) {}

  Node& node;
  Settings settings;
  Optimizer optimizer;
  Vector x;
  Vector sent;              // model in the request under way
  NodeId partner = nobody;  // to whom it went
  Step begun = 0;           // gradients begun: allows that many exchanges
  int fibres_left = 2;      // active, passive
  Signal changed;           // any of the above
};

/// x <- x + (theirs - ours) / 2
void average(Vector& x, const Vector& ours, const Vector& theirs) {
  x.add_scaled(0.5, theirs);
  x.add_scaled(-0.5, ours);
}

/// Starts exchanges; their answers come to passive().
Task<> active(State& state) {
  Node& node = state.node;
  const std::vector<NodeId> peers = node.topology().neighbors(node.id());
  const Step exchanges = node.steps() * state.settings.exchanges_per_step;
  for (Step e = 0; e < exchanges && !peers.empty(); ++e) {
    while (e >= state.begun * state.settings.exchanges_per_step) co_await state.changed.wait();
    Random random = node.random("partner", e);
    state.partner = peers[random.below(peers.size())];
    state.sent = state.x;
    node.send(state.partner, tag_of(Channel::request), state.sent);
    while (state.partner != nobody) co_await state.changed.wait();
  }
  for (const NodeId peer : peers) node.send(peer, tag_of(Channel::done));
  node.send(node.id(), tag_of(Channel::done));
  --state.fibres_left;
  state.changed.notify();
}

/// Answers requests and takes answers until all that may ask, this node included, are done.
Task<> passive(State& state, std::size_t initiators) {
  Node& node = state.node;
  const Pattern patterns[] = {{any_source, tag_of(Channel::request)},
                              {any_source, tag_of(Channel::reply)},
                              {any_source, tag_of(Channel::done)}};
  while (initiators > 0) {
    const Node::Select::Result got = co_await node.select(patterns);
    const Message& m = got.message;
    if (got.index == 2) {
      --initiators;
    } else if (m.source == state.partner) {  // an answer, or a request that crossed ours
      average(state.x, state.sent, m.values);
      state.partner = nobody;
      state.sent = {};
      state.changed.notify();
    } else {
      const Vector ours = state.x;
      average(state.x, ours, m.values);
      node.send(m.source, tag_of(Channel::reply), ours);
    }
  }
  --state.fibres_left;
  state.changed.notify();
}

/// How many nodes may send requests to `id`, or wait for its answers: those that ever send to it, and itself.
std::size_t initiators_of(NodeId id, const Topology& topology) {
  std::vector<NodeId> senders{id};
  for (std::size_t p = 0; p < topology.period(); ++p) {
    for (const Edge& edge : topology.in(id, static_cast<Step>(p))) senders.push_back(edge.peer);
  }
  std::sort(senders.begin(), senders.end());
  return static_cast<std::size_t>(std::unique(senders.begin(), senders.end()) - senders.begin());
}

Task<> run(Node& node, Settings settings) {
  State state(node, settings);
  node.spawn(active(state));
  node.spawn(passive(state, initiators_of(node.id(), node.topology())));
  for (Step k = 0; k < node.steps(); ++k) {
    ++state.begun;
    state.changed.notify();
    const Vector snapshot = state.x;
    const Gradient g = co_await node.gradient(snapshot);
    state.optimizer.update(state.x, g.values, snapshot, k);
    node.end_step(k, state.x);
  }
  while (state.fibres_left > 0) co_await state.changed.wait();
  node.set_final_model(state.x);  // exchanges went on after the last step
}

}  // namespace

Program adpsgd(const Section& section, const Context& context) {
  Settings settings;
  settings.exchanges_per_step = section.optional<std::int64_t>(
      "exchanges_per_step", 1, "exchanges a node starts per gradient");
  section.expect(settings.exchanges_per_step >= 1, "exchanges_per_step",
                 "must be at least 1, got {}", settings.exchanges_per_step);
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
