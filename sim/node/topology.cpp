// Topology as compressed lists: per phase one array of edges sorted by (node, peer) for each
// direction, so that in() and out() are two look-ups and a hundred thousand nodes cost little more
// than their arcs. All nodes of a complete graph share one.

#include "sim/node/topology.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "sim/node/arc_colors.hpp"

namespace starling {
namespace {

void check_arcs(NodeId nodes, const std::vector<Topology::Arc>& arcs) {
  for (const Topology::Arc& arc : arcs) {
    for (const NodeId node : {arc.sender, arc.receiver}) {
      if (node < 0 || node >= nodes) {
        throw std::invalid_argument(
            fmt::format("topology: nodes of arcs must be below {}, got {}", nodes, node));
      }
    }
    if (arc.sender == arc.receiver) {
      throw std::invalid_argument(
          fmt::format("topology: arcs must join two nodes, got one from {} to itself", arc.sender));
    }
  }
}

}  // namespace

/// Sorts arcs by one of their ends. `node_of` and `peer_of` say which end owns the edge.
Topology::EdgeLists Topology::sorted(NodeId nodes, const std::vector<Arc>& arcs,
                                     NodeId Arc::*node_of, NodeId Arc::*peer_of) {
  EdgeLists lists{std::vector<std::size_t>(static_cast<std::size_t>(nodes) + 1, 0),
                  std::vector<Edge>(arcs.size())};
  for (const Arc& arc : arcs) ++lists.begin[static_cast<std::size_t>(arc.*node_of) + 1];
  for (std::size_t i = 1; i < lists.begin.size(); ++i) lists.begin[i] += lists.begin[i - 1];

  std::vector<std::size_t> next(lists.begin.begin(), lists.begin.end() - 1);
  for (const Arc& arc : arcs) {
    lists.list[next[static_cast<std::size_t>(arc.*node_of)]++] = {arc.*peer_of,
                                                                  static_cast<float>(arc.weight)};
  }
  for (std::size_t i = 0; i + 1 < lists.begin.size(); ++i) {
    const auto own =
        std::span(lists.list).subspan(lists.begin[i], lists.begin[i + 1] - lists.begin[i]);
    // Many makers list arcs in this order.
    if (!std::ranges::is_sorted(own, {}, &Edge::peer)) std::ranges::sort(own, {}, &Edge::peer);
  }
  return lists;
}

Topology::EdgeLists Topology::joined(const std::vector<Phase>& phases, EdgeLists Phase::*lists) {
  EdgeLists all{.begin = {0}, .list = {}};
  const auto nodes = static_cast<NodeId>(phases[0].self.size());
  std::vector<NodeId> peers;
  for (NodeId node = 0; node < nodes; ++node) {
    peers.clear();
    for (const Phase& phase : phases) {
      for (const NodeId peer : peers_of(phase.*lists, node)) peers.push_back(peer);
    }
    std::ranges::sort(peers);
    const auto rest = std::ranges::unique(peers);
    peers.erase(rest.begin(), rest.end());
    for (const NodeId peer : peers) all.list.push_back({peer, 0});
    all.begin.push_back(all.list.size());
  }
  return all;
}

Topology::Topology(NodeId nodes) : nodes_(nodes) {
  if (nodes < 1) {
    throw std::invalid_argument(fmt::format("topology: expected at least one node, got {}", nodes));
  }
}

Topology Topology::complete(NodeId nodes, double weight, double self_weight) {
  Topology topology(nodes);
  Phase phase;
  for (NodeId i = 0; i < nodes; ++i) phase.out.list.push_back({i, static_cast<float>(weight)});
  phase.in = phase.out;
  phase.self.assign(phase.out.list.size(), static_cast<float>(self_weight));
  topology.phases_.push_back(std::move(phase));
  return topology;
}

Topology::Topology(NodeId nodes, const std::vector<std::vector<Arc>>& phases,
                   const std::vector<std::vector<double>>& self_weights)
    : Topology(nodes) {
  if (phases.empty() || phases.size() != self_weights.size()) {
    throw std::invalid_argument(fmt::format(
        "topology: expected self weights for each of at least one phase, got {} for {} phases",
        self_weights.size(), phases.size()));
  }
  phases_.reserve(phases.size());
  for (std::size_t p = 0; p < phases.size(); ++p) {
    if (self_weights[p].size() != static_cast<std::size_t>(nodes)) {
      throw std::invalid_argument(
          fmt::format("topology: expected {} self weights in phase {}, got {}", nodes, p,
                      self_weights[p].size()));
    }
    check_arcs(nodes, phases[p]);
    phases_.push_back({.out = sorted(nodes, phases[p], &Arc::sender, &Arc::receiver),
                       .in = sorted(nodes, phases[p], &Arc::receiver, &Arc::sender),
                       .self = {self_weights[p].begin(), self_weights[p].end()}});
    check_no_double_arc(phases_.back());
  }
}

const Topology::Phase& Topology::ever() const {
  if (phases_.size() == 1) return phases_.front();
  std::call_once(joined_->is_made, [this] {
    joined_->lists.out = joined(phases_, &Phase::out);
    joined_->lists.in = joined(phases_, &Phase::in);
  });
  return joined_->lists;
}

std::span<const std::uint32_t> Topology::turns(NodeId node, Step step) const {
  if (is_complete()) return {};
  std::call_once(turns_->is_made, [this] {
    for (const Phase& phase : phases_) {
      ArcColors arcs{.begin = phase.out.begin, .receivers = {}};
      for (const Edge& edge : phase.out.list) arcs.receivers.push_back(edge.peer);
      turns_->of_phase.push_back(arcs.turns());
    }
  });
  const std::size_t phase = static_cast<std::size_t>(step) % phases_.size();
  const std::vector<std::uint32_t>& turns = turns_->of_phase[phase];
  if (turns.empty()) return {};
  const std::size_t* first = &phases_[phase].out.begin[static_cast<std::size_t>(node)];
  return std::span(turns).subspan(first[0], first[1] - first[0]);
}

void Topology::check_no_double_arc(const Phase& phase) const {
  for (NodeId i = 0; i < nodes_; ++i) {
    const Neighbors peers = peers_of(phase.out, i);
    const auto twice = std::ranges::adjacent_find(peers);
    if (twice != peers.end()) {
      throw std::invalid_argument(
          fmt::format("topology: expected one arc from {} to {}, got two", i, *twice));
    }
  }
}

std::size_t Topology::arc_count() const {
  const auto nodes = static_cast<std::size_t>(nodes_);
  if (is_complete()) return nodes * (nodes - 1);
  std::size_t count = 0;
  for (const Phase& phase : phases_) count += phase.out.list.size();
  return count;
}

bool Topology::is_symmetric() const {
  return std::ranges::all_of(phases_, [](const Phase& phase) { return phase.in == phase.out; });
}

std::vector<NodeRecords> Topology::node_records() const {
  if (period() > 1 || is_complete()) return {};
  const Phase& phase = phases_.front();
  std::vector<NodeRecords> records{{phase.self.data(), sizeof(float)}};
  for (const EdgeLists* lists : {&phase.out, &phase.in}) {
    records.push_back({lists->begin.data(), sizeof(std::size_t)});
    const std::size_t degree = lists->begin[1];
    bool is_regular = true;
    for (std::size_t i = 0; i < lists->begin.size(); ++i)
      is_regular = is_regular && lists->begin[i] == i * degree;
    if (is_regular) records.push_back({lists->list.data(), degree * sizeof(Edge)});
  }
  return records;
}

}  // namespace starling
