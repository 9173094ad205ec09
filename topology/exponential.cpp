// Static exponential graph: node i sends to i + 2^j (modulo n) for each of the L powers 2^j < n.
// All weights, W_ii included, are 1/(L + 1): a directed circulant, so doubly stochastic though not
// symmetric.
//
// Ying, Yuan, Chen, Hu, Pan and Yin, "Exponential Graph is Provably Efficient for Decentralized
// Deep Training", NeurIPS 2021.

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology exponential(const Section& section, NodeId nodes, std::uint64_t /*seed*/) {
  section.finish();
  std::vector<std::int64_t> distances;
  for (std::int64_t distance = 1; distance < nodes; distance *= 2) distances.push_back(distance);
  expect_arcs_fit(section, "kind",
                  static_cast<double>(nodes) * static_cast<double>(distances.size()));

  const double weight = 1.0 / static_cast<double>(distances.size() + 1);
  std::vector<Topology::Arc> arcs;
  for (const std::int64_t distance : distances) {
    for (NodeId i = 0; i < nodes; ++i) {
      arcs.push_back({i, static_cast<NodeId>((i + distance) % nodes), weight});
    }
  }
  return complete_rows(nodes, {std::move(arcs)});
}

}  // namespace starling::topologies
