#include "sim/node/blocks.hpp"

namespace starling {
namespace {

/// All nodes, in the order of a breadth-first search from `start`; then from the first node not yet seen.
std::vector<NodeId> search_from(const Topology& topology, NodeId start) {
  const NodeId nodes = topology.nodes();
  std::vector<NodeId> order;
  std::vector<bool> seen(static_cast<std::size_t>(nodes));
  const auto visit = [&](NodeId node) {
    if (seen[static_cast<std::size_t>(node)]) return;
    seen[static_cast<std::size_t>(node)] = true;
    order.push_back(node);
  };
  std::size_t at = 0;
  const auto follow = [&] {
    for (; at < order.size(); ++at) {
      for (const NodeId peer : topology.neighbors(order[at])) visit(peer);
    }
  };
  visit(start);
  follow();
  for (NodeId node = 0; node < nodes; ++node) {
    visit(node);
    follow();
  }
  return order;
}

}  // namespace

Blocks contiguous_blocks(NodeId nodes, int processes) {
  Blocks blocks(static_cast<std::size_t>(nodes));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = static_cast<std::int32_t>(i * static_cast<std::size_t>(processes) / blocks.size());
  }
  return blocks;
}

Blocks search_blocks(const Topology& topology, int processes) {
  const NodeId far = search_from(topology, 0).back();
  const std::vector<NodeId> order = search_from(topology, far);
  const Blocks places = contiguous_blocks(topology.nodes(), processes);
  Blocks blocks(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    blocks[static_cast<std::size_t>(order[i])] = places[i];
  }
  return blocks;
}

std::size_t cut_arcs(const Topology& topology, const Blocks& blocks) {
  std::size_t cut = 0;
  for (std::size_t phase = 0; phase < topology.period(); ++phase) {
    for (NodeId node = 0; node < topology.nodes(); ++node) {
      const std::int32_t own = blocks[static_cast<std::size_t>(node)];
      for (const Edge& edge : topology.out(node, static_cast<Step>(phase))) {
        if (blocks[static_cast<std::size_t>(edge.peer)] != own) ++cut;
      }
    }
  }
  return cut;
}

Blocks choose_blocks(const Topology& topology, int processes) {
  Blocks plain = contiguous_blocks(topology.nodes(), processes);
  // Nothing to gain where every node has more neighbors than a block has nodes.
  const auto nodes = static_cast<std::size_t>(topology.nodes());
  const std::size_t arcs = topology.arc_count() / topology.period();
  if (arcs * static_cast<std::size_t>(processes) > nodes * nodes) return plain;
  Blocks searched = search_blocks(topology, processes);
  return 2 * cut_arcs(topology, searched) <= cut_arcs(topology, plain) &&
                 cut_arcs(topology, plain) > 0
             ? searched
             : plain;
}

}  // namespace starling
