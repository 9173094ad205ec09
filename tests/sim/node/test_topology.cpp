// The value itself: lists of edges in both directions, phases, and what it refuses.

#include <stdexcept>

#include <doctest/doctest.h>

#include "sim/node/topology.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_topology {
namespace {

std::vector<Edge> to_vector(Edges edges) { return {edges.begin(), edges.end()}; }
std::vector<NodeId> to_vector(Neighbors peers) { return {peers.begin(), peers.end()}; }

/// 0 -> 1, 0 -> 2, 2 -> 1, 1 -> 0, given in no order.
Topology example() {
  return Topology(3, {{{2, 1, 0.25}, {0, 2, 0.125}, {1, 0, 0.5}, {0, 1, 0.375}}},
                  {{0.5, 0.375, 0.875}});
}

std::string refusal(NodeId nodes, const std::vector<std::vector<Topology::Arc>>& phases,
                    const std::vector<std::vector<double>>& self_weights) {
  return test::message_of<std::invalid_argument>([&] { Topology(nodes, phases, self_weights); });
}

TEST_CASE("a node sees its arcs in order of peer, with the weight that the receiver gives") {
  const Topology topology = example();
  CHECK(topology.nodes() == 3);
  CHECK(topology.period() == 1);
  CHECK(topology.arc_count() == 4);
  CHECK(to_vector(topology.out(0)) == std::vector<Edge>{{1, 0.375f}, {2, 0.125f}});
  CHECK(to_vector(topology.out(1)) == std::vector<Edge>{{0, 0.5f}});
  CHECK(to_vector(topology.out(2)) == std::vector<Edge>{{1, 0.25f}});
  CHECK(to_vector(topology.in(0)) == std::vector<Edge>{{1, 0.5f}});
  CHECK(to_vector(topology.in(1)) == std::vector<Edge>{{0, 0.375f}, {2, 0.25f}});
  CHECK(to_vector(topology.in(2)) == std::vector<Edge>{{0, 0.125f}});
  CHECK(topology.self_weight(2) == 0.875f);
  CHECK(to_vector(topology.neighbors(0)) == std::vector<NodeId>{1, 2});
}

TEST_CASE("phases take turns with the step, and neighbors are those of all phases") {
  // Step 0: 0 -> 1; step 1: 0 -> 2 and 1 -> 0; step 2: 0 -> 1 and 2 -> 1; then from the start.
  const Topology topology(3,
                          {{{0, 1, 0.5}}, {{0, 2, 0.25}, {1, 0, 0.5}}, {{0, 1, 0.5}, {2, 1, 0.25}}},
                          {{1, 0.5, 1}, {0.5, 1, 0.75}, {1, 0.25, 1}});
  CHECK(topology.period() == 3);
  CHECK(topology.arc_count() == 5);
  CHECK(to_vector(topology.out(0, 4)) == std::vector<Edge>{{2, 0.25f}});
  CHECK(to_vector(topology.in(1, 3'000'000'002)) == std::vector<Edge>{{0, 0.5f}, {2, 0.25f}});
  CHECK(topology.in(1, 1).empty());
  CHECK(topology.self_weight(2, 1) == 0.75f);
  CHECK(topology.self_weight(2, 3) == 1.0f);
  CHECK(to_vector(topology.neighbors(0)) == std::vector<NodeId>{1, 2});
  CHECK(to_vector(topology.neighbors(2)) == std::vector<NodeId>{1});
  CHECK(to_vector(topology.senders(0)) == std::vector<NodeId>{1});
  CHECK(to_vector(topology.senders(1)) == std::vector<NodeId>{0, 2});
}

TEST_CASE(
    "nodes of a complete graph share one list, and see what they would see in lists of their own") {
  std::vector<Topology::Arc> arcs;
  for (NodeId i = 0; i < 5; ++i) {
    for (NodeId j = 0; j < 5; ++j) {
      if (i != j) arcs.push_back({i, j, 0.125});
    }
  }
  const Topology listed(5, {arcs}, {{0.5, 0.5, 0.5, 0.5, 0.5}});
  const Topology complete = Topology::complete(5, 0.125, 0.5);
  CHECK(complete.is_complete());
  CHECK_FALSE(listed.is_complete());
  CHECK(complete.is_symmetric());
  CHECK(complete.arc_count() == 20);
  for (NodeId i = 0; i < 5; ++i) {
    CHECK(to_vector(complete.out(i, 7)) == to_vector(listed.out(i)));
    CHECK(to_vector(complete.in(i, 7)) == to_vector(listed.in(i)));
    CHECK(to_vector(complete.neighbors(i)) == to_vector(listed.neighbors(i)));
    CHECK(to_vector(complete.senders(i)) == to_vector(listed.senders(i)));
    CHECK(complete.self_weight(i) == 0.5f);
  }
  CHECK(Topology::complete(1, 1, 1).neighbors(0).empty());
  CHECK_THROWS_WITH_AS(Topology::complete(0, 1, 1), "topology: expected at least one node, got 0",
                       std::invalid_argument);
}

TEST_CASE("symmetric means that both ends of an edge give the same weight at every step") {
  const std::vector<Topology::Arc> even{{0, 1, 0.5}, {1, 0, 0.5}};
  const std::vector<double> self{0.5, 0.5};
  CHECK(Topology(2, {even}, {self}).is_symmetric());
  CHECK(Topology(1, {{}}, {{1}}).is_symmetric());
  CHECK_FALSE(example().is_symmetric());
  CHECK_FALSE(Topology(2, {{{0, 1, 0.5}, {1, 0, 0.25}}}, {self}).is_symmetric());
  CHECK_FALSE(Topology(2, {even, {{0, 1, 0.5}}}, {self, self}).is_symmetric());
}

TEST_CASE("the records of a node are where its weight and its edges are, if all have as many") {
  std::vector<Topology::Arc> arcs;
  for (NodeId i = 0; i < 5; ++i) {
    arcs.push_back({i, (i + 1) % 5, 0.25});
    arcs.push_back({i, (i + 4) % 5, 0.5});
  }
  const std::vector<double> self(5, 0.25);
  const Topology ring(5, {arcs}, {self});
  const std::vector<NodeRecords> records = ring.node_records();
  REQUIRE(records.size() == 5);  // its weight; where its edges begin and these, out and in
  for (NodeId i = 0; i < 5; ++i) {
    const auto at = [i](const NodeRecords& all) {
      return static_cast<const char*>(all.first) + static_cast<std::size_t>(i) * all.bytes;
    };
    const Edges out = ring.out(i), in = ring.in(i);
    CHECK(*reinterpret_cast<const float*>(at(records[0])) == ring.self_weight(i));
    CHECK(at(records[2]) == reinterpret_cast<const char*>(&out[0]));
    CHECK(at(records[4]) == reinterpret_cast<const char*>(&in[0]));
  }
  CHECK(example().node_records().size() == 3);
  CHECK(Topology(5, {arcs, arcs}, {self, self}).node_records().empty());
  CHECK(Topology::complete(5, 0.125, 0.5).node_records().empty());
}

TEST_CASE("arcs that make no sense are refused by name") {
  CHECK(refusal(2, {{{1, 1, 0.5}}}, {{1, 1}}) ==
        "topology: arcs must join two nodes, got one from 1 to itself");
  CHECK(refusal(3, {{{0, 1, 0.5}, {1, 0, 0.5}, {0, 1, 0.25}}}, {{1, 1, 1}}) ==
        "topology: expected one arc from 0 to 1, got two");
  CHECK(refusal(2, {{{0, 2, 0.5}}}, {{1, 1}}) == "topology: nodes of arcs must be below 2, got 2");
  CHECK(refusal(2, {{{-1, 0, 0.5}}}, {{1, 1}}) ==
        "topology: nodes of arcs must be below 2, got -1");
  CHECK(refusal(2, {{{0, 1, 0.5}, {1, 0, 0.5}}}, {{0.5, 0.5}}) == "no error");
  // The same arc in two phases is no double arc.
  CHECK(refusal(2, {{{0, 1, 0.5}}, {{0, 1, 0.5}}}, {{1, 0.5}, {1, 0.5}}) == "no error");
}

TEST_CASE("phases and self weights must have the same shape") {
  CHECK(refusal(0, {{}}, {{}}) == "topology: expected at least one node, got 0");
  CHECK(refusal(2, {}, {}) ==
        "topology: expected self weights for each of at least one phase, got 0 for 0 phases");
  CHECK(refusal(2, {{}, {}}, {{1, 1}}) ==
        "topology: expected self weights for each of at least one phase, got 1 for 2 phases");
  CHECK(refusal(2, {{}}, {{1}}) == "topology: expected 2 self weights in phase 0, got 1");
}

}  // namespace
}  // namespace starling::test_topology
