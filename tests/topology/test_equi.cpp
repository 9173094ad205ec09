// Topologies drawn at random, whole or step by step: EquiTopo's four and random matchings.

#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"
#include "topology/spectrum.hpp"

namespace starling::topologies::test_equi {
namespace {

TEST_CASE("EquiTopo and random matchings are doubly stochastic, undirected ones symmetric") {
  for (const NodeId nodes : {2, 5, 6, 16, 33}) {
    for (const std::string directed : {"yes", "no"}) {
      for (const std::string kind : {"equi_static", "equi_dynamic"}) {
        CAPTURE(kind);
        CAPTURE(nodes);
        const auto topology = test::make(kind, nodes, {{"directed", directed}});
        CHECK(is_doubly_stochastic(topology));
        if (directed == "no") CHECK(topology.is_symmetric());
      }
    }
    const auto matching = test::make("random_matching", nodes);
    CHECK(is_doubly_stochastic(matching));
    CHECK(matching.is_symmetric());
  }
}

TEST_CASE("the mean of A(u) over all offsets u is 1/n everywhere") {
  // With eta = 1 each step of OD-EquiDyn is one A(u); 200 draws of six offsets miss one with probability 1e-15.
  const NodeId nodes = 7;
  const auto topology = test::make("equi_dynamic", nodes, {{"eta", "1"}, {"rounds", "200"}});
  std::set<NodeId> seen;
  std::vector<double> sum(49, 0.0);
  for (Step r = 0; r < 200; ++r) {
    const NodeId offset = topology.out(0, r)[0].peer;
    for (NodeId i = 0; i < nodes; ++i) {
      REQUIRE(topology.out(i, r).size() == 1);
      CHECK(topology.out(i, r)[0].peer == (i + offset) % nodes);
      CHECK(topology.out(i, r)[0].weight == doctest::Approx(6.0 / 7).epsilon(1e-7));
    }
    if (!seen.insert(offset).second) continue;
    const auto w = test::mixing_matrix(topology, r);
    for (std::size_t e = 0; e < w.size(); ++e) sum[e] += w[e] / 6;
  }
  CHECK(seen.size() == 6);
  for (const double entry : sum) CHECK(entry == doctest::Approx(1.0 / 7).epsilon(1e-6));
}

TEST_CASE("EquiStatic hands on by the same offsets everywhere, with the shares of the draws") {
  // Twelve draws of 1 .. 8: every weight is a multiple of 8/9 / 12, and a row's sum to 8/9.
  const auto topology = test::make("equi_static", 9, {{"degree", "12"}});
  double sum = 0;
  for (const Edge& edge : topology.out(0)) {
    const double times = edge.weight / (8.0 / 9 / 12);
    CHECK(times == doctest::Approx(std::round(times)).epsilon(1e-5));
    sum += edge.weight;
    for (NodeId i = 1; i < 9; ++i) {
      const auto w = test::mixing_matrix(topology);
      CHECK(w[static_cast<std::size_t>((i + edge.peer) % 9) * 9 + static_cast<std::size_t>(i)] ==
            static_cast<double>(edge.weight));
    }
  }
  CHECK(sum == doctest::Approx(8.0 / 9).epsilon(1e-6));
}

TEST_CASE("EquiStatic both ways gives the same share away, also by half a turn, which is one way") {
  for (const NodeId nodes : {2, 4, 7}) {
    CAPTURE(nodes);
    const auto topology = test::make("equi_static", nodes, {{"degree", "5"}, {"directed", "no"}});
    double sum = 0;
    for (const Edge& edge : topology.out(0)) sum += edge.weight;
    CHECK(sum == doctest::Approx((nodes - 1.0) / nodes).epsilon(1e-6));
  }
}

TEST_CASE("the gap of EquiStatic does not close as the nodes grow") {
  // Theorem 1 with epsilon = 0.9: M = ceil(8 ln(2n / p) / (3 * 0.81)) gives a gap of at least 0.1 with probability
  // 1 - p; p = 0.01 here. A ring of 4096 nodes has 1.6e-6.
  for (const NodeId nodes : {64, 512, 4096}) {
    const int degree = static_cast<int>(std::ceil(8 * std::log(2 * nodes / 0.01) / (3 * 0.81)));
    for (const std::string directed : {"yes", "no"}) {
      const auto topology = test::make(
          "equi_static", nodes, {{"degree", std::to_string(degree)}, {"directed", directed}});
      CHECK(spectral_gap(topology).gap > 0.1);
      CHECK(topology.arc_count() <= static_cast<std::size_t>(2 * nodes) * degree);
    }
  }
}

TEST_CASE("EquiStatic is connected even if its few offsets share a divisor with the nodes") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(test::is_connected(test::make("equi_static", 12, {{"degree", "1"}}, seed)));
  }
}

