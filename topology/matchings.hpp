// A graph as few matchings: connections in each of which a node has at most one. An edge coloring; Boost.Graph does the
// work but for bipartite graphs, which need one color less.
#pragma once

#include <span>
#include <vector>

#include "sim/base/types.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies {

using Matchings = std::vector<std::vector<Connection>>;

/// As many as the graph's degree where it is bipartite (König 1916), else that or one more (Misra and Gries, "A constructive proof of Vizing's
/// theorem", Information Processing Letters 41, 1992). Each connection is given once.
Matchings split_into_matchings(NodeId nodes, std::span<const Connection> connections);

}  // namespace starling::topologies
