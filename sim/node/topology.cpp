// Topology as compressed lists: per phase one array of edges sorted by (node, peer) for each
// direction, so that in() and out() are two look-ups and a hundred thousand nodes cost little more
// than their arcs.

#include "sim/node/topology.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace starling {
namespace {

struct EdgeLists {
  std::vector<std::size_t> begin;  // (nodes + 1)
  std::vector<Edge>
      edges;  // of node i: edges[begin[i]] up to edges[begin[i + 1]], in order of peer
};

/// Sorts arcs by one of their ends. `node_of` and `peer_of` say which end owns the edge.
EdgeLists edge_lists(NodeId nodes, const std::vector<Topology::Arc>& arcs,
                     NodeId Topology::Arc::*node_of, NodeId Topology::Arc::*peer_of) {
  EdgeLists lists{std::vector<std::size_t>(static_cast<std::size_t>(nodes) + 1, 0),
                  std::vector<Edge>(arcs.size())};
  for (const Topology::Arc& arc : arcs) ++lists.begin[static_cast<std::size_t>(arc.*node_of) + 1];
  for (std::size_t i = 1; i < lists.begin.size(); ++i) lists.begin[i] += lists.begin[i - 1];

  std::vector<std::size_t> next(lists.begin.begin(), lists.begin.end() - 1);
  for (const Topology::Arc& arc : arcs) {
    lists.edges[next[static_cast<std::size_t>(arc.*node_of)]++] = {arc.*peer_of,
                                                                   static_cast<float>(arc.weight)};
  }
  for (std::size_t i = 0; i + 1 < lists.begin.size(); ++i) {
    const auto own =
        std::span(lists.edges).subspan(lists.begin[i], lists.begin[i + 1] - lists.begin[i]);
    // Many makers list arcs in this order, and a complete graph is large.
    if (!std::ranges::is_sorted(own, {}, &Edge::peer)) std::ranges::sort(own, {}, &Edge::peer);
  }
  return lists;
}

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

void check_no_double_arc(const EdgeLists& out) {
  for (std::size_t i = 0; i + 1 < out.begin.size(); ++i) {
    for (std::size_t e = out.begin[i] + 1; e < out.begin[i + 1]; ++e) {
      if (out.edges[e].peer == out.edges[e - 1].peer) {
        throw std::invalid_argument(
            fmt::format("topology: expected one arc from {} to {}, got two", i, out.edges[e].peer));
      }
    }
  }
}

}  // namespace

Topology::Topology(NodeId nodes, const std::vector<std::vector<Arc>>& phases,
                   const std::vector<std::vector<double>>& self_weights)
    : nodes_(nodes) {
  if (nodes < 1) {
    throw std::invalid_argument(fmt::format("topology: expected at least one node, got {}", nodes));
  }
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
    EdgeLists out = edge_lists(nodes, phases[p], &Arc::sender, &Arc::receiver);
    check_no_double_arc(out);
    EdgeLists in = edge_lists(nodes, phases[p], &Arc::receiver, &Arc::sender);
    phases_.push_back({.out_begin = std::move(out.begin),
                       .in_begin = std::move(in.begin),
                       .out = std::move(out.edges),
                       .in = std::move(in.edges),
                       .self = {self_weights[p].begin(), self_weights[p].end()}});
  }
}

std::vector<NodeId> Topology::neighbors(NodeId node) const {
  std::vector<NodeId> peers;
  for (const Phase& phase : phases_) {
    for (const Edge& edge : edges_of(phase.out_begin, phase.out, node)) peers.push_back(edge.peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::size_t Topology::arc_count() const {
  std::size_t count = 0;
  for (const Phase& phase : phases_) count += phase.out.size();
  return count;
}

bool Topology::is_symmetric() const {
  return std::ranges::all_of(phases_, [](const Phase& phase) {
    return phase.in_begin == phase.out_begin && phase.in == phase.out;
  });
}

}  // namespace starling
