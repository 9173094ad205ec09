#include "algorithms/exchange.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace starling::algorithms {

void send_to_neighbors(Node& node, Step k, const Vector& x, Channel channel) {
  for (const Edge& edge : node.out(k)) node.send(edge.peer, tag_of(channel, k), x);
}

Task<Vector> mix_with_neighbors(Node& node, Step k, Vector x, Channel channel) {
  x.scale(node.self_weight(k));
  for (const Edge& edge : node.in(k)) {
    const Message m = co_await node.receive(edge.peer, tag_of(channel, k));
    x.add_scaled(edge.weight, m.values);
  }
  co_return x;
}

void send_to_neighbors(Node& node, Step k, const Vector& x) {
  send_to_neighbors(node, k, x, Channel::program);
}

Task<Vector> mix_with_neighbors(Node& node, Step k, Vector x) {
  return mix_with_neighbors(node, k, std::move(x), Channel::program);
}

bool has_unit_columns(const Topology& topology) {
  for (std::size_t phase = 0; phase < topology.period(); ++phase) {
    const auto k = static_cast<Step>(phase);
    for (NodeId j = 0; j < topology.nodes(); ++j) {
      double sum = static_cast<double>(topology.self_weight(j, k));
      for (const Edge& edge : topology.out(j, k)) sum += static_cast<double>(edge.weight);
      if (std::abs(sum - 1) > 1e-4) return false;
    }
  }
  return true;
}

bool is_symmetric(const Topology& topology) {
  for (std::size_t phase = 0; phase < topology.period(); ++phase) {
    const auto k = static_cast<Step>(phase);
    for (NodeId i = 0; i < topology.nodes(); ++i) {
      if (!std::ranges::equal(topology.in(i, k), topology.out(i, k))) return false;
    }
  }
  return true;
}

std::vector<NodeId> senders_to(const Node& node) {
  std::vector<NodeId> senders;
  for (std::size_t phase = 0; phase < node.topology().period(); ++phase) {
    for (const Edge& edge : node.in(static_cast<Step>(phase))) senders.push_back(edge.peer);
  }
  std::sort(senders.begin(), senders.end());
  senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
  return senders;
}

std::vector<NodeId> all_nodes(const Node& node) {
  std::vector<NodeId> nodes(static_cast<std::size_t>(node.nodes()));
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

}  // namespace starling::algorithms
