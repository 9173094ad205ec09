// MATCHA's matchings, probabilities and weight against closed forms, against all near them, and against means that are counted out.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "tests/topology/make_topology.hpp"
#include "topology/matcha.hpp"
#include "topology/mixing.hpp"
#include "topology/optimal_weights.hpp"
#include "topology/spectrum.hpp"

namespace starling::topologies::test_matcha {
namespace {

using Connections = std::vector<Connection>;

/// The connections of a topology that stays.
Connections connections_of(const Topology& topology) {
  Connections connections;
  for (NodeId i = 0; i < topology.nodes(); ++i) {
    for (const Edge& edge : topology.out(i)) {
      if (i < edge.peer) connections.push_back({i, edge.peer});
    }
  }
  return connections;
}

/// Cliques of four with a connection between them.
Connections barbell() {
  Connections connections{{3, 4}};
  for (const NodeId first : {0, 4}) {
    for (NodeId i = 0; i < 4; ++i) {
      for (NodeId j = i + 1; j < 4; ++j) connections.push_back({first + i, first + j});
    }
  }
  return connections;
}

Connections random_graph(std::uint64_t seed) {
  return connections_of(test::make("erdos_renyi", 12, {{"probability", "0.4"}}, seed));
}

/// Arcs of the matchings, each with its factor.
std::vector<Topology::Arc> arcs_of(const Matcha& matcha, const std::vector<double>& factors) {
  std::vector<Topology::Arc> arcs;
  for (std::size_t j = 0; j < factors.size(); ++j) {
    for (const auto& [first, second] : matcha.matchings[j]) {
      arcs.push_back({first, second, factors[j]});
      arcs.push_back({second, first, factors[j]});
    }
  }
  return arcs;
}

double connectivity(NodeId nodes, const Matcha& matcha, const std::vector<double>& probabilities) {
  // I - L / 100 has no eigenvalue below 0.
  std::vector<double> factors;
  for (const double probability : probabilities) factors.push_back(probability / 100);
  return 100 * spectral_gap(complete_rows(nodes, {arcs_of(matcha, factors)}),
                            {.tolerance = 1e-9, .iterations = 3000})
                   .gap;
}

/// The greatest mean of ||W x||^2 over all choices of matchings, for x of length 1 orthogonal to the vector of ones: by counting them out.
double greatest_mean_square(NodeId nodes, const Matcha& matcha, double weight) {
  const auto n = static_cast<std::size_t>(nodes);
  std::vector<std::vector<double>> mean(n, std::vector<double>(n, 0.0));  // of W W
  const std::size_t m = matcha.matchings.size();
  for (std::size_t choice = 0; choice < (std::size_t{1} << m); ++choice) {
    double probability = 1;
    for (std::size_t j = 0; j < m; ++j) {
      const double p = matcha.probabilities[j];
      probability *= (choice >> j & 1) != 0 ? p : 1 - p;
    }
    for (std::size_t column = 0; column < n; ++column) {
      std::vector<double> y(n, 0.0);
      y[column] = 1;
      for (int twice = 0; twice < 2; ++twice) {
        const std::vector<double> before = y;
        for (std::size_t j = 0; j < m; ++j) {
          if ((choice >> j & 1) == 0) continue;
          for (const auto& [first, second] : matcha.matchings[j]) {
            const auto i = static_cast<std::size_t>(first);
            const auto k = static_cast<std::size_t>(second);
            y[i] += weight * (before[k] - before[i]);
            y[k] += weight * (before[i] - before[k]);
          }
        }
      }
      for (std::size_t i = 0; i < n; ++i) mean[i][column] += probability * y[i];
    }
  }

  std::vector<double> x(n);
  Random random(1, "start");
  for (double& value : x) value = random.normal();
  double length = 0;
  for (int i = 0; i < 5000; ++i) {
    const double average = std::accumulate(x.begin(), x.end(), 0.0) / nodes;
    for (double& value : x) value -= average;
    std::vector<double> next(n);
    for (std::size_t row = 0; row < n; ++row)
      next[row] = std::inner_product(x.begin(), x.end(), mean[row].begin(), 0.0);
    length = std::sqrt(std::inner_product(next.begin(), next.end(), next.begin(), 0.0));
    for (std::size_t row = 0; row < n; ++row) x[row] = next[row] / length;
  }
  return length;
}

}  // namespace

TEST_CASE(
    "matchings are as many as the degree or, if not bipartite, one more, and together the graph") {
  for (const auto& [nodes, connections] :
       std::vector<std::pair<NodeId, Connections>>{{8, barbell()},
                                                   {10, connections_of(test::make("ring", 10))},
                                                   {12, random_graph(3)},
                                                   {64, connections_of(test::make("torus", 64))},
                                                   {9, connections_of(test::make("ring", 9))},
                                                   {7, connections_of(test::make("star", 7))},
                                                   {2, {{0, 1}}}}) {
    const Matcha found = find_matcha(nodes, connections, 0.5);
    std::vector<std::size_t> degree(static_cast<std::size_t>(nodes), 0);
    std::set<std::pair<NodeId, NodeId>> left;
    for (const auto& [first, second] : connections) {
      ++degree[static_cast<std::size_t>(first)];
      ++degree[static_cast<std::size_t>(second)];
      left.insert(std::minmax(first, second));
    }
    const std::size_t most = std::ranges::max(degree);
    CHECK(found.matchings.size() >= most);
    const bool is_bipartite = nodes == 64 || nodes == 10 || nodes == 7 || nodes == 2;
    CHECK(found.matchings.size() <= most + (is_bipartite ? 0 : 1));
    for (const Connections& matching : found.matchings) {
      std::set<NodeId> met;
      for (const auto& [first, second] : matching) {
        CHECK(met.insert(first).second);
        CHECK(met.insert(second).second);
        CHECK(left.erase(std::minmax(first, second)) == 1);
      }
    }
    CHECK(left.empty());
  }
}

TEST_CASE("probabilities spend the budget, as well as it can be spent") {
  for (const double budget : {0.1, 0.5, 0.9}) {
    CAPTURE(budget);
    // All connections of a star are alike, as are the two matchings of an even ring.
    for (const char* kind : {"star", "ring"}) {
      const Matcha found = find_matcha(10, connections_of(test::make(kind, 10)), budget);
      for (const double probability : found.probabilities)
        CHECK(probability == doctest::Approx(budget).epsilon(1e-4));
    }
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Matcha found = find_matcha(12, random_graph(seed), budget);
      const std::vector<double>& p = found.probabilities;
      double sum = 0;
      for (const double probability : p) {
        CHECK((probability > 0 && probability < 1));
        sum += probability;
      }
      CHECK(sum == doctest::Approx(budget * static_cast<double>(p.size())).epsilon(1e-6));
      // The problem is concave: where no small change is better, none is.
      const double greatest = connectivity(12, found, p);
      Random random(seed, "changes");
      for (int trial = 0; trial < 100; ++trial) {
        std::vector<double> changed = p;
        const std::size_t from = random.below(p.size());
        const std::size_t to = random.below(p.size());
        const double change = std::min({1e-2 * random.uniform(), p[from], 1 - p[to]});
        changed[from] -= change;
        changed[to] += change;
        CHECK(connectivity(12, found, changed) < greatest + 1e-6);
      }
    }
  }
}

