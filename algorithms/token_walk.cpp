// Token SGD: one model walks the graph; the node it visits takes a step with it, and passes it on.
//
//   at node i:  x <- x - learning_rate(k) * g_i(x);   send x on      k: visits so far / n
//
//   random    the next node is a random neighbor j, with chance min(1, degree_i / degree_j), else i
//             itself (Metropolis): in the long run all nodes are visited equally often. On a directed
//             graph that is so only if as many ways, by their chances, lead to each node as away from it
//   cyclic    0, 1, .., n-1, 0, ..: incremental gradient descent; needs no topology
//
// Johansson, Rabi, Johansson, "A Randomized Incremental Subgradient Method for Distributed
// Optimization in Networked Systems", SIAM J. Optimization 20(3), 2009, Algorithm 1; cyclic:
// Bertsekas, Nedic, Ozdaglar, 2003. A run of k steps makes k n visits, k per node on average; then
// the final model goes to everybody. Step k of a node is its k-th visit. Visits beyond the number
// of steps take steps, too, but are not recorded; a node visited less often ends its other steps
// with the final model. Momentum stays at the node.

#include <algorithm>
#include <array>

#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct TokenWalkSettings {
  bool is_cyclic;
  OptimizerSettings optimizer;
};

constexpr Tag token = tag_of(Channel::program);
constexpr Tag done = tag_of(Channel::done);

/// Where the token goes from `node` after `visits` visits of anybody.
NodeId next(const Node& node, Step visits, bool is_cyclic) {
  if (is_cyclic) return (node.id() + 1) % node.nodes();
  const Neighbors peers = node.topology().neighbors(node.id());
  if (peers.empty()) return node.id();
  Random random = node.random("walk", visits);
  const NodeId peer = peers[static_cast<NodeId>(random.below(peers.size()))];
  const double ratio = static_cast<double>(peers.size()) /
                       static_cast<double>(node.topology().neighbors(peer).size());
  return random.uniform() < ratio ? peer : node.id();
}

Task<> run(Node& node, const TokenWalkSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const Step all_visits = node.steps() * node.nodes();
  const std::array<Pattern, 2> patterns{Pattern{any_source, token}, Pattern{any_source, done}};
  Vector x = node.initial_model();
  Step k = 0;
  Step last_visit = -1;
  if (node.id() == 0) send_in_pieces(node, 0, token, x);  // it begins here
  for (;;) {
    Node::Select::Result got = co_await node.select(patterns);
    const auto visits = static_cast<Step>(got.message.number);
    const bool is_over = got.index == 1;
    if (!is_over && visits <= last_visit) continue;  // came twice: there is one token
    const Message whole = co_await receive_rest(node, std::move(got.message), x.size());
    x = whole.values;
    if (is_over) break;

    last_visit = visits;
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, visits / node.nodes());
    if (k < node.steps()) node.end_step(k++, x);
    if (visits + 1 < all_visits) {
      const NodeId to = next(node, visits, settings.is_cyclic);
      send_in_pieces(node, to, token, x, static_cast<double>(visits + 1));
    } else {
      for (NodeId i = 0; i < node.nodes(); ++i) send_in_pieces(node, i, done, x);
    }
  }
  while (k < node.steps()) node.end_step(k++, x);
  node.set_final_model(x);
}

}  // namespace

Program token_walk(const Section& section, const Context& context) {
  TokenWalkSettings settings{};
  settings.is_cyclic = section.choice<bool>("walk", {{"random", false}, {"cyclic", true}}, "random",
                                            "to a random neighbor, or through all nodes in turn");
  settings.optimizer = read_optimizer(section, context);
  if (!settings.is_cyclic) section.note_other("topology");
  const auto chance = [](double from, double to) { return 1 / std::max(from, to); };
  section.expect(settings.is_cyclic || is_balanced(context.topology, chance), "walk",
                 "= random needs a topology on which the walk visits all nodes equally often: an "
                 "undirected one, or as many ways to each node as from it");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
