// One-peer exponential graph: at step k node i sends to i + 2^(k mod L) alone (modulo n) and
// averages what it receives with its own, half and half; L is the number of powers of two below n.
// For n = 2^L the product of L successive W is exactly 1/n everywhere; for other n it is not (it is
// off by up to 1/12 for n = 6).
//
// Assran, Loizou, Ballas and Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML
// 2019; Ying et al., "Exponential Graph is Provably Efficient for Decentralized Deep Training",
// NeurIPS 2021.

#include <cmath>

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology one_peer_exponential(const Section& section, NodeId nodes, std::uint64_t /*seed*/) {
  section.finish();
  expect_arcs_fit(section, "kind", nodes * std::ceil(std::log2(nodes)));

  std::vector<std::vector<Topology::Arc>> phases;
  for (std::int64_t distance = 1; distance < nodes; distance *= 2) {
    std::vector<Topology::Arc>& arcs = phases.emplace_back();
    for (NodeId i = 0; i < nodes; ++i) {
      arcs.push_back({i, static_cast<NodeId>((i + distance) % nodes), 0.5});
    }
  }
  if (phases.empty()) phases.emplace_back();  // one node: nobody to send to
  return complete_rows(nodes, phases);
}

}  // namespace starling::topologies
