// Optimal mixing weights against closed forms, and against all weights near them.

#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"
#include "topology/optimal_weights.hpp"
#include "topology/spectrum.hpp"

namespace starling::topologies::test_optimal_weights {
namespace {

constexpr const char* best_constant = "best_constant";
constexpr const char* fastest = "fastest";

/// rho(W): what a mixing step leaves of the distance from the average.
double rho(const Topology& topology) { return 1 - spectral_gap(topology).gap; }

double rho(const std::string& kind, NodeId nodes, const std::string& mixing, test::Keys keys = {}) {
  keys.emplace_back("mixing", mixing);
  return rho(test::make(kind, nodes, keys));
}

std::string path_of(NodeId nodes) {
  std::string dot = "graph {";
  for (NodeId i = 0; i + 1 < nodes; ++i)
    dot += " n" + std::to_string(i) + " -- n" + std::to_string(i + 1) + ";";
  return dot + "}";
}

}  // namespace

TEST_CASE("on edge-transitive graphs both optimal weights are the best constant of the Laplacian") {
  // rho = (l_1 - l_{n-1}) / (l_1 + l_{n-1}). Star: n and 1. Hypercube of dimension d: 2 d and 2. Even
  // ring: 4 and 2 - 2 cos(2 pi / n); odd ring: 2 + 2 cos(pi / n) instead of 4.
  const auto ring = [](NodeId n) {
    const double largest = n % 2 == 0 ? 4 : 2 + 2 * std::cos(std::numbers::pi / n);
    const double least = 2 - 2 * std::cos(2 * std::numbers::pi / n);
    return (largest - least) / (largest + least);
  };
  for (const char* mixing : {best_constant, fastest}) {
    CAPTURE(mixing);
    for (const NodeId n : {3, 7, 12}) {
      CHECK(rho("star", n, mixing) == doctest::Approx((n - 1.0) / (n + 1)).epsilon(1e-5));
      CHECK(rho("ring", n, mixing) == doctest::Approx(ring(n)).epsilon(1e-5).scale(1e-2));
    }
    CHECK(rho("hypercube", 16, mixing) == doctest::Approx(3.0 / 5).epsilon(1e-5));
    CHECK(test::make("star", 7, {{"mixing", mixing}}).in(3)[0].weight ==
          doctest::Approx(2.0 / 8).epsilon(1e-5));
  }
}

TEST_CASE("the fastest weights of a path are one half") {
  // rho = cos(pi / n) (Boyd, Diaconis, Sun, Xiao, "Fastest mixing Markov chain on a path", American
  // Mathematical Monthly 113, 2006). Metropolis weights, 1/3, are slower.
  const starling::test::TemporaryDirectory directory;
  for (const NodeId n : {2, 3, 8, 17}) {
    const std::string path = directory.write("p.dot", path_of(n));
    const Topology topology = test::make("file", n, {{"path", path}, {"mixing", fastest}});
    CHECK(rho(topology) ==
          doctest::Approx(std::cos(std::numbers::pi / n)).epsilon(1e-5).scale(1e-2));
    for (NodeId i = 0; i + 1 < n; ++i) {
      CHECK(topology.out(i).back().weight == doctest::Approx(0.5).epsilon(1e-3));
    }
  }
}

TEST_CASE("the fastest weights are no slower than any others") {
  // The problem is convex: weights that no small change makes faster are the fastest.
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const test::Keys keys{{"probability", "0.3"}, {"mixing", fastest}};
    const Topology topology = test::make("erdos_renyi", 14, keys, seed);
    CHECK(topology.is_symmetric());
    const double least = rho(topology);
    for (const char* other : {"metropolis", best_constant}) {
      const Topology slower =
          test::make("erdos_renyi", 14, {{"probability", "0.3"}, {"mixing", other}}, seed);
      CHECK(least < rho(slower) - 1e-3);
    }

    std::vector<Connection> connections;
    for (NodeId i = 0; i < 14; ++i) {
      for (const Edge& edge : topology.out(i)) {
        if (i < edge.peer) connections.push_back({i, edge.peer});
      }
    }
    const std::vector<double> weights = fastest_weights(14, connections);
    CHECK(weights == fastest_weights(14, connections));
    Random rng(seed, "changes");
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<Topology::Arc> arcs;
      for (std::size_t l = 0; l < connections.size(); ++l) {
        const double weight = weights[l] + 1e-3 * (rng.uniform() - 0.5);
        arcs.push_back({connections[l].first, connections[l].second, weight});
        arcs.push_back({connections[l].second, connections[l].first, weight});
      }
      CHECK(rho(complete_rows(14, {arcs})) > least - 1e-6);
    }
  }
}

TEST_CASE("the best constant weight of long and of large graphs is found, too") {
  CHECK(rho("ring", 600, best_constant) ==
        doctest::Approx((1 + std::cos(2 * std::numbers::pi / 600)) /
                        (3 - std::cos(2 * std::numbers::pi / 600)))
            .epsilon(1e-9));
  CHECK(rho("random_regular", 3000, best_constant) < rho("random_regular", 3000, "metropolis"));
}

TEST_CASE("lazy optimal weights are half of them") {
  const Topology whole = test::make("star", 6, {{"mixing", fastest}});
  const Topology lazy = test::make("star", 6, {{"mixing", fastest}, {"lazy", "yes"}});
  CHECK(lazy.in(2)[0].weight == doctest::Approx(0.5 * whole.in(2)[0].weight));
}

TEST_CASE("optimal weights say what they cannot do") {
  CHECK_THROWS_WITH_AS(test::make("ring", 401, {{"mixing", fastest}}),
                       doctest::Contains("at most 400 connections, not for 401"),
                       std::invalid_argument);
  const starling::test::TemporaryDirectory directory;
  const std::string path = directory.write("d.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 0 }");
  CHECK(test::refusal("file", 3, {{"path", path}, {"mixing", fastest}})
            .find("must not be fastest for a directed") != std::string::npos);
}

}  // namespace starling::topologies::test_optimal_weights
