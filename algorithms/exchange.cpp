#include "algorithms/exchange.hpp"

#include <numeric>

namespace starling::algorithms {

void send_to_neighbors(Node& node, Step k, const Vector& x) {
  for (const Edge& edge : node.out(k)) node.send(edge.peer, tag_of(Channel::program, k), x);
}

Task<Vector> mix_with_neighbors(Node& node, Step k, Vector x) {
  x.scale(node.self_weight(k));
  for (const Edge& edge : node.in(k)) {
    const Message m = co_await node.receive(edge.peer, tag_of(Channel::program, k));
    x.add_scaled(edge.weight, m.values);
  }
  co_return x;
}

std::vector<NodeId> all_nodes(const Node& node) {
  std::vector<NodeId> nodes(static_cast<std::size_t>(node.nodes()));
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

}  // namespace starling::algorithms