TEST_CASE("the connection that a graph hangs on is used as often as can be") {
  const Matcha found = find_matcha(8, barbell(), 0.3);
  for (std::size_t j = 0; j < found.matchings.size(); ++j) {
    const bool has_bridge = std::ranges::any_of(found.matchings[j], [](const Connection& c) {
      return std::min(c.first, c.second) == 3 && std::max(c.first, c.second) == 4;
    });
    if (has_bridge) {
      CHECK(found.probabilities[j] > 0.5);
      CHECK(found.probabilities[j] == std::ranges::max(found.probabilities));
    }
  }
}

TEST_CASE("the weight makes the mean square of a step the least, which is rho") {
  const auto check = [](NodeId nodes, const Connections& connections, double budget) {
    const Matcha found = find_matcha(nodes, connections, budget);
    CHECK(greatest_mean_square(nodes, found, found.weight) ==
          doctest::Approx(found.rho).epsilon(1e-6));
    for (const double factor : {0.98, 1.02})
      CHECK(greatest_mean_square(nodes, found, factor * found.weight) > found.rho);
    return found.rho;
  };
  double before = 1;
  for (const double budget : {0.1, 0.3, 0.6, 0.9}) {
    const double rho = check(8, barbell(), budget);
    CHECK(rho < before);
    before = rho;
  }
  check(7, connections_of(test::make("ring", 7)), 0.5);
  check(12, random_graph(2), 0.4);
}

