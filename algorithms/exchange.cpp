#include "algorithms/exchange.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/pieces.hpp"

namespace starling::algorithms {

Task<> send_to_neighbors(Node& node, Step k, Vector x, Channel channel) {
  const Cut cut(node, std::move(x));
  const Vector part = cut.part(0);
  node.post_receives(tag_of(channel, k));
  co_await node.stage_out(cut[0], part, node.begin_exchange());
  for_each_receiver(node, k,
                    [&](NodeId peer) { node.send_from_host(peer, tag_of(channel, k), part); });
}

Task<Vector> mix_with_neighbors(Node& node, Step k, Vector x, Channel channel) {
  const Cut cut(node, std::move(x));
  const Time begin = node.begin_exchange();
  Parts mixed(cut.count());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Tag tag = tag_of_part(tag_of(channel, k), i);
    Vector part = cut.part(i);
    if (i > 0) {
      node.post_receives(tag);
      co_await node.stage_out(cut[i], part, begin);
      for_each_receiver(node, k, [&](NodeId peer) { node.send_from_host(peer, tag, part); });
    }
    part.scale(node.self_weight(k));
    for (const Edge& edge : node.in(k)) {
      const Message m = co_await node.receive(edge.peer, tag);
      part.add_scaled(edge.weight, m.values);
    }
    node.close_receives(tag);
    co_await node.sent(tag);
    const auto models = static_cast<int>(node.in(k).size()) + 1;
    co_await node.operate(part, models);
    node.stage_in(part);
    mixed.add(std::move(part));
  }
  co_await node.staged_in();
  co_return mixed.join();
}

void send_in_pieces(Node& node, NodeId to, Tag tag, const Vector& v, double number) {
  const Cut cut(node, v);
  for (std::size_t i = 0; i < cut.count(); ++i) {
    node.send(to, tag_of_part(tag, i), cut.part(i), number);
  }
}

Task<Message> receive_in_pieces(Node& node, NodeId from, Tag tag, std::size_t size) {
  Message first = co_await node.receive(from, tag);
  if (first.values.size() == size) co_return first;
  Message whole = co_await receive_rest(node, std::move(first), size);
  co_return whole;
}

Task<Message> receive_rest(Node& node, Message first, std::size_t size) {
  if (first.values.size() == size) co_return first;
  std::vector<Vector> parts{first.values};
  for (std::size_t have = first.values.size(); have < size; have += parts.back().size()) {
    const Tag tag = tag_of_part(first.tag, parts.size());
    Message m = co_await node.receive(first.source, tag);
    while (m.number != first.number) m = co_await node.receive(first.source, tag);
    parts.push_back(std::move(m.values));
  }
  const std::vector<Vector> ordered(parts.rbegin(), parts.rend());
  first.values = concatenate(ordered);
  co_return first;
}

std::vector<Vector> cut_into_tensors(const Node& node, const Vector& v) {
  if (node.tensors().empty()) return {v};
  std::vector<Vector> tensors;
  std::size_t begin = 0;
  for (const std::size_t size : node.tensors()) {
    tensors.push_back(v.slice(begin, size));
    begin += size;
  }
  return tensors;
}

void expect_fixed_symmetric(const Section& section, std::string_view kind,
                            const Topology& topology) {
  section.note_other("topology");
  section.expect(topology.period() == 1, "kind",
                 "= {} needs a topology that does not change, got one with {} phases", kind,
                 topology.period());
  section.expect(topology.is_symmetric(), "kind", "= {} needs symmetric mixing weights", kind);
}

bool has_unit_columns(const Topology& topology) {
  constexpr double rounding = 1e-4;  // of weights: floats, with few digits in some files
  for (std::size_t phase = 0; phase < topology.period(); ++phase) {
    const auto k = static_cast<Step>(phase);
    for (NodeId j = 0; j < topology.nodes(); ++j) {
      double sum = static_cast<double>(topology.self_weight(j, k));
      for (const Edge& edge : topology.out(j, k)) sum += static_cast<double>(edge.weight);
      if (std::abs(sum - 1) > rounding) return false;
    }
  }
  return true;
}

bool is_balanced(const Topology& topology, double (*chance)(double from, double to)) {
  if (topology.is_complete()) return true;
  std::vector<double> surplus(static_cast<std::size_t>(topology.nodes()));
  std::vector<double> degree;
  for (NodeId i = 0; i < topology.nodes(); ++i)
    degree.push_back(static_cast<double>(topology.neighbors(i).size()));
  for (NodeId i = 0; i < topology.nodes(); ++i) {
    for (const NodeId j : topology.neighbors(i)) {
      const auto from = static_cast<std::size_t>(i);
      const auto to = static_cast<std::size_t>(j);
      const double share = chance(degree[from], degree[to]);
      surplus[from] -= share;
      surplus[to] += share;
    }
  }
  constexpr double rounding = 1e-6;  // of sums over neighbors
  return std::ranges::all_of(surplus, [](double s) { return std::abs(s) < rounding; });
}

double least_weight(const Topology& topology) {
  float least = 1;
  for (std::size_t phase = 0; phase < topology.period(); ++phase) {
    const auto k = static_cast<Step>(phase);
    for (NodeId i = 0; i < topology.nodes(); ++i) {
      least = std::min(least, topology.self_weight(i, k));
      for (const Edge& edge : topology.in(i, k)) least = std::min(least, edge.weight);
    }
  }
  return static_cast<double>(least);
}

}  // namespace starling::algorithms
