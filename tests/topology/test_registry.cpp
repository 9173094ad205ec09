// Every topology of the catalog keeps the promises that programs rely on.

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies::test_registry {
namespace {

/// The keys that an entry cannot do without.
test::Keys needed_keys(std::string_view name, NodeId nodes,
                       const test::TemporaryDirectory& directory) {
  if (name == "erdos_renyi") return {{"probability", "0.5"}};
  if (name == "file") {
    std::string path = "graph { 0;";
    for (NodeId i = 0; i + 1 < nodes; ++i) path += fmt::format(" {} -- {};", i, i + 1);
    return {{"path", directory.write("path.dot", path + "}")}};
  }
  if (name == "random_regular") return {{"degree", nodes == 2 ? "1" : nodes == 4 ? "2" : "4"}};
  return {};
}

/// Weights set by a theorem, so no key `lazy`.
bool has_own_weights(std::string_view name) {
  return name == "base_graph" || name == "exponential" || name == "one_peer_exponential" ||
         name == "equi_dynamic" || name == "equi_static" || name == "random_matching";
}

bool are_equal(const Topology& a, const Topology& b) {
  if (a.nodes() != b.nodes() || a.period() != b.period()) return false;
  for (Step p = 0; p < static_cast<Step>(a.period()); ++p) {
    for (NodeId i = 0; i < a.nodes(); ++i) {
      if (!std::ranges::equal(a.in(i, p), b.in(i, p)) ||
          !std::ranges::equal(a.out(i, p), b.out(i, p)) ||
          a.self_weight(i, p) != b.self_weight(i, p)) {
        return false;
      }
    }
  }
  return true;
}

/// Every edge is known, with the same weight, at both of its ends; peers are in order, each once,
/// nobody itself.
bool ends_agree(const Topology& topology) {
  for (Step p = 0; p < static_cast<Step>(topology.period()); ++p) {
    std::size_t in = 0;
    std::size_t out = 0;
    for (NodeId i = 0; i < topology.nodes(); ++i) {
      in += topology.in(i, p).size();
      out += topology.out(i, p).size();
      NodeId last = -1;
      for (const Edge& edge : topology.in(i, p)) {
        if (edge.peer <= last || edge.peer == i) return false;
        last = edge.peer;
        if (std::ranges::count(topology.out(edge.peer, p), Edge{i, edge.weight}) != 1) return false;
      }
    }
    if (in != out) return false;
  }
  return true;
}

TEST_CASE("every topology is connected, doubly stochastic, and the same at both ends of an edge") {
  const test::TemporaryDirectory directory;
  for (const TopologyEntry& entry : catalog()) {
    for (const NodeId nodes : {2, 4, 16, 64}) {
      CAPTURE(entry.name);
      CAPTURE(nodes);
      const auto topology =
          test::make(std::string(entry.name), nodes, needed_keys(entry.name, nodes, directory));
      CHECK(topology.nodes() == nodes);
      CHECK(topology.period() >= 1);
      CHECK(test::is_connected(topology));
      CHECK(is_row_stochastic(topology));
      CHECK(is_doubly_stochastic(topology));
      CHECK(ends_agree(topology));
    }
  }
}

TEST_CASE("rows sum to one as exactly as a float self weight allows") {
  // The self weight, at most 1, is rounded once: by 2^-25 at most. The other weights are counted as
  // they are.
  const test::TemporaryDirectory directory;
  for (const TopologyEntry& entry : catalog()) {
    CAPTURE(entry.name);
    CHECK(is_row_stochastic(
        test::make(std::string(entry.name), 64, needed_keys(entry.name, 64, directory)), 0x1p-25));
  }
}

TEST_CASE("a topology of more arcs than fit is refused before it is built") {
  const test::TemporaryDirectory directory;
  for (const TopologyEntry& entry : catalog()) {
    if (entry.name == "complete" || entry.name == "file")
      continue;  // no arcs; as many as there are
    CAPTURE(entry.name);
    const std::string name(entry.name);
    CHECK_THROWS_WITH_AS(
        test::make(name, NodeId{1} << 27, needed_keys(name, 1 << 27, directory)),
        doctest::Contains("arcs of 40 bytes each, more than the limit of 100000000"),
        ScenarioError);
  }
}

TEST_CASE("the same seed makes the same topology") {
  const test::TemporaryDirectory directory;
  for (const TopologyEntry& entry : catalog()) {
    CAPTURE(entry.name);
    const test::Keys keys = needed_keys(entry.name, 32, directory);
    CHECK(are_equal(test::make(std::string(entry.name), 32, keys, 7),
                    test::make(std::string(entry.name), 32, keys, 7)));
  }
}

TEST_CASE("two nodes average whatever the topology") {
  // Each has one neighbor: 1/(1 + 1) for the other and as much for itself.
  const test::TemporaryDirectory directory;
  for (const TopologyEntry& entry : catalog()) {
    CAPTURE(entry.name);
    const auto topology =
        test::make(std::string(entry.name), 2, needed_keys(entry.name, 2, directory));
    // EquiDyn goes half the way (eta) at each of the steps for which it is drawn.
    const double other = entry.name == "equi_dynamic" ? 0.25 : 0.5;
    CHECK((topology.period() == 1) ==
          (entry.name != "equi_dynamic" && entry.name != "random_matching"));
    CHECK(test::mixing_matrix(topology) == std::vector<double>{1 - other, other, other, 1 - other});
  }
}

TEST_CASE("a node alone keeps everything") {
  const test::TemporaryDirectory directory;
  for (const TopologyEntry& entry : catalog()) {
    if (entry.name == "random_regular") continue;  // refuses: no degree is less than one
    CAPTURE(entry.name);
    const auto topology =
        test::make(std::string(entry.name), 1, needed_keys(entry.name, 1, directory));
    CHECK(topology.arc_count() == 0);
    for (Step k = 0; k < static_cast<Step>(topology.period()); ++k)
      CHECK(topology.self_weight(0, k) == 1.0f);
    CHECK(test::is_connected(topology));
  }
}

TEST_CASE("lazy weights leave every node at least half of its own, and stay doubly stochastic") {
  const test::TemporaryDirectory directory;
  for (const TopologyEntry& entry : catalog()) {
    if (has_own_weights(entry.name)) continue;
    CAPTURE(entry.name);
    test::Keys keys = needed_keys(entry.name, 16, directory);
    const auto whole = test::make(std::string(entry.name), 16, keys);
    keys.emplace_back("lazy", "yes");
    const auto lazy = test::make(std::string(entry.name), 16, keys);
    CHECK(is_doubly_stochastic(lazy));
    for (NodeId i = 0; i < 16; ++i) {
      // (I + W)/2: halving is exact.
      CHECK(lazy.self_weight(i) == doctest::Approx(0.5 + 0.5 * whole.self_weight(i)));
      CHECK(lazy.in(i)[0].weight == 0.5f * whole.in(i)[0].weight);
    }
  }
}

TEST_CASE(
    "the catalog is in order of name, and each entry tells its keys to a probe without building") {
  CHECK(std::ranges::is_sorted(catalog(), {}, &TopologyEntry::name));
  for (const TopologyEntry& entry : catalog()) {
    CAPTURE(entry.name);
    const Section probe = Section::probe("topology", {{"kind", std::string(entry.name), "list"}});
    CHECK(&find(probe) == &entry);
    CHECK_THROWS_AS(entry.make(probe, 1, 1), ProbeFinished);
    CHECK_FALSE(entry.summary.empty());
  }
}

TEST_CASE("a kind or key that does not exist is an error that says where and what there is") {
  std::string names;
  for (const TopologyEntry& entry : catalog()) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  CHECK(test::refusal("rings", 4) ==
        "t.ini:2: topology.kind must be one of " + names + ", got rings; did you mean ring?");
  CHECK(test::refusal("ring", 4, {{"sides", "2x2"}})
            .starts_with("t.ini:3: topology.sides is not a key here"));
}

TEST_CASE("without a kind the topology is a ring") {
  const Section empty("topology", "t.ini:1", {});
  CHECK(find(empty).name == "ring");
}

}  // namespace
}  // namespace starling::topologies::test_registry
