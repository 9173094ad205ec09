// Hypercube: the d nodes whose numbers differ from i's in one bit, n = 2^d. Weights 1/(d + 1), and
// the eigenvalues of W are 1 - 2k/(d + 1), k = 0..d.

#include <bit>

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology hypercube(const Section& section, NodeId nodes, std::uint64_t seed) {
  const Mixing mixing = read_mixing(section, seed);
  section.finish();
  const auto count = static_cast<std::uint32_t>(nodes);
  section.expect(std::has_single_bit(count), "kind",
                 "hypercube needs a power of two of nodes, got {} (the nearest are {} and {})",
                 nodes, std::bit_floor(count), std::uint64_t{2} * std::bit_floor(count));
  expect_arcs_fit(section, "kind", static_cast<double>(nodes) * std::countr_zero(count));

  std::vector<Connection> connections;
  for (NodeId i = 0; i < nodes; ++i) {
    for (std::uint32_t bit = 1; bit < count; bit <<= 1) {
      const NodeId other = i ^ static_cast<NodeId>(bit);
      if (i < other) connections.push_back({i, other});
    }
  }
  return mix(nodes, connections, mixing);
}

}  // namespace starling::topologies
