// The exact structure of the topologies with a closed form: ring, complete, tree, star, hypercube,
// torus, exponential.

#include <cmath>

#include <doctest/doctest.h>

#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies::test_families {
namespace {

using Peers = std::vector<NodeId>;

TEST_CASE("in a ring each node has two neighbors and three weights of 1/3") {
  const auto ring = test::make("ring", 5);
  CHECK(test::peers(ring.in(0)) == Peers{1, 4});
  CHECK(test::peers(ring.in(2)) == Peers{1, 3});
  CHECK(test::peers(ring.in(4)) == Peers{0, 3});
  CHECK(ring.arc_count() == 10);
  for (NodeId i = 0; i < 5; ++i) {
    for (const Edge& edge : ring.in(i)) CHECK(edge.weight == 1.0f / 3);
    CHECK(ring.self_weight(i) == doctest::Approx(1.0 / 3).epsilon(1e-7));
  }
  CHECK(ring.is_symmetric());
}

TEST_CASE("a ring of three is complete") {
  CHECK(test::mixing_matrix(test::make("ring", 3)) ==
        test::mixing_matrix(test::make("complete", 3)));
}

TEST_CASE("in a complete graph all weights are 1/n") {
  const auto complete = test::make("complete", 7);
  CHECK(complete.arc_count() == 42);
  CHECK(test::peers(complete.out(3)) == Peers{0, 1, 2, 4, 5, 6});
  for (const double weight : test::mixing_matrix(complete))
    CHECK(weight == doctest::Approx(1.0 / 7).epsilon(1e-6));
}

TEST_CASE("a complete graph takes memory for its nodes, not for its arcs") {
  const auto complete = test::make("complete", 1'000'000);
  CHECK(complete.arc_count() == 999'999'000'000);
  const Neighbors neighbors = complete.neighbors(5);
  CHECK(neighbors.size() == 999'999);
  CHECK(neighbors[4] == 4);
  CHECK(neighbors[5] == 6);
}

TEST_CASE("a topology beyond the memory is refused with the numbers") {
  CHECK(test::refusal("random_regular", 20'000, {{"degree", "19998"}}) ==
        "t.ini:3: topology.degree asks for 4e+08 arcs of 40 bytes each, more than the limit of "
        "100000000");
}

TEST_CASE("in a tree each node talks with the one above it and those below it") {
  const auto binary = test::make("tree", 6);
  CHECK(test::peers(binary.in(0)) == Peers{1, 2});
  CHECK(test::peers(binary.in(1)) == Peers{0, 3, 4});
  CHECK(test::peers(binary.in(2)) == Peers{0, 5});
  CHECK(test::peers(binary.in(5)) == Peers{2});
  CHECK(binary.in(1)[0].weight == 0.25F);  // 1 / (1 + 3)
  CHECK(binary.in(2)[1].weight == 1.0F / 3);
  const auto path = test::make("tree", 4, {{"children", "1"}});
  CHECK(test::peers(path.in(0)) == Peers{1});
  CHECK(test::peers(path.in(2)) == Peers{1, 3});
  CHECK(path.arc_count() == 6);
  CHECK(test::mixing_matrix(test::make("tree", 5, {{"children", "9"}})) ==
        test::mixing_matrix(test::make("star", 5)));
  CHECK(test::refusal("tree", 4, {{"children", "0"}}) ==
        "t.ini:3: topology.children must be at least 1, got 0");
}

TEST_CASE("in a star everybody talks with node 0 alone") {
  // Metropolis: the larger degree is n - 1 on every connection, so all weigh 1/n.
  const auto star = test::make("star", 8);
  CHECK(test::peers(star.in(0)) == Peers{1, 2, 3, 4, 5, 6, 7});
  CHECK(test::peers(star.in(5)) == Peers{0});
  CHECK(star.in(5)[0].weight == 0.125f);
  CHECK(star.self_weight(0) == 0.125f);
  CHECK(star.self_weight(5) == 0.875f);
}

TEST_CASE("uniform weights of a star are row-stochastic only") {
  const auto star = test::make("star", 8, {{"mixing", "uniform"}});
  CHECK(star.in(0)[0].weight == 0.125f);
  CHECK(star.self_weight(0) == 0.125f);
  CHECK(star.in(5)[0].weight == 0.5f);
  CHECK(star.self_weight(5) == 0.5f);
  CHECK(is_row_stochastic(star));
  // Column 0 sums to 1/8 + 7 * 1/2.
  CHECK_FALSE(is_column_stochastic(star));
  CHECK_FALSE(is_doubly_stochastic(star));
}

TEST_CASE("in a hypercube neighbors differ in one bit") {
  const auto cube = test::make("hypercube", 8);
  CHECK(test::peers(cube.in(0)) == Peers{1, 2, 4});
  CHECK(test::peers(cube.in(5)) == Peers{1, 4, 7});
  CHECK(cube.in(5)[0].weight == 0.25f);
  CHECK(cube.self_weight(5) == 0.25f);
  CHECK(test::refusal("hypercube", 12) ==
        "t.ini:2: topology.kind hypercube needs a power of two of nodes, got 12 (the nearest are 8 "
        "and 16)");
}

TEST_CASE("a torus wraps around in each of its sides") {
  // Node 8 r + c sits in row r and column c of 4 x 8.
  const auto torus = test::make("torus", 32, {{"sides", "4x8"}});
  CHECK(test::peers(torus.in(0)) == Peers{1, 3, 4, 28});
  CHECK(test::peers(torus.in(18)) == Peers{14, 17, 19, 22});  // row 4, column 2
  CHECK(test::peers(torus.in(31)) == Peers{3, 27, 28, 30});
  CHECK(torus.in(0)[0].weight == 0.2f);
  // Three dimensions: strides 9, 3 and 1.
  CHECK(test::peers(test::make("torus", 27, {{"sides", "3x3x3"}}).in(0)) ==
        Peers{1, 2, 3, 6, 9, 18});
}

TEST_CASE("a torus with sides of length two or one has no double arcs") {
  const auto torus = test::make("torus", 8, {{"sides", "2x4"}});
  CHECK(test::peers(torus.in(0)) == Peers{1, 2, 6});
  CHECK(torus.in(0)[0].weight == 0.25f);
  // All sides 2: the hypercube. One side of length 1: the ring.
  CHECK(test::mixing_matrix(test::make("torus", 8, {{"sides", "2x2x2"}})) ==
        test::mixing_matrix(test::make("hypercube", 8)));
  CHECK(test::mixing_matrix(test::make("torus", 7, {{"sides", "1x7"}})) ==
        test::mixing_matrix(test::make("ring", 7)));
  CHECK(test::mixing_matrix(test::make("torus", 7, {{"sides", "7"}})) ==
        test::mixing_matrix(test::make("ring", 7)));
}

TEST_CASE("a torus is as square as can be unless told otherwise") {
  CHECK(test::mixing_matrix(test::make("torus", 12)) ==
        test::mixing_matrix(test::make("torus", 12, {{"sides", "3x4"}})));
  CHECK(test::mixing_matrix(test::make("torus", 16)) ==
        test::mixing_matrix(test::make("torus", 16, {{"sides", "4x4"}})));
  CHECK(test::mixing_matrix(test::make("torus", 13)) ==
        test::mixing_matrix(test::make("ring", 13)));
}

TEST_CASE("a torus that is a ring because nobody gave its sides is warned of") {
  const auto warnings = [](NodeId nodes, const test::Keys& keys) {
    const Section section = test::section("torus", keys);
    find(section).make(section, nodes, 1);
    return section.warnings();
  };
  CHECK(warnings(13, {}) ==
        std::vector<std::string>{"t.ini:2: topology.kind torus is a ring here: 13 nodes make no "
                                 "rectangle"});
  CHECK(warnings(12, {}).empty());
  CHECK(warnings(3, {}).empty());
  CHECK(warnings(13, {{"sides", "1x13"}}).empty());
}

TEST_CASE("sides that are no lengths or do not make up the nodes are refused") {
  CHECK(test::refusal("torus", 32, {{"sides", "4x9"}}) ==
        "t.ini:3: topology.sides must multiply to the 32 nodes, got 4x9 = 36");
  for (const char* sides :
       {"", "4x", "x8", "4*8", "4x8x", "-4x-8", "0x32", "4 x 8", "4x99999999999"}) {
    CAPTURE(sides);
    CHECK(test::refusal("torus", 32, {{"sides", sides}})
              .starts_with("t.ini:3: topology.sides must be positive lengths joined by x"));
  }
}

TEST_CASE("in the exponential graph i sends to all i + 2^j, modulo n") {
  // n = 6: powers 1, 2, 4 below 6, so weights 1/4.
  const auto graph = test::make("exponential", 6);
  CHECK(graph.period() == 1);
  CHECK(test::peers(graph.out(0)) == Peers{1, 2, 4});
  CHECK(test::peers(graph.out(5)) == Peers{0, 1, 3});
  CHECK(test::peers(graph.in(0)) == Peers{2, 4, 5});
  for (const Edge& edge : graph.in(3)) CHECK(edge.weight == 0.25f);
  CHECK(graph.self_weight(3) == 0.25f);
  CHECK_FALSE(graph.is_symmetric());
  // A power of two below n is needed, so n = 8 has 1, 2, 4 and n = 9 also 8.
  CHECK(test::make("exponential", 8).out(0).size() == 3);
  CHECK(test::make("exponential", 9).out(0).size() == 4);
}

TEST_CASE("in the one-peer exponential graph i sends to i + 2^(k mod L) at step k") {
  const auto graph = test::make("one_peer_exponential", 6);
  CHECK(graph.period() == 3);
  CHECK(test::peers(graph.out(1, 0)) == Peers{2});
  CHECK(test::peers(graph.out(1, 1)) == Peers{3});
  CHECK(test::peers(graph.out(1, 2)) == Peers{5});
  CHECK(test::peers(graph.out(5, 5)) == Peers{3});
  CHECK(test::peers(graph.in(1, 2)) == Peers{3});
  CHECK(graph.in(1, 2)[0].weight == 0.5f);
  CHECK(graph.self_weight(1, 2) == 0.5f);
}

TEST_CASE(
    "one period of the one-peer exponential graph averages exactly for powers of two, not else") {
  CHECK(test::distance_from_average(test::make("one_peer_exponential", 8)) == 0);
  CHECK(test::distance_from_average(test::make("one_peer_exponential", 32)) == 0);
  // n = 6: of the 8 sums of a subset of {1, 2, 4}, 0 and 6 both lead home: 2/8 instead of 1/6.
  CHECK(test::distance_from_average(test::make("one_peer_exponential", 6)) ==
        doctest::Approx(1.0 / 12));
}

}  // namespace
}  // namespace starling::topologies::test_families
