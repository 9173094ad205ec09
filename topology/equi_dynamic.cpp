// EquiDyn: at every step one offset u, uniform in 1 .. n-1 and the same for all nodes.
//
//   directed     every i sends to i + u:  W = (1 - eta) I + eta A(u),  A(u) = (n-1)/n Shift_u + 1/n I
//                                                                         OD-EquiDyn
//   undirected   from a random node s on, s, s+1, ..: i and i + u form a pair if both are free; a pair
//                averages with weight eta (n-1)/n each, who is left over keeps its model    OU-EquiDyn
//
// One message per node and step at most. Both are doubly stochastic; in expectation a step shrinks the
// squared distance from the mean by a factor that does not depend on n, since the mean of A(u) over
// all u is 1/n everywhere.
//
// Song et al., "Communication-Efficient Topologies for Decentralized Learning with O(1) Consensus
// Rate", NeurIPS 2022, Algorithms 3 and 4. Drawn for `rounds` steps, see rounds.hpp.

#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"
#include "topology/rounds.hpp"

namespace starling::topologies {
namespace {

std::vector<Topology::Arc> shift_all(NodeId nodes, NodeId offset, double weight) {
  std::vector<Topology::Arc> arcs;
  for (NodeId i = 0; i < nodes; ++i) arcs.push_back({i, shifted(i, offset, nodes), weight});
  return arcs;
}

std::vector<Topology::Arc> pair_up(NodeId nodes, NodeId offset, NodeId start, double weight) {
  std::vector<Topology::Arc> arcs;
  std::vector<char> is_taken(static_cast<std::size_t>(nodes), 0);
  for (NodeId step = 0; step < nodes; ++step) {
    const NodeId i = shifted(start, step, nodes);
    const NodeId j = shifted(i, offset, nodes);
    char& first = is_taken[static_cast<std::size_t>(i)];
    char& second = is_taken[static_cast<std::size_t>(j)];
    if (first || second) continue;
    first = second = 1;
    arcs.push_back({i, j, weight});
    arcs.push_back({j, i, weight});
  }
  return arcs;
}

}  // namespace

Topology equi_dynamic(const Section& section, NodeId nodes, std::uint64_t seed) {
  const bool is_directed =
      section.optional<bool>("directed", true, "all nodes send on by u, or pairs at distance u");
  const double eta = read_share_above_0(section, "eta", 0.5,
                                        "how far a step goes from keeping to exchanging models");
  const Step rounds = read_rounds(section);
  section.finish();
  expect_rounds_fit(section, rounds, nodes);

  std::vector<std::vector<Topology::Arc>> phases(static_cast<std::size_t>(rounds));
  const double weight = eta * (nodes - 1.0) / nodes;
  for (Step r = 0; r < rounds && nodes > 1; ++r) {
    Random random(seed, "equi_dynamic", shared_stream, r);
    const auto offset =
        static_cast<NodeId>(1 + random.below(static_cast<std::uint64_t>(nodes - 1)));
    const auto start = static_cast<NodeId>(random.below(static_cast<std::uint64_t>(nodes)));
    phases[static_cast<std::size_t>(r)] =
        is_directed ? shift_all(nodes, offset, weight) : pair_up(nodes, offset, start, weight);
  }
  return complete_rows(nodes, phases);
}

}  // namespace starling::topologies
