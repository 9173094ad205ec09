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

/// What the fibres of one node share.
struct State {
  State(Node& node, const Settings& settings)
      : node(node), settings(settings), optimizer(settings.optimizer), x(node.initial_model()), moved(node) {}

  Node& node;
  Settings settings;
  Optimizer optimizer;
  Vector x;
  Step begun = 0;       // gradients begun: allows that many exchanges
  int fibres_left = 2;  // active, passive
  Signal moved;         // one of the above changed
};

/// x <- x + (theirs - ours) / 2
void average(Vector& x, const Vector& ours, const Vector& theirs) {
  x.add_scaled(0.5, theirs);
  x.add_scaled(-0.5, ours);
}

Task<> active(State& state) {
  Node& node = state.node;
  const std::vector<NodeId> peers = node.topology().neighbors(node.id());
  const Step exchanges = node.steps() * state.settings.exchanges_per_step;
  for (Step e = 0; e < exchanges && !peers.empty(); ++e) {
    while (e >= state.begun * state.settings.exchanges_per_step) co_await state.moved.wait();
    Random random = node.random("partner", e);
    const NodeId peer = peers[random.below(peers.size())];
    const Vector ours = state.x;
    node.send(peer, tag_of(Channel::request), ours);
    const Message reply = co_await node.receive(peer, tag_of(Channel::reply));
    average(state.x, ours, reply.values);
  }
  for (const NodeId peer : peers) node.send(peer, tag_of(Channel::done));
  --state.fibres_left;
  state.moved.notify();
}

Task<> passive(State& state, std::size_t initiators) {
  Node& node = state.node;
  const Pattern patterns[] = {{any_source, tag_of(Channel::request)}, {any_source, tag_of(Channel::done)}};
  while (initiators > 0) {
    const Node::Select::Result got = co_await node.select(patterns);
    if (got.index == 1) {
      --initiators;
      continue;
    }
    const Vector ours = state.x;
    average(state.x, ours, got.message.values);
    node.send(got.message.source, tag_of(Channel::reply), ours);
  }
  --state.fibres_left;
  state.moved.notify();
}

/// Nodes that may send requests to `id`: those that have it among the peers they ever send to.
std::size_t initiators_of(NodeId id, const Topology& topology) {
  std::vector<NodeId> senders;
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
    state.moved.notify();
    const Vector snapshot = state.x;
    const Gradient g = co_await node.gradient(snapshot);
    state.optimizer.update(state.x, g.values, snapshot, k);
    node.end_step(k, state.x);
  }
  while (state.fibres_left > 0) co_await state.moved.wait();
  node.set_final_model(state.x);  // exchanges went on after the last step
}

}  // namespace

Program adpsgd(const Section& section, const Context& context) {
  Settings settings;
  settings.exchanges_per_step =
      section.optional<std::int64_t>("exchanges_per_step", 1, "exchanges a node starts per gradient");
  section.expect(settings.exchanges_per_step >= 1, "exchanges_per_step", "must be at least 1, got {}",
                 settings.exchanges_per_step);
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
