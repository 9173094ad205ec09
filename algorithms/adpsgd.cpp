// AD-PSGD: asynchronous decentralized SGD. Every node computes without ever waiting; beside it, it averages its
// model pairwise with random neighbors.
//
//   compute    s <- x;  g <- gradient(s);  x <- x - learning_rate * g         a stale gradient on the current x
//   active     a <- x;  b <- the neighbor's model;  x <- x + (b - a) / 2
//   passive    on a request with model m:  a <- x;  x <- x + (m - a) / 2;  answer a
//
// Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018. The
// paper avoids deadlock by a bipartite graph; here any graph works, see pair_averaging.hpp. A node
// starts `exchanges_per_step` exchanges per gradient, one after the other, with partners drawn at
// random (the paper) or in turn (its authors' code): all that they know by growing number from its own on, or by distance, +1, -1,
// +3, -3, .., so that nodes in step meet different ones. Where they take longer than gradients, those of earlier gradients that have
// not begun by the last one are left out, as communication ends with the training. The metrics "exchanges" and "exchanges_behind"
// count those that have begun, and those that gradients so far allow and that have not.
//
// Both sources split the nodes: odd ones are active and start exchanges, even ones are passive and only
// answer, so that a node takes part in one exchange per gradient, not two. pairs = bipartite does so on
// a topology whose edges all join odd and even nodes; pairs = bipartite_exponential instead of it on
// the graph of the authors' code (facebookresearch/stochastic_gradient_push): i and j at the distances
// 1, 3, 5, 9, .., 1 + 2^j < n. The number of nodes is even. Momentum stays on its node.

#include "algorithms/adpsgd.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "algorithms/averaging.hpp"
#include "algorithms/base_steps.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

/// Nodes at the distances 1, 3, 5, 9, .. on either side, by distance.
std::vector<NodeId> bipartite_peers(NodeId node, NodeId nodes) {
  std::vector<NodeId> peers;
  for (NodeId power = 1; power < nodes; power *= 2) {
    const NodeId distance = power == 1 ? 1 : 1 + power;
    if (distance >= nodes) break;
    for (const NodeId to : {distance, nodes - distance}) {
      const NodeId peer = (node + to) % nodes;
      if (std::ranges::count(peers, peer) == 0) peers.push_back(peer);
    }
  }
  return peers;
}

/// Whether every edge joins an odd and an even node, and comes with its reverse.
bool joins_odd_and_even(const Topology& topology) {
  for (NodeId i = 0; i < topology.nodes(); ++i) {
    for (const NodeId j : topology.neighbors(i)) {
      if ((i + j) % 2 == 0 || !std::ranges::binary_search(topology.neighbors(j), i)) return false;
    }
  }
  return true;
}

PairRules rules(const Node& node, const AdpsgdSteps::Settings& settings) {
  PairRules rules{.patience = settings.patience, .codec = settings.codec};
  rules.is_on_host = node.plan().overlaps_backward;
  if (settings.is_exponential) rules.peers = bipartite_peers(node.id(), node.nodes());
  return rules;
}

/// What it costs that exchanges go on in a copy in host memory: every tensor comes there, is averaged with the copy (two
/// arrays), replaces it (one more), and goes back, as its gradient appears (the released code of the WAGMA-SGD paper).
Task<> meet_copy_on_host(Node& node, Vector x) {
  const Cut cut(node, x);
  const Time begin = node.begin_exchange();
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Vector part = cut.part(i);
    co_await node.stage_out(cut[i], part, begin);
    co_await node.operate(part, 3);
    node.stage_in(part);
  }
  co_await node.staged_in();
  co_await node.finish_backward();
}

}  // namespace

AdpsgdSteps::Settings AdpsgdSteps::read(const Section& section, const Context& context) {
  Settings settings{};
  settings.exchanges_per_step = section.optional<std::int64_t>(
      "exchanges_per_step", 1,
      "exchanges a node starts per gradient; what has not begun when training ends is left out");
  const Step most = std::numeric_limits<Step>::max() / context.steps;  // all can be counted
  section.expect(settings.exchanges_per_step >= 1 && settings.exchanges_per_step <= most,
                 "exchanges_per_step", "must be from 1 to {} in {} steps, got {}", most,
                 context.steps, settings.exchanges_per_step);
  settings.patience = read_patience(section);
  settings.codec = read_codec(section);
  settings.takes_turns = section.choice<bool>(
      "neighbor", {{"random", false}, {"cycle", true}}, "random",
      "with whom an active node averages next: a random neighbor, or all in turn");
  const std::string pairs = section.choice(
      "pairs", {"topology", "bipartite", "bipartite_exponential"}, "topology",
      "who may average: neighbors, all of them active; neighbors, odd nodes active and even ones "
      "passive; or these at the distances 1, 3, 5, 9, ..");
  settings.is_bipartite = pairs != "topology";
  settings.is_exponential = pairs == "bipartite_exponential";
  if (!settings.is_exponential) section.note_other("topology");
  section.expect(!settings.is_bipartite || context.nodes % 2 == 0, "pairs",
                 "= {} needs an even number of nodes, got {}", pairs, context.nodes);
  section.expect(pairs != "bipartite" || joins_odd_and_even(context.topology), "pairs",
                 "= bipartite needs a topology whose edges join odd and even nodes, both ways");
  settings.optimizer = read_optimizer(section, context);
  return settings;
}

