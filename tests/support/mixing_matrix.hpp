// The weights of a topology written out.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/node/topology.hpp"

namespace starling::test {

/// The mixing matrix W of step k, n x n, row-major.
inline std::vector<double> mixing_matrix(const Topology& topology, Step k = 0) {
  const auto n = static_cast<std::size_t>(topology.nodes());
  std::vector<double> w(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    w[i * n + i] = topology.self_weight(static_cast<NodeId>(i), k);
    for (const Edge& edge : topology.in(static_cast<NodeId>(i), k))
      w[i * n + static_cast<std::size_t>(edge.peer)] = edge.weight;
  }
  return w;
}

}  // namespace starling::test
