// Erdos-Renyi and random regular graphs: simple, connected, distributed as promised, or refused
// with a reason.

#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies::test_random_graphs {
namespace {

TEST_CASE("random regular graphs of every possible size are simple, connected and regular") {
  // A self-loop or a double arc would not get past the constructor of Topology.
  for (NodeId nodes = 3; nodes <= 11; ++nodes) {
    for (NodeId degree = 2; degree < nodes; ++degree) {
      if (nodes * degree % 2 == 1) continue;
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        CAPTURE(nodes);
        CAPTURE(degree);
        CAPTURE(seed);
        const auto graph =
            test::make("random_regular", nodes, {{"degree", std::to_string(degree)}}, seed);
        CHECK(test::is_connected(graph));
        CHECK(graph.is_symmetric());
        for (NodeId i = 0; i < nodes; ++i)
          CHECK(graph.in(i).size() == static_cast<std::size_t>(degree));
      }
    }
  }
}

TEST_CASE("a large random regular graph has degree 4 unless told otherwise, and weights 1/5") {
  const auto graph = test::make("random_regular", 20'000);
  CHECK(test::is_connected(graph));
  CHECK(graph.arc_count() == 80'000);
  CHECK(graph.in(123).size() == 4);
  CHECK(graph.in(123)[0].weight == 0.2f);
}

TEST_CASE("seeds make different random regular graphs, and none is preferred") {
  // On 4 nodes there are three rings, named by who is opposite node 0. 3000 seeds: 1000 each, and
  // the standard deviation is sqrt(3000 * 1/3 * 2/3) = 26. Degree 2 of 4 nodes, drawn as a shuffled
  // ring.
  std::vector<int> opposite(4, 0);
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const auto ring = test::make("random_regular", 4, {{"degree", "2"}}, seed);
    std::set<NodeId> rest{1, 2, 3};
    for (const Edge& edge : ring.in(0)) rest.erase(edge.peer);
    ++opposite[static_cast<std::size_t>(*rest.begin())];
  }
  for (NodeId i = 1; i <= 3; ++i)
    CHECK(std::abs(opposite[static_cast<std::size_t>(i)] - 1000) < 130);
}

TEST_CASE("degrees that no connected regular graph has are refused") {
  const auto refusal = [](NodeId nodes, const char* degree) {
    return test::refusal("random_regular", nodes, {{"degree", degree}});
  };
  CHECK(refusal(4, "4") == "t.ini:3: topology.degree must be below the 4 nodes, got 4");
  CHECK(refusal(7, "3") ==
        "t.ini:3: topology.degree must be even for an odd number of nodes (7), got 3");
  CHECK(refusal(6, "1") == "t.ini:3: topology.degree must be at least 2 to connect 6 nodes, got 1");
  CHECK(refusal(6, "0") == "t.ini:3: topology.degree must be at least 1, got 0");
  CHECK(refusal(2, "1") == "no error");
  CHECK(refusal(4, "9223372036854775807").find("must be below the 4 nodes") != std::string::npos);
}

TEST_CASE(
    "connections of an Erdos-Renyi graph appear with the probability that being connected leaves") {
  // With p = 1/2 all 64 graphs on 4 nodes are equally likely. 38 are connected: 16 trees of 3
  // connections, 15 with 4, 6 with 5 and 1 with 6, that is (48 + 60 + 30 + 6)/38 on average, over 6
  // pairs alike: 0.6316 each. The standard deviation over 4000 seeds is sqrt(0.6316 * 0.3684 /
  // 4000) = 0.0076.
  std::vector<int> count(16, 0);
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const auto graph = test::make("erdos_renyi", 4, {{"probability", "0.5"}}, seed);
    for (NodeId i = 0; i < 4; ++i) {
      for (const Edge& edge : graph.in(i)) ++count[static_cast<std::size_t>(4 * i + edge.peer)];
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < i; ++j)
      CHECK(std::abs(count[4 * i + j] / 4000.0 - 144.0 / 38 / 6) < 0.038);
  }
}

TEST_CASE("a large Erdos-Renyi graph has as many connections as its probability says") {
  // 3000 * 2999 / 2 * 0.005 = 22492.5 connections, standard deviation sqrt(22492.5 * 0.995) =
  // 149.6. (Almost all such graphs are connected: 0.005 is nearly twice ln(n)/n.)
  const auto graph = test::make("erdos_renyi", 3000, {{"probability", "0.005"}});
  CHECK(test::is_connected(graph));
  CHECK(std::abs(static_cast<double>(graph.arc_count()) / 2 - 22492.5) < 5 * 149.6);
  CHECK(is_doubly_stochastic(graph));
}

TEST_CASE("an Erdos-Renyi graph with probability 1 is complete") {
  CHECK(test::mixing_matrix(test::make("erdos_renyi", 9, {{"probability", "1"}})) ==
        test::mixing_matrix(test::make("complete", 9)));
}

TEST_CASE(
    "an Erdos-Renyi graph far below the threshold is refused, with the threshold and two nodes "
    "apart") {
  // ln(1000)/1000 = 0.00691.
  const std::string message = test::refusal("erdos_renyi", 1000, {{"probability", "0.001"}});
  CHECK(message.starts_with(
      "t.ini:3: topology.probability must be large enough to connect 1000 nodes: 100 graphs "
      "drawn with 0.001 fell into parts (nodes 0 and "));
  CHECK(message.ends_with("are in different ones); the threshold is ln(n)/n = 0.00691"));
  CHECK(test::refusal("erdos_renyi", 10, {{"probability", "1e-300"}}).find("threshold") !=
        std::string::npos);
}

TEST_CASE("a probability must be one, and given") {
  CHECK(test::refusal("erdos_renyi", 10, {{"probability", "0"}}) ==
        "t.ini:3: topology.probability must be above 0 and at most 1, got 0");
  CHECK(test::refusal("erdos_renyi", 10, {{"probability", "1.5"}}) ==
        "t.ini:3: topology.probability must be above 0 and at most 1, got 1.5");
  CHECK(test::refusal("erdos_renyi", 10).find("topology.probability is missing") !=
        std::string::npos);
  CHECK(test::refusal("erdos_renyi", 100'000, {{"probability", "0.5"}}).find("5e+09 arcs") !=
        std::string::npos);
}

TEST_CASE("uniform weights of an Erdos-Renyi graph depend on the receiver alone") {
  const auto graph = test::make("erdos_renyi", 20, {{"probability", "0.3"}, {"mixing", "uniform"}});
  for (NodeId i = 0; i < 20; ++i) {
    for (const Edge& edge : graph.in(i)) {
      CHECK(edge.weight == static_cast<float>(1.0 / static_cast<double>(1 + graph.in(i).size())));
    }
  }
  CHECK(is_row_stochastic(graph));
}

}  // namespace
}  // namespace starling::topologies::test_random_graphs
