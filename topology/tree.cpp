// Tree: node 0 is the root, and the parent of node i is (i - 1) / children, rounded down: levels are full but for the last.
// With one child each it is a path. Weights as of any undirected graph. The spectral gap falls as 1/n, as all that two halves have
// for each other crosses one connection, and that of a path as 1/n^2.

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology tree(const Section& section, NodeId nodes, std::uint64_t seed) {
  const auto children = section.optional<std::int64_t>(
      "children", 2, "nodes below each; 1: a path, with its ends at nodes 0 and n - 1");
  section.expect(children >= 1, "children", "must be at least 1, got {}", children);
  const Mixing mixing = read_mixing(section, seed);
  section.finish();
  expect_arcs_fit(section, "kind", 2.0 * nodes);

  std::vector<Connection> connections;
  for (NodeId i = 1; i < nodes; ++i)
    connections.push_back({static_cast<NodeId>((i - 1) / children), i});
  return mix(nodes, connections, mixing);
}

}  // namespace starling::topologies
