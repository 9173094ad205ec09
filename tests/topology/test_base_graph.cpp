// The Base-(k+1) graph: exact means after few rounds, for any number of nodes.

#include <algorithm>
#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"
#include "topology/spectrum.hpp"

namespace starling::topologies::test_base_graph {
namespace {

Topology base_graph(NodeId nodes, int degree) {
  return test::make("base_graph", nodes, {{"degree", std::to_string(degree)}});
}

/// How far the rounds leave what one node had from an equal share for everybody, in ratio to that: the worst of all nodes.
double worst_share(const Topology& topology) {
  return topology.nodes() * test::distance_from_average(topology);
}

std::size_t most_peers(const Topology& topology) {
  std::size_t most = 0;
  for (Step r = 0; r < static_cast<Step>(topology.period()); ++r) {
    for (NodeId i = 0; i < topology.nodes(); ++i)
      most = std::max<std::size_t>(most, topology.out(i, r).size());
  }
  return most;
}

TEST_CASE("after its rounds every node of a Base-(k+1) graph has the mean, with k peers at most") {
  for (NodeId nodes = 1; nodes <= 70; ++nodes) {
    for (const int degree : {1, 2, 3, 4, 6, 9}) {
      CAPTURE(nodes);
      CAPTURE(degree);
      const Topology topology = base_graph(nodes, degree);
      REQUIRE(worst_share(topology) < 1e-5);
      REQUIRE(most_peers(topology) <= static_cast<std::size_t>(degree));
      REQUIRE(is_doubly_stochastic(topology));
      REQUIRE(topology.is_symmetric());
      // Theorem 1.
      const double most = 2 * std::log(nodes) / std::log(degree + 1.0) + 2;
      REQUIRE(static_cast<double>(topology.period()) <= most);
    }
  }
}

TEST_CASE("so it is for numbers of nodes with long and with short digits, and primes") {
  for (const NodeId nodes : {127, 128, 129, 210, 243, 257, 341, 500}) {
    for (const int degree : {1, 2, 5}) {
      CAPTURE(nodes);
      CAPTURE(degree);
      const Topology topology = base_graph(nodes, degree);
      CHECK(worst_share(topology) < 1e-4);
      CHECK(most_peers(topology) <= static_cast<std::size_t>(degree));
    }
  }
}

TEST_CASE("the numbers of rounds follow from factors and digits") {
  // Powers of the base, products of small factors, one digit behind another (for 5 in pairs 2 + 1 + 2), and 6 = 2 * 3
  // nodes, which as two groups of three are done a round before those of the digits of 6; 10 = 2 * 5 likewise.
  const std::map<std::pair<NodeId, int>, std::size_t> rounds = {
      {{2, 1}, 1}, {{16, 1}, 4}, {{1024, 1}, 10}, {{27, 2}, 3}, {{25, 4}, 2}, {{24, 3}, 3},
      {{3, 1}, 3}, {{5, 1}, 5},  {{6, 1}, 4},     {{7, 1}, 5},  {{24, 1}, 6}, {{10, 2}, 4},
      {{8, 9}, 1}, {{8, 7}, 1},  {{5, 2}, 3},     {{23, 2}, 6}};
  for (const auto& entry : rounds) {
    const NodeId nodes = entry.first.first;
    const int degree = entry.first.second;
    CAPTURE(nodes);
    CAPTURE(degree);
    CHECK(base_graph(nodes, degree).period() == entry.second);
  }
}

TEST_CASE("five nodes in pairs: four are a square, with one of which the fifth averages once") {
  const Topology topology = base_graph(5, 1);
  const auto pairs = [&](Step r) {
    std::map<std::pair<NodeId, NodeId>, float> result;
    for (NodeId i = 0; i < 5; ++i) {
      for (const Edge& edge : topology.in(i, r)) {
        if (i < edge.peer) result[{i, edge.peer}] = edge.weight;
      }
    }
    return result;
  };
  using Pairs = std::map<std::pair<NodeId, NodeId>, float>;
  const Pairs neighbors = {{{0, 1}, 0.5F}, {{2, 3}, 0.5F}};
  const Pairs opposite = {{{0, 2}, 0.5F}, {{1, 3}, 0.5F}};
  REQUIRE(topology.period() == 5);
  CHECK(pairs(0) == neighbors);
  CHECK(pairs(1) == opposite);
  // The fifth takes 4/5 of what stands for four; of the three others two are a pair.
  CHECK(pairs(2) == Pairs{{{0, 1}, 0.5F}, {{3, 4}, 0.8F}});
  CHECK(pairs(3) == neighbors);
  CHECK(pairs(4) == opposite);
}

TEST_CASE("with a degree for everybody a Base-(k+1) graph is complete") {
  for (const NodeId nodes : {2, 5, 12}) {
    for (const int degree : {nodes - 1, nodes, 1000}) {
      const Topology topology = base_graph(nodes, degree);
      CHECK(topology.period() == 1);
      for (NodeId i = 0; i < nodes; ++i) CHECK(topology.out(i).size() == nodes - 1);
    }
  }
  CHECK(test::refusal("base_graph", 4, {{"degree", "0"}}) ==
        "t.ini:3: topology.degree must be at least 1, got 0");
}

TEST_CASE("exact means are a spectral gap of one") {
  for (const NodeId nodes : {5, 12, 31}) {
    const auto topology = base_graph(nodes, 1);
    CHECK(spectral_gap(topology).gap == doctest::Approx(1).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace starling::topologies::test_base_graph
