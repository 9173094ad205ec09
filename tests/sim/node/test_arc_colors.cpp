// In every turn nobody is sent to by two, and a node's turns name each of its receivers once.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "sim/node/arc_colors.hpp"

namespace starling::test_arc_colors {
namespace {

ArcColors graph(NodeId nodes, std::vector<std::pair<NodeId, NodeId>> arcs) {
  std::ranges::sort(arcs);
  const auto rest = std::ranges::unique(arcs);
  arcs.erase(rest.begin(), rest.end());
  ArcColors colors{.begin = std::vector<std::size_t>(static_cast<std::size_t>(nodes) + 1, 0),
                   .receivers = {}};
  for (const auto& [from, to] : arcs) {
    ++colors.begin[static_cast<std::size_t>(from) + 1];
    colors.receivers.push_back(to);
  }
  for (std::size_t i = 1; i < colors.begin.size(); ++i) colors.begin[i] += colors.begin[i - 1];
  return colors;
}

/// How often two send to one in the same turn.
int collisions(const ArcColors& graph, const std::vector<std::uint32_t>& turns) {
  std::set<std::pair<std::size_t, NodeId>> taken;
  int count = 0;
  for (std::size_t node = 0; node + 1 < graph.begin.size(); ++node) {
    for (std::size_t t = graph.begin[node]; t < graph.begin[node + 1]; ++t) {
      const NodeId to = graph.receivers[graph.begin[node] + turns[t]];
      count += taken.insert({t - graph.begin[node], to}).second ? 0 : 1;
    }
  }
  return count;
}

bool are_permutations(const ArcColors& graph, const std::vector<std::uint32_t>& turns) {
  for (std::size_t node = 0; node + 1 < graph.begin.size(); ++node) {
    const std::set<std::uint32_t> own(
        turns.begin() + static_cast<std::ptrdiff_t>(graph.begin[node]),
        turns.begin() + static_cast<std::ptrdiff_t>(graph.begin[node + 1]));
    if (own.size() != graph.begin[node + 1] - graph.begin[node]) return false;
    if (!own.empty() && *own.rbegin() + 1 != own.size()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("turns of regular graphs have no two senders to one") {
  std::vector<std::pair<NodeId, NodeId>> hypercube;
  for (NodeId i = 0; i < 64; ++i) {
    for (NodeId bit = 1; bit < 64; bit *= 2) hypercube.emplace_back(i, i ^ bit);
  }
  std::vector<std::pair<NodeId, NodeId>> torus;
  for (NodeId i = 0; i < 35; ++i) {
    const NodeId row = i / 7;
    const NodeId column = i % 7;
    for (const NodeId step : {1, 6}) torus.emplace_back(i, 7 * row + (column + step) % 7);
    for (const NodeId step : {1, 4}) torus.emplace_back(i, 7 * ((row + step) % 5) + column);
  }
  for (const ArcColors& arcs : {graph(64, hypercube), graph(35, torus)}) {
    const std::vector<std::uint32_t> turns = arcs.turns();
    REQUIRE(turns.size() == arcs.receivers.size());
    CHECK(are_permutations(arcs, turns));
    CHECK(collisions(arcs, turns) == 0);
  }
}

TEST_CASE("graphs in which going around does as well need no turns of their own") {
  std::vector<std::pair<NodeId, NodeId>> ring;
  std::vector<std::pair<NodeId, NodeId>> exponential;
  for (NodeId i = 0; i < 21; ++i) {
    for (const NodeId step : {1, 20}) ring.emplace_back(i, (i + step) % 21);
    for (const NodeId step : {1, 2, 4, 8, 16}) exponential.emplace_back(i, (i + step) % 21);
  }
  CHECK(graph(21, ring).turns().empty());
  CHECK(graph(21, exponential).turns().empty());
  CHECK(graph(3, {}).turns().empty());
}

TEST_CASE("shuffled regular graphs are colored with as many colors as their degree") {
  for (const NodeId degree : {3, 7, 16}) {
    Random random(1, "arc colors", 0, degree);
    std::vector<NodeId> name(256);
    std::iota(name.begin(), name.end(), 0);
    random.shuffle(name);
    std::set<std::pair<NodeId, NodeId>> arcs;
    while (arcs.size() < 256 * static_cast<std::size_t>(degree)) {
      const auto mask = static_cast<NodeId>(1 + random.below(255));
      for (NodeId i = 0; i < 256; ++i) {
        arcs.emplace(name[static_cast<std::size_t>(i)], name[static_cast<std::size_t>(i ^ mask)]);
      }
    }
    const ArcColors colors = graph(256, {arcs.begin(), arcs.end()});
    const std::vector<std::uint32_t> turns = colors.turns();
    REQUIRE(turns.size() == colors.receivers.size());
    CHECK(are_permutations(colors, turns));
    CHECK(collisions(colors, turns) == 0);
  }
}

}  // namespace starling::test_arc_colors
