// Complete graph: everybody with everybody. All weights are 1/n, so one step is the exact average.

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology complete(const Section& section, NodeId nodes, std::uint64_t /*seed*/) {
  const Mixing mixing = read_lazy(section);
  section.finish();
  expect_arcs_fit(section, static_cast<double>(nodes) * (nodes - 1));

  std::vector<Connection> connections;
  for (NodeId i = 0; i < nodes; ++i) {
    for (NodeId j = i + 1; j < nodes; ++j) connections.push_back({i, j});
  }
  return mix(nodes, connections, mixing);
}

}  // namespace starling::topologies
