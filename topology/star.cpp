// Star: node 0 with everybody else. With Metropolis weights all arcs weigh 1/n and a leaf keeps 1 -
// 1/n; with uniform weights a leaf keeps 1/2, and in the limit node 0 counts n/2 times as much as a
// leaf.

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology star(const Section& section, NodeId nodes, std::uint64_t seed) {
  const Mixing mixing = read_mixing(section, seed);
  section.finish();
  expect_arcs_fit(section, "kind", 2.0 * nodes);

  std::vector<Connection> connections;
  for (NodeId i = 1; i < nodes; ++i) connections.push_back({0, i});
  return mix(nodes, connections, mixing);
}

}  // namespace starling::topologies
