// Whether a graph hangs together, and if not, two nodes to tell the user about. Boost.Graph does
// the work.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "sim/base/types.hpp"
#include "sim/node/topology.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies {

/// Two nodes in different parts of an undirected graph; nothing if it is connected.
std::optional<std::pair<NodeId, NodeId>> separated(NodeId nodes,
                                                   std::span<const Connection> connections);

/// Two nodes such that no path of arcs leads from the first to the second; nothing if the graph is
/// strongly connected.
std::optional<std::pair<NodeId, NodeId>> unreachable(NodeId nodes,
                                                     std::span<const Topology::Arc> arcs);

}  // namespace starling::topologies
