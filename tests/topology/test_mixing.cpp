// Mixing weights, their checks, and the search for unconnected nodes.

#include <limits>

#include <doctest/doctest.h>

#include "tests/topology/make_topology.hpp"
#include "topology/connectivity.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies::test_mixing {
namespace {

// A triangle 0, 1, 2 with a tail 2 - 3: degrees 2, 2, 3, 1.
const std::vector<Connection> triangle_with_tail{{0, 1}, {1, 2}, {2, 0}, {3, 2}};

TEST_CASE("Metropolis weights are 1/(1 + larger degree) and leave the rest at home") {
  const auto topology = mix(4, triangle_with_tail, {.weights = Weights::metropolis});
  const auto w = test::mixing_matrix(topology);
  CHECK(w[0 * 4 + 1] == doctest::Approx(1.0 / 3));
  CHECK(w[0 * 4 + 2] == 0.25);
  CHECK(w[0 * 4 + 0] == doctest::Approx(1 - 1.0 / 3 - 0.25));
  CHECK(w[2 * 4 + 2] == 0.25);
  CHECK(w[3 * 4 + 2] == 0.25);
  CHECK(w[3 * 4 + 3] == 0.75);
  CHECK(w[3 * 4 + 0] == 0);
  CHECK(topology.is_symmetric());
  CHECK(is_doubly_stochastic(topology));
}

TEST_CASE("uniform weights are 1/(1 + own degree)") {
  const auto topology = mix(4, triangle_with_tail, {.weights = Weights::uniform});
  const auto w = test::mixing_matrix(topology);
  CHECK(w[2 * 4 + 3] == 0.25);
  CHECK(w[3 * 4 + 2] == 0.5);
  CHECK(w[3 * 4 + 3] == 0.5);
  CHECK(is_row_stochastic(topology));
  CHECK_FALSE(is_column_stochastic(topology));
  CHECK_FALSE(topology.is_symmetric());
}

TEST_CASE("lazy weights are (I + W)/2") {
  const auto w = test::mixing_matrix(mix(4, triangle_with_tail, {.lazy = true}));
  CHECK(w[3 * 4 + 2] == 0.125);
  CHECK(w[3 * 4 + 3] == 0.875);
  CHECK(w[2 * 4 + 2] == 0.625);
}

TEST_CASE("degrees of directed arcs count what arrives") {
  // 0 -> 1, 2 -> 1, 1 -> 2, 2 -> 0: node 1 hears two, the others one.
  const auto w = test::mixing_matrix(
      mix(3, {{0, 1, 0}, {2, 1, 0}, {1, 2, 0}, {2, 0, 0}}, {.weights = Weights::uniform}));
  CHECK(w[1 * 3 + 0] == doctest::Approx(1.0 / 3));
  CHECK(w[0 * 3 + 2] == 0.5);
  CHECK(w[0 * 3 + 0] == 0.5);
}

TEST_CASE("self weights make up for the rounding of the other weights") {
  // float(1/3) = 11184811 * 2^-25, and 1 minus twice that is a float too: the sum is exactly one,
  // while three times float(1/3) is not.
  const auto topology = test::make("ring", 9);
  CHECK(is_row_stochastic(topology, 0));
  static_assert(3 * static_cast<double>(1.0f / 3) != 1);
}

TEST_CASE("the checks see rows, columns, negative weights and phases apart") {
  const std::vector<Topology::Arc> swap{{0, 1, 0.5}, {1, 0, 0.5}};
  CHECK(is_doubly_stochastic(Topology(2, {swap}, {{0.5, 0.5}})));
  // W = [[1/2, 1/2], [0, 1]]: rows sum to one, columns to 1/2 and 3/2.
  const Topology rows(2, {{{1, 0, 0.5}}}, {{0.5, 1}});
  CHECK(is_row_stochastic(rows));
  CHECK_FALSE(is_column_stochastic(rows));
  // The transpose.
  const Topology columns(2, {{{0, 1, 0.5}}}, {{0.5, 1}});
  CHECK_FALSE(is_row_stochastic(columns));
  CHECK(is_column_stochastic(columns));
  CHECK_FALSE(is_doubly_stochastic(columns));
  // The sums are right, the signs are not.
  CHECK_FALSE(is_row_stochastic(Topology(2, {{{0, 1, 1.5}, {1, 0, 1.5}}}, {{-0.5, -0.5}})));
  CHECK_FALSE(is_row_stochastic(Topology(2, {{{0, 1, -0.5}, {1, 0, -0.5}}}, {{1.5, 1.5}})));
  // One bad phase of two.
  CHECK_FALSE(is_row_stochastic(Topology(2, {swap, swap}, {{0.5, 0.5}, {0.5, 0.4}})));
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(is_row_stochastic(Topology(2, {swap}, {{0.5, nan}})));
}

TEST_CASE("two nodes in different parts of an undirected graph are found") {
  CHECK_FALSE(separated(4, triangle_with_tail).has_value());
  CHECK(separated(5, triangle_with_tail) == std::pair<NodeId, NodeId>{0, 4});
  CHECK(separated(6, std::vector<Connection>{{0, 4}, {4, 1}, {2, 3}, {5, 3}, {1, 0}}) ==
        std::pair<NodeId, NodeId>{0, 2});
  CHECK_FALSE(separated(1, {}).has_value());
}

TEST_CASE(
    "of a graph that is not strongly connected, a pair without a path is found, in this order") {
  using Arcs = std::vector<Topology::Arc>;
  CHECK_FALSE(unreachable(3, Arcs{{0, 1, 1}, {1, 2, 1}, {2, 0, 1}}).has_value());
  // 0 and 1 lead into the cycle of 2 and 3, and nothing leads back.
  const auto sink = unreachable(4, Arcs{{0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {2, 3, 1}, {3, 2, 1}});
  REQUIRE(sink.has_value());
  CHECK(sink->first >= 2);
  CHECK(sink->second <= 1);
  // The other way round.
  const auto source = unreachable(4, Arcs{{0, 1, 1}, {1, 0, 1}, {2, 1, 1}, {2, 3, 1}, {3, 2, 1}});
  REQUIRE(source.has_value());
  CHECK(source->first <= 1);
  CHECK(source->second >= 2);
  // A cycle of a hundred thousand nodes does not overflow the stack.
  Arcs cycle;
  for (NodeId i = 0; i < 100'000; ++i) cycle.push_back({i, (i + 1) % 100'000, 1});
  CHECK_FALSE(unreachable(100'000, cycle).has_value());
}

TEST_CASE("connected means that everybody reaches everybody along the arcs of the whole period") {
  const std::vector<double> self(3, 0.5);
  // Node 0 reaches all, but nobody reaches node 0.
  CHECK_FALSE(test::is_connected(Topology(3, {{{0, 1, 0.5}, {1, 2, 0.5}, {2, 1, 0.5}}}, {self})));
  // All reach node 0, which reaches nobody.
  CHECK_FALSE(test::is_connected(Topology(3, {{{1, 0, 0.5}, {2, 1, 0.5}, {1, 2, 0.5}}}, {self})));
  // A cycle, one arc per step.
  CHECK(test::is_connected(
      Topology(3, {{{0, 1, 0.5}}, {{1, 2, 0.5}}, {{2, 0, 0.5}}}, {self, self, self})));
  CHECK_FALSE(test::is_connected(Topology(2, {{}}, {{1, 1}})));
  CHECK(test::is_connected(Topology(1, {{}}, {{1}})));
}

}  // namespace
}  // namespace starling::topologies::test_mixing
