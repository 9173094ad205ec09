// Erdos-Renyi graph G(n, p): each of the n(n-1)/2 pairs is connected with probability p,
// independently. Drawn anew until connected, so the result is G(n, p) given that it is. Large
// graphs almost never are if p is below ln(n)/n.
//
// Gaps between successive pairs are geometric, so a draw costs as much as it has connections, not
// n^2: Batagelj and Brandes, "Efficient generation of large random networks", Physical Review E 71,
// 2005.

#include <cmath>

#include "sim/base/elementary.hpp"
#include "sim/base/random.hpp"
#include "topology/connectivity.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {
namespace {

constexpr Step most_draws = 100;

std::vector<Connection> draw(NodeId nodes, double probability, Random rng) {
  // -ln(1 - p): infinite for 1, so no gaps; p itself where 1 - p would round p away.
  const double rate = probability < 1e-8 ? probability : -exact_log(1 - probability);
  const double pairs = 0.5 * nodes * (nodes - 1.0);
  std::vector<Connection> connections;
  // Pairs (row, column), column < row, row after row; `column` is where the last connection was.
  std::int64_t row = 1;
  std::int64_t column = -1;
  for (;;) {
    const double gap = std::floor(rng.exponential() / rate);
    if (gap >= pairs) return connections;  // perhaps too large for an integer
    column += 1 + static_cast<std::int64_t>(gap);
    while (row < nodes && column >= row) column -= row++;
    if (row >= nodes) return connections;
    connections.push_back({static_cast<NodeId>(column), static_cast<NodeId>(row)});
  }
}

}  // namespace

Topology erdos_renyi(const Section& section, NodeId nodes, std::uint64_t seed) {
  const auto probability =
      section.required<double>("probability", "that two nodes are connected, 0 to 1");
  section.expect(probability > 0 && probability <= 1, "probability",
                 "must be above 0 and at most 1, got {}", probability);
  const Mixing mixing = read_mixing(section, seed);
  section.finish();
  expect_arcs_fit(section, "probability", probability * nodes * (nodes - 1.0));

  std::pair<NodeId, NodeId> apart;
  for (Step attempt = 0; attempt < most_draws; ++attempt) {
    const auto connections =
        draw(nodes, probability, Random(seed, "topology", shared_stream, attempt));
    const auto found = separated(nodes, connections);
    if (!found) return mix(nodes, connections, mixing);
    apart = *found;
  }
  section.fail("probability",
               "must be large enough to connect {} nodes: {} graphs drawn with {} fell into parts "
               "(nodes {} and {} "
               "are in different ones); the threshold is ln(n)/n = {:.3g}",
               nodes, most_draws, probability, apart.first, apart.second, std::log(nodes) / nodes);
}

}  // namespace starling::topologies
