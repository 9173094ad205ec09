// Random regular graph: connected, every node with the same degree; an expander almost surely from
// degree 3 on.
//
// Pairing model (Bollobas, "A probabilistic proof of an asymptotic formula for the
// number of labelled regular graphs", European Journal of Combinatorics 1, 1980): each node has
// `degree` ends, all ends are paired at random. Pairs that join a node with itself or repeat a
// connection are mended by exchanging ends with random other pairs; what is not connected is drawn
// anew. Nearly, not exactly, uniform over all such graphs.
//
// Two cases are drawn otherwise, since the above would take too long: degree 2 (a ring in random order, exactly
// uniform) and degrees above (n - 1)/2 (the complement of a graph of the remaining degree).

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "sim/base/random.hpp"
#include "topology/connectivity.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {
namespace {

constexpr Step most_pairings = 100;

/// The connections of a simple graph under construction. Only asked and changed, never walked in
/// hash order.
class ConnectionSet {
 public:
  explicit ConnectionSet(std::size_t expected) { keys_.reserve(expected); }
  /// False, and no change, if the two are the same node or connected already.
  bool add(Connection c) { return c.first != c.second && keys_.insert(key(c)).second; }
  void remove(Connection c) { keys_.erase(key(c)); }
  bool has(Connection c) const { return keys_.contains(key(c)); }

 private:
  static std::uint64_t key(Connection c) {
    const auto [low, high] = std::minmax(c.first, c.second);
    return static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high);
  }
  std::unordered_set<std::uint64_t> keys_;
};

/// Makes `pairs[broken]` = (a, b) a connection: with a random other pair (c, d) it becomes (a, c)
/// and (b, d). False if many other pairs were tried in vain.
bool mend(std::vector<Connection>& pairs, std::size_t broken, std::vector<char>& is_sound,
          ConnectionSet& set, Random& rng) {
  const std::size_t tries = 100 + 10 * pairs.size();
  for (std::size_t t = 0; t < tries; ++t) {
    const std::size_t other = rng.below(pairs.size());
    if (!is_sound[other]) continue;
    const auto [a, b] = pairs[broken];
    auto [c, d] = pairs[other];
    if (rng.below(2) == 1) std::swap(c, d);
    if (!set.add({a, c})) continue;
    if (!set.add({b, d})) {
      set.remove({a, c});
      continue;
    }
    set.remove(pairs[other]);
    pairs[broken] = {a, c};
    pairs[other] = {b, d};
    is_sound[broken] = 1;
    return true;
  }
  return false;
}

/// A simple graph of this degree, perhaps not connected; nothing if mending failed.
std::optional<std::vector<Connection>> pair_ends(NodeId nodes, NodeId degree, Random& rng) {
  std::vector<NodeId> ends;
  for (NodeId i = 0; i < nodes; ++i) ends.insert(ends.end(), static_cast<std::size_t>(degree), i);
  rng.shuffle(ends);

  std::vector<Connection> pairs(ends.size() / 2);
  std::vector<char> is_sound(pairs.size());
  ConnectionSet set(pairs.size());
  for (std::size_t e = 0; e < pairs.size(); ++e) {
    pairs[e] = {ends[2 * e], ends[2 * e + 1]};
    is_sound[e] = set.add(pairs[e]);
  }
  for (std::size_t e = 0; e < pairs.size(); ++e) {
    if (!is_sound[e] && !mend(pairs, e, is_sound, set, rng)) return std::nullopt;
  }
  return pairs;
}

std::vector<Connection> shuffled_ring(NodeId nodes, Random& rng) {
  std::vector<NodeId> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(order);
  std::vector<Connection> connections;
  for (std::size_t i = 0; i < order.size(); ++i) {
    connections.push_back({order[i], order[(i + 1) % order.size()]});
  }
  return connections;
}

std::vector<Connection> complement(NodeId nodes, const std::vector<Connection>& connections) {
  ConnectionSet set(connections.size());
  for (const Connection& c : connections) set.add(c);
  std::vector<Connection> others;
  for (NodeId i = 0; i < nodes; ++i) {
    for (NodeId j = i + 1; j < nodes; ++j) {
      if (!set.has({i, j})) others.push_back({i, j});
    }
  }
  return others;
}

std::optional<std::vector<Connection>> draw(NodeId nodes, NodeId degree, Random rng) {
  if (degree == 2) return shuffled_ring(nodes, rng);
  if (2 * static_cast<std::int64_t>(degree) < nodes) return pair_ends(nodes, degree, rng);
  auto rest = pair_ends(nodes, nodes - 1 - degree, rng);
  if (rest) rest = complement(nodes, *rest);
  return rest;
}

}  // namespace

Topology random_regular(const Section& section, NodeId nodes, std::uint64_t seed) {
  const auto wanted = section.optional<std::int64_t>("degree", 4, "neighbors of each node");
  section.expect(wanted >= 1, "degree", "must be at least 1, got {}", wanted);
  const Mixing mixing = read_mixing(section, seed);
  section.finish();
  section.expect(wanted < nodes, "degree", "must be below the {} nodes, got {}", nodes, wanted);
  section.expect(nodes * wanted % 2 == 0, "degree",
                 "must be even for an odd number of nodes ({}), got {}", nodes, wanted);
  section.expect(wanted >= 2 || nodes == 2, "degree",
                 "must be at least 2 to connect {} nodes, got {}", nodes, wanted);
  expect_arcs_fit(section, "degree", static_cast<double>(nodes) * static_cast<double>(wanted));

  std::pair<NodeId, NodeId> apart{0, 1};
  for (Step attempt = 0; attempt < most_pairings; ++attempt) {
    const auto connections =
        draw(nodes, static_cast<NodeId>(wanted), Random(seed, "topology", shared_stream, attempt));
    if (!connections) continue;
    const auto found = separated(nodes, *connections);
    if (!found) return mix(nodes, *connections, mixing);
    apart = *found;
  }
  section.fail(
      "kind",
      "random_regular found no connected graph in {} draws, the last left nodes {} and {} in "
      "different parts",
      most_pairings, apart.first, apart.second);
}

}  // namespace starling::topologies