TEST_CASE("pairs of OU-EquiDyn lie at one distance, and none that could pair is left over") {
  const NodeId nodes = 15;
  const auto topology = test::make("equi_dynamic", nodes, {{"directed", "no"}, {"rounds", "60"}});
  for (Step r = 0; r < 60; ++r) {
    std::set<NodeId> distances;
    std::vector<char> is_free(15, 1);
    for (NodeId i = 0; i < nodes; ++i) {
      REQUIRE(topology.out(i, r).size() <= 1);
      for (const Edge& edge : topology.out(i, r)) {
        CHECK(edge.weight == doctest::Approx(0.5 * 14 / 15).epsilon(1e-7));
        CHECK(topology.out(edge.peer, r)[0].peer == i);
        const NodeId forward = (edge.peer - i + nodes) % nodes;
        distances.insert(std::min(forward, nodes - forward));
        is_free[static_cast<std::size_t>(i)] = 0;
      }
    }
    REQUIRE(distances.size() == 1);
    for (NodeId i = 0; i < nodes; ++i) {
      const NodeId j = (i + *distances.begin()) % nodes;
      CHECK_FALSE((is_free[static_cast<std::size_t>(i)] && is_free[static_cast<std::size_t>(j)]));
    }
  }
}

TEST_CASE("OU-EquiDyn begins to pair at a random node: each is left over at times") {
  // Of 15 nodes one or more are left over, so a node is spared for 300 rounds with probability 1e-9.
  const auto topology = test::make("equi_dynamic", 15, {{"directed", "no"}, {"rounds", "300"}});
  std::set<NodeId> left_over;
  for (Step r = 0; r < 300; ++r) {
    for (NodeId i = 0; i < 15; ++i) {
      if (topology.out(i, r).empty()) left_over.insert(i);
    }
  }
  CHECK(left_over.size() == 15);
}

TEST_CASE("a random matching is perfect, and every partner as likely as any other") {
  // Node 0 meets each of 15 others 3000 / 15 = 200 times on average, standard deviation sqrt(200 * 14/15) = 13.7.
  const auto topology = test::make("random_matching", 16, {{"rounds", "3000"}});
  std::vector<int> met(16, 0);
  for (Step r = 0; r < 3000; ++r) {
    for (NodeId i = 0; i < 16; ++i) {
      REQUIRE(topology.out(i, r).size() == 1);
      REQUIRE(topology.out(i, r)[0].weight == 0.5F);
    }
    ++met[static_cast<std::size_t>(topology.out(0, r)[0].peer)];
  }
  for (std::size_t j = 1; j < 16; ++j) CHECK(std::abs(met[j] - 200) < 5 * 14);
}

TEST_CASE("drawn schedules have the wanted period and one arc per node and step, 4096 nodes too") {
  CHECK(test::make("equi_dynamic", 6, {{"rounds", "9"}}).period() == 9);
  CHECK(test::make("equi_dynamic", 4096).arc_count() == std::size_t{128} * 4096);
  CHECK(test::make("random_matching", 4096).arc_count() == std::size_t{128} * 4096);
  CHECK(test::refusal("equi_dynamic", 4, {{"rounds", "0"}}) ==
        "t.ini:3: topology.rounds must be at least 1, got 0");
  CHECK(test::refusal("random_matching", 100'000, {{"rounds", "10000"}}).find("1e+09 arcs") !=
        std::string::npos);
}

}  // namespace
}  // namespace starling::topologies::test_equi
