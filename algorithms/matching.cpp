#include "algorithms/matching.hpp"

#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

std::vector<NodeId> draw(const Node& node, Step round) {
  Random random = node.shared_random("matching", round);
  std::vector<NodeId> order = all_nodes(node);
  std::vector<NodeId> partner = order;
  const auto is_free = [&](NodeId i) { return partner[static_cast<std::size_t>(i)] == i; };
  random.shuffle(order);
  for (const NodeId i : order) {
    if (!is_free(i)) continue;
    std::vector<NodeId> candidates = node.topology().neighbors(i);
    std::erase_if(candidates, [&](NodeId j) { return !is_free(j); });
    if (candidates.empty()) continue;
    const NodeId j = candidates[random.below(candidates.size())];
    partner[static_cast<std::size_t>(i)] = j;
    partner[static_cast<std::size_t>(j)] = i;
  }
  return partner;
}

}  // namespace

NodeId Matching::partner(const Node& node, Step round) {
  return rounds_.at(round, [&] { return draw(node, round); })[static_cast<std::size_t>(node.id())];
}

Task<Vector> average_with(Node& node, NodeId peer, Step round, Vector x) {
  const Cut cut(node, x);
  const Tag tag = tag_of(Channel::program, round);
  const bool is_lower = node.id() < peer;
  std::vector<Vector> averages(cut.count());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Vector part = cut.part(i);
    co_await node.stage(part);
    node.send_from_host(peer, tag, part);
    const Message m = co_await node.receive(peer, tag);
    const Vector pair[] = {is_lower ? part : m.values, is_lower ? m.values : part};
    averages[i] = mean(pair);
    co_await node.reduce(part, 2);
    co_await node.stage(part);
  }
  co_return cut.join(averages);
}

}  // namespace starling::algorithms