AdpsgdSteps::AdpsgdSteps(Node& node, const Settings& settings)
    : node_(node),
      settings_(settings),
      optimizer_(settings.optimizer),
      x_(node.initial_model()),
      pairs_(node, x_, rules(node, settings)),
      gradient_begun_(node),
      exchange_ended_(node),
      companions_(node) {
  pairs_.begin();
  companions_.spawn(gossip());
}

bool AdpsgdSteps::is_active() const {
  return pairs_.peers() > 0 && (!settings_.is_bipartite || node_.id() % 2 == 1);
}

std::size_t AdpsgdSteps::first_in_turn() const {
  if (settings_.is_exponential) return 0;
  std::size_t first = 0;
  while (first < pairs_.peers() && pairs_.peer(first) < node_.id()) ++first;
  return first;
}

Task<> AdpsgdSteps::gossip() {
  const std::size_t peers = pairs_.peers();
  const std::size_t first = settings_.takes_turns ? first_in_turn() : 0;
  while (is_active() && (owed_ > 0 || begun_ < node_.steps())) {
    if (owed_ == 0) {
      co_await gradient_begun_.wait();
      continue;
    }
    --owed_;
    Random random = node_.random("partner", exchanges_);
    const auto turn = settings_.takes_turns
                          ? (first + static_cast<std::uint64_t>(exchanges_)) % peers
                          : random.below(peers);
    ++exchanges_;
    is_exchanging_ = true;
    co_await pairs_.exchange(pairs_.peer(turn));
    is_exchanging_ = false;
    if (owed_ == 0) exchange_ended_.notify();
  }
  // Who never asks hears nothing while others compute: that is silence, to be borne with patience, only at the end.
  while (!is_active() && taken_ < node_.steps()) co_await gradient_begun_.wait();
  co_await pairs_.finish();
}

Task<> AdpsgdSteps::take(Step first, Step last) {
  for (Step k = first; k <= last; ++k) {
    ++begun_;
    // Where the network cannot keep up, nobody makes up for it when the steps have ended.
    if (k == last) left_out_ += std::exchange(owed_, 0);
    owed_ += settings_.exchanges_per_step;
    gradient_begun_.notify();
    const Vector snapshot = x_;
    const Gradient g = co_await node_.gradient_in_pieces(snapshot);
    if (node_.plan().overlaps_backward) co_await meet_copy_on_host(node_, snapshot);
    optimizer_.update(x_, g.values, snapshot, k);
    if (++taken_ == node_.steps()) gradient_begun_.notify();
    if (is_active()) {
      node_.record("exchanges", k, static_cast<double>(exchanges_));
      node_.record("exchanges_behind", k, static_cast<double>(left_out_ + owed_));
    }
    if (k < last) node_.end_step(k, x_);
  }
}

Task<Vector> AdpsgdSteps::settle(Step last) {
  while (is_active() && (owed_ > 0 || is_exchanging_)) co_await exchange_ended_.wait();
  co_await sum_of_numbers(node_, tag_of(Channel::drift, 2 * last), 0);
  co_return x_;
}

Task<> AdpsgdSteps::restart(Step last, Vector x) {
  x_ = std::move(x);
  co_await sum_of_numbers(node_, tag_of(Channel::drift, 2 * last + 1), 0);
}

Task<> AdpsgdSteps::finish() {
  co_await companions_.join();
  node_.set_final_model(x_);  // exchanges went on after the last step
}

Program adpsgd(const Section& section, const Context& context) {
  const AdpsgdSteps::Settings settings = AdpsgdSteps::read(section, context);
  section.finish();
  return [settings](Node& node) { return run_alone<AdpsgdSteps>(node, settings); };
}

}  // namespace starling::algorithms