TEST_CASE("with the whole budget every step is one with the best constant weight") {
  for (const char* kind : {"ring", "star", "tree"}) {
    const Connections connections = connections_of(test::make(kind, 9));
    const Matcha found = find_matcha(9, connections, 1);
    CHECK(std::ranges::all_of(found.probabilities, [](double p) { return p == 1; }));
    CHECK(found.weight == doctest::Approx(best_constant_weight(9, connections)).epsilon(1e-4));
  }
}

TEST_CASE("the topology draws matchings anew at every step, as often as they should be") {
  const test::Keys keys{
      {"mixing", "matcha"}, {"budget", "0.4"}, {"rounds", "4000"}, {"probability", "0.4"}};
  const Topology topology = test::make("erdos_renyi", 12, keys, 2);
  CHECK(topology.period() == 4000);
  CHECK(topology.is_symmetric());
  const Matcha expected = find_matcha(12, random_graph(2), 0.4);
  for (std::size_t j = 0; j < expected.matchings.size(); ++j) {
    double used = 0;
    for (Step k = 0; k < 4000; ++k) {
      std::size_t there = 0;
      for (const auto& [first, second] : expected.matchings[j]) {
        for (const Edge& edge : topology.in(first, k)) {
          if (edge.peer != second) continue;
          CHECK(edge.weight == static_cast<float>(expected.weight));
          ++there;
        }
      }
      CHECK((there == 0 || there == expected.matchings[j].size()));
      used += there > 0 ? 1 : 0;
    }
    const double p = expected.probabilities[j];
    CHECK(std::abs(used / 4000 - p) < 4 * std::sqrt(p * (1 - p) / 4000) + 1e-9);
  }
  // Other seeds, other draws of the same matchings.
  const auto ring = [](std::uint64_t seed) {
    const Topology drawn = test::make("ring", 8, {{"mixing", "matcha"}}, seed);
    std::vector<std::size_t> degrees;
    for (Step k = 0; k < 128; ++k) degrees.push_back(drawn.in(0, k).size());
    return degrees;
  };
  CHECK(ring(1) == ring(1));
  CHECK(ring(1) != ring(2));

  const test::Keys whole{{"mixing", "matcha"}, {"budget", "1"}, {"rounds", "1"}};
  test::Keys half = whole;
  half.emplace_back("lazy", "yes");
  CHECK(test::make("star", 6, half).in(2)[0].weight ==
        0.5F * test::make("star", 6, whole).in(2)[0].weight);
}

TEST_CASE("matcha says what it cannot do") {
  CHECK(test::refusal("ring", 8, {{"mixing", "matcha"}, {"budget", "0"}})
            .find("topology.budget must be in (0, 1], got 0") != std::string::npos);
  CHECK(test::refusal("ring", 8, {{"budget", "0.5"}}).find("topology.budget") != std::string::npos);
  CHECK_THROWS_WITH_AS(test::make("ring", 257, {{"mixing", "matcha"}}),
                       "MATCHA's probabilities are found for at most 256 nodes and 4096 "
                       "connections, not for 257 and 257",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      test::make("ring", 256, {{"mixing", "matcha"}, {"rounds", "1000000"}}),
      "1000000 rounds of 256 connections ask for more than the limit of 100000000 arcs",
      std::invalid_argument);
  const starling::test::TemporaryDirectory directory;
  const std::string path = directory.write("d.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 0 }");
  CHECK(test::refusal("file", 3, {{"path", path}, {"mixing", "matcha"}})
            .find("must not be matcha for a directed") != std::string::npos);
  CHECK(test::make("ring", 1, {{"mixing", "matcha"}}).arc_count() == 0);
}

}  // namespace starling::topologies::test_matcha
