// Random matchings: at every step all nodes form random pairs, and a pair averages, half and half; with
// an odd number of nodes one is left over and keeps its model. Symmetric and doubly stochastic. One step
// shrinks the squared distance from the mean to (n - 2) / (2 (n - 1)) of what it was, on average, for an
// even number of nodes n.
//
// Boyd, Ghosh, Prabhakar, Shah, "Randomized Gossip Algorithms", IEEE Trans. Information Theory 52(6),
// 2006, section V (synchronous gossip). Drawn for `rounds` steps, see rounds.hpp.

#include <numeric>

#include "sim/base/random.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"
#include "topology/rounds.hpp"

namespace starling::topologies {

Topology random_matching(const Section& section, NodeId nodes, std::uint64_t seed) {
  const Step rounds = read_rounds(section);
  section.finish();
  expect_rounds_fit(section, rounds, nodes);

  std::vector<std::vector<Topology::Arc>> phases(static_cast<std::size_t>(rounds));
  std::vector<NodeId> order(static_cast<std::size_t>(nodes));
  for (Step r = 0; r < rounds; ++r) {
    Random random(seed, "random_matching", shared_stream, r);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
      phases[static_cast<std::size_t>(r)].push_back({order[i], order[i + 1], 0.5});
      phases[static_cast<std::size_t>(r)].push_back({order[i + 1], order[i], 0.5});
    }
  }
  return complete_rows(nodes, phases);
}

}  // namespace starling::topologies
