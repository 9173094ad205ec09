// Ring: node i is connected with i - 1 and i + 1, modulo n. Weights 1/3, so W has the eigenvalues
// 1/3 + 2/3 cos(2 pi k / n): the slowest mixing of all the usual topologies, and the cheapest.

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology ring(const Section& section, NodeId nodes, std::uint64_t seed) {
  const Mixing mixing = read_mixing(section, seed);
  section.finish();
  expect_arcs_fit(section, "kind", 2.0 * nodes);

  std::vector<Connection> connections;
  for (NodeId i = 0; i + 1 < nodes; ++i) connections.push_back({i, i + 1});
  // Two nodes are already joined.
  if (nodes > 2) connections.push_back({0, nodes - 1});
  return mix(nodes, connections, mixing);
}

}  // namespace starling::topologies
