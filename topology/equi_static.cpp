// EquiStatic: the mean of a few random shifts. With A(u) = (n-1)/n Shift_u + 1/n I, where Shift_u hands
// every model on by u nodes, and `degree` = M offsets u_1 .. u_M, uniform in 1 .. n-1,
//
//   directed     W = 1/M sum_m A(u_m)                   D-EquiStatic
//   undirected   W = 1/(2M) sum_m (A(u_m) + A(u_m)^T)   U-EquiStatic
//
// Both are doubly stochastic. The mean of A(u) over all u is 1/n everywhere, so with probability 1 - p
// the distance from it is at most epsilon as soon as M >= 8 ln(2n/p) / (3 epsilon^2): a spectral gap
// that does not close as n grows, at a degree of order log n. The default is the logarithm itself.
//
// Song et al., "Communication-Efficient Topologies for Decentralized Learning with O(1) Consensus
// Rate", NeurIPS 2022, Algorithms 1 and 2, Theorems 1 and 2.

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "sim/base/random.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"
#include "topology/rounds.hpp"

namespace starling::topologies {

namespace {

constexpr std::int64_t most_offsets = 1'000'000;

/// Offsets that connect all nodes: drawn anew until they and the number of nodes have no common divisor,
/// as with u = 2 alone for four nodes.
std::vector<NodeId> draw_offsets(NodeId nodes, std::int64_t degree, std::uint64_t seed) {
  std::vector<NodeId> offsets;
  for (Step attempt = 0; nodes > 1; ++attempt) {
    Random random(seed, "equi_static", shared_stream, attempt);
    NodeId divisor = nodes;
    offsets.clear();
    for (std::int64_t m = 0; m < degree; ++m) {
      offsets.push_back(
          static_cast<NodeId>(1 + random.below(static_cast<std::uint64_t>(nodes - 1))));
      divisor = std::gcd(divisor, offsets.back());
    }
    if (divisor == 1) break;  // 1 is among the offsets that may come, so some attempt succeeds
  }
  return offsets;
}

}  // namespace

Topology equi_static(const Section& section, NodeId nodes, std::uint64_t seed) {
  const std::int64_t logarithm = std::bit_width(static_cast<std::uint32_t>(nodes - 1));
  const auto degree = section.optional<std::int64_t>("degree", std::max<std::int64_t>(1, logarithm),
                                                     "number of random offsets, M");
  section.expect_range("degree", degree, 1, most_offsets);
  const bool is_directed = section.optional<bool>(
      "directed", true, "send one way only, or both ways at half the weight");
  section.finish();
  const int ways = is_directed ? 1 : 2;
  expect_arcs_fit(section, "kind",
                  static_cast<double>(nodes) *
                      static_cast<double>(std::min<std::int64_t>(degree * ways, nodes)));

  std::map<NodeId, double> weight_of;  // by offset; one that is drawn twice weighs twice
  const double share = (nodes - 1.0) / nodes / static_cast<double>(degree * ways);
  for (const NodeId offset : draw_offsets(nodes, degree, seed)) {
    weight_of[offset] += share;
    if (!is_directed) weight_of[nodes - offset] += share;
  }
  std::vector<Topology::Arc> arcs;
  for (NodeId i = 0; i < nodes; ++i) {
    for (const auto& [offset, weight] : weight_of) {
      arcs.push_back({i, shifted(i, offset, nodes), weight});
    }
  }
  return complete_rows(nodes, {std::move(arcs)});
}

}  // namespace starling::topologies
