// GC-DC: how slow nodes are spread over clusters, and that its steps are those of allreduce SGD.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "algorithms/clustering.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_gc_dc {
using algorithms::assign_clusters;
using algorithms::Assignment;

namespace {

Recorder run(const std::string& algorithm, std::vector<std::string> overrides = {}) {
  return test::run(test::quadratic_scenario(8, 40, "ring",
                                            algorithm + "\nlearning_rate = 0.05\nmomentum = 0.5\n"),
                   overrides);
}

/// Slow nodes that serve each cluster once they are assigned.
std::vector<int> spread_slow(const std::vector<bool>& slow, std::size_t clusters,
                             std::size_t tolerated) {
  const auto assignments = assign_clusters(slow, clusters, tolerated);
  std::vector<int> count(clusters);
  for (std::size_t i = 0; i < slow.size(); ++i) count[assignments[i].cluster] += slow[i] ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("slow nodes are spread over clusters as evenly as homes and neighbors allow") {
  using Slow = std::vector<bool>;
  // Within what the codes tolerate everybody stays at home.
  const auto home = assign_clusters(Slow{true, false, false, false, false, true}, 2, 1);
  for (std::size_t i = 0; i < 6; ++i) CHECK(home[i] == Assignment{i / 3, i % 3});

  const auto slow_serving = [](const Slow& slow, std::size_t clusters) {
    const auto assignments = assign_clusters(slow, clusters, 1);
    const std::size_t size = slow.size() / clusters;
    std::vector<std::size_t> count(clusters);
    std::set<std::pair<std::size_t, std::size_t>> seats;
    for (std::size_t i = 0; i < slow.size(); ++i) {
      const Assignment at = assignments[i];
      CHECK((at.cluster == i / size || at.cluster == (i / size + 1) % clusters));
      CHECK(at.row < size);
      seats.insert({at.cluster, at.row});
      if (slow[i]) ++count[at.cluster];
    }
    CHECK(seats.size() == slow.size());  // every row of every cluster has its node
    return count;
  };
  using Counts = std::vector<std::size_t>;
  // Two of four: one is handed on. Of three, half of the four at most.
  CHECK(slow_serving({true, true, false, false, false, false, false, false}, 2) == Counts{1, 1});
  CHECK(slow_serving({true, true, true, true, false, false, false, false}, 2) == Counts{2, 2});
  // Three clusters: two and two slow, the third has none: 2 2 0 -> 1 is handed from 1 to 2, then 0 has one
  // more than 1.
  CHECK(slow_serving(
            {true, true, false, false, true, true, false, false, false, false, false, false}, 3) ==
        Counts{2, 1, 1});
}

TEST_CASE("slow nodes are spread over several clusters if one step to the next does not do") {
  // 2 1 1 0 slow nodes live in four clusters of three that tolerate one each: each of the first three hands one on. None has
  // two more than the next, so that they stayed, and every step waited for one of the first two.
  std::vector<bool> slow(12);
  slow[0] = slow[1] = slow[3] = slow[6] = true;
  CHECK(spread_slow(slow, 4, 1) == std::vector<int>{1, 1, 1, 1});
  // Half of three is one: all others stay.
  const auto assignments = assign_clusters(slow, 4, 1);
  int moved = 0;
  for (std::size_t i = 0; i < 12; ++i) moved += assignments[i].cluster != i / 3 ? 1 : 0;
  CHECK(moved == 4);

  // Any of the 2^12 in three clusters of four, of which two are handed on: if the slow ones can be spread, they are.
  int missed = 0;
  for (std::uint32_t drawn = 0; drawn < 1U << 12; ++drawn) {
    for (std::size_t i = 0; i < 12; ++i) slow[i] = (drawn >> i & 1) != 0;
    const std::vector<int> living = spread_slow(slow, 3, 4);
    for (int tolerated = 1; tolerated < 4; ++tolerated) {
      if (std::ranges::max(living) <= tolerated) continue;
      // Can each hand on h slow ones, at most two, the rest of the two fast?
      int h[3];
      const auto fits = [&](std::size_t c) {
        return h[c] <= living[c] && 2 - h[c] <= 4 - living[c] &&
               living[c] - h[c] + h[(c + 2) % 3] <= tolerated;
      };
      bool can_be = false;
      for (int way = 0; way < 27; ++way) {
        h[0] = way % 3;
        h[1] = way / 3 % 3;
        h[2] = way / 9;
        can_be = can_be || (fits(0) && fits(1) && fits(2));
      }
      const auto serving = spread_slow(slow, 3, static_cast<std::size_t>(tolerated));
      missed += (std::ranges::max(serving) <= tolerated) != can_be ? 1 : 0;
    }
  }
  CHECK(missed == 0);
}

TEST_CASE("GC-DC takes the steps of allreduce SGD, however nodes are assigned") {
  const std::vector<std::string> noise{"workload.noise=0.1", "compute.distribution=lognormal",
                                       "compute.sigma=0.8"};
  const Recorder exact = run("kind = allreduce", noise);
  for (const std::string code : {"cyclic", "repetition"}) {
    for (const std::string clusters : {"1", "2", "4"}) {
      const Recorder coded =
          run("kind = gc_dc\ncode = " + code + "\nclusters = " + clusters, noise);
      CHECK(test::largest_difference(coded, exact) < 1e-4);
      CHECK(test::nodes_agree(coded));
      double moved = 0;
      for (std::size_t k = 0; k < 40; ++k) moved += coded.steps.value("moved", k, 0);
      CHECK((moved > 0) == (clusters != "1"));
    }
  }
}

TEST_CASE("one cluster is gradient coding, and nobody moves where nobody is slow") {
  const std::vector<std::string> slow{"compute.slow_nodes=2", "compute.slowdown=10"};
  const Recorder one = run("kind = gc_dc\nclusters = 1\nstragglers = 2", slow);
  const Recorder coded = run("kind = gradient_coding\nstragglers = 2", slow);
  CHECK(one.models == coded.models);
  const Recorder even = run("kind = gc_dc");
  for (std::size_t k = 0; k < 40; ++k) CHECK(even.steps.value("moved", k, 0) == 0);
  CHECK(even.models == run("kind = gc_dc\nreassign = no").models);
  CHECK(even.nodes == run("kind = gc_dc\nreassign = no").nodes);
}

TEST_CASE("two slow nodes of one cluster hold up one step if they are spread, all steps if not") {
  // A node computes two gradients of 1 ms, 0 and 1 of 10 ms; clusters of four do without one. Static: every
  // step waits for the first of them, 20 ms and at most a round trip. Dynamic: only the first step does;
  // later ones take 2.02 ms.
  const std::vector<std::string> slow{"compute.slow_nodes=2", "compute.slowdown=10"};
  const double fixed = to_seconds(run("kind = gc_dc\nreassign = no", slow).nodes[5].finished);
  CHECK(fixed > 40 * 20e-3);
  CHECK(fixed < 40 * 20.02e-3 + 1e-3);
  const double dynamic = to_seconds(run("kind = gc_dc", slow).nodes[5].finished);
  CHECK(dynamic == doctest::Approx(20.01e-3 + 39 * 2.02e-3).epsilon(1e-6));
}

TEST_CASE("where half of the nodes are slow, the others are the measure") {
  // Without stragglers all answer, four of them after 10 ms: the first cluster's, of which two and two change places from
  // the second step on.
  const Recorder recorder = run("kind = gc_dc\nstragglers = 0",
                                {"compute.slow_nodes=4", "compute.slowdown=10", "run.steps=4"});
  for (std::size_t k = 0; k < 4; ++k) CHECK(recorder.steps.value("moved", k, 0) == (k > 0 ? 4 : 0));
}

TEST_CASE("numbers of clusters and of stragglers that the nodes cannot be divided by are refused") {
  CHECK_THROWS_WITH_AS(run("kind = gc_dc\nclusters = 3"),
                       doctest::Contains("algorithm.clusters must divide the 8 nodes, got 3"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(
      run("kind = gc_dc\nclusters = 4\nstragglers = 2"),
      doctest::Contains("algorithm.stragglers must be from 0 to 1 in each cluster, got 2"),
      ScenarioError);
  CHECK_THROWS_WITH_AS(run("kind = gc_dc\nclusters = 2\nstragglers = 2\ncode = repetition"),
                       doctest::Contains("algorithm.stragglers plus one must divide the 4 nodes in "
                                         "each cluster for a repetition code, got 2"),
                       ScenarioError);
}

}  // namespace starling::test_gc_dc
