// Blocks: which process owns which node when processes share a simulation. Blocks are of equal size and cut few
// edges, for what crosses between processes is what neighbors tell each other.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/node/topology.hpp"

namespace starling {

/// Process of every node.
using Blocks = std::vector<std::int32_t>;

/// Node i belongs to process i * processes / nodes.
Blocks contiguous_blocks(NodeId nodes, int processes);
/// Blocks of nodes that follow each other in a breadth-first search, which starts as far out as it can.
Blocks search_blocks(const Topology& topology, int processes);
/// Arcs between blocks, summed over the period.
std::size_t cut_arcs(const Topology& topology, const Blocks& blocks);
/// Contiguous blocks, unless a search cuts at most half as many arcs: sums over all nodes run in their order, and pass
/// from block to block as often as neighbors in that order belong to different ones.
Blocks choose_blocks(const Topology& topology, int processes);

}  // namespace starling
