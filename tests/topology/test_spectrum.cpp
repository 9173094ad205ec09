// The spectral gap against closed forms and against its slow twin, a dense Jacobi eigenvalue
// method.

#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include "tests/support/relative.hpp"
#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"
#include "topology/spectrum.hpp"

namespace starling::topologies::test_spectrum {
namespace {

using Matrix = std::vector<double>;  // (n, n) row-major

Matrix product(const Matrix& a, const Matrix& b, std::size_t n) {
  Matrix c(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a, std::size_t n) {
  Matrix b(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) b[j * n + i] = a[i * n + j];
  }
  return b;
}

/// Largest eigenvalue of a symmetric matrix: Jacobi rotations, row by row, until nothing is left
/// off the diagonal.
double largest_eigenvalue(Matrix a, std::size_t n) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0);
        const double s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double x = a[k * n + p];
          const double y = a[k * n + q];
          a[k * n + p] = c * x - s * y;
          a[k * n + q] = s * x + c * y;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double x = a[p * n + k];
          const double y = a[q * n + k];
          a[p * n + k] = c * x - s * y;
          a[q * n + k] = s * x + c * y;
        }
      }
    }
  }
  double largest = a[0];
  for (std::size_t i = 1; i < n; ++i) largest = std::max(largest, a[i * n + i]);
  return largest;
}

/// 1 - ||(I - J) M||_2 with matrices written out.
double slow_gap(const Topology& topology) {
  const auto n = static_cast<std::size_t>(topology.nodes());
  Matrix m = test::mixing_matrix(topology, 0);
  for (Step p = 1; p < static_cast<Step>(topology.period()); ++p)
    m = product(test::mixing_matrix(topology, p), m, n);
  Matrix center(n * n, -1.0 / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) center[i * n + i] += 1;
  const Matrix a = product(center, m, n);
  return 1 - std::sqrt(std::max(0.0, largest_eigenvalue(product(transposed(a, n), a, n), n)));
}

/// Weights are floats, rounded by up to 3e-8 of themselves.
void check_gap(const Topology& topology, double expected) {
  const SpectralGap found = spectral_gap(topology);
  CHECK(found.converged);
  CHECK(found.gap == starling::test::relative(expected, 1e-6));
}

TEST_CASE("the gap of a ring is that of its eigenvalues 1/3 + 2/3 cos(2 pi k/n)") {
  for (const NodeId nodes : {3, 4, 5, 8, 31, 100, 1000, 65536}) {
    CAPTURE(nodes);
    double second = 0;
    for (NodeId k = 1; k < nodes; ++k) {
      second = std::max(second,
                        std::abs(1.0 / 3 + 2.0 / 3 * std::cos(2 * std::numbers::pi * k / nodes)));
    }
    check_gap(test::make("ring", nodes), 1 - second);
  }
}

TEST_CASE("a complete graph has gap 1, and so has a node alone") {
  for (const NodeId nodes : {1, 2, 3, 16, 50, 1'000'000})
    check_gap(test::make("complete", nodes), 1);
}

TEST_CASE("the gap of a hypercube of dimension d is 2/(d + 1)") {
  for (const int d : {1, 2, 3, 6, 10}) check_gap(test::make("hypercube", 1 << d), 2.0 / (d + 1));
}

TEST_CASE("a gap far below the rounding of 1 is exact on a ring") {
  const double pi = std::numbers::pi;
  check_gap(test::make("ring", 3'000'000), 2.0 / 3 * 2 * (pi / 3e6) * (pi / 3e6));
}

TEST_CASE("lazy weights halve a gap that the largest eigenvalue decides") {
  check_gap(test::make("complete", 20, {{"lazy", "yes"}}), 0.5);
  check_gap(test::make("ring", 30, {{"lazy", "yes"}}),
            (1 - std::cos(2 * std::numbers::pi / 30)) / 3);
  // (1 + lambda)/2 for the hypercube of dimension 5: 1 - lambda_2 = 2/6, so the gap is 1/6.
  check_gap(test::make("hypercube", 32, {{"lazy", "yes"}}), 1.0 / 6);
}

TEST_CASE("the gap of the one-peer exponential graph is over a whole period") {
  check_gap(test::make("one_peer_exponential", 16), 1);
  // n = 6: the product is the circulant of (2, 2, 1, 1, 1, 1)/8 (up to direction), that is of (1,
  // ..., 1)/8 plus (1, 1, 0, 0, 0, 0)/8; its singular values besides 1 are |1 + exp(i pi k/3)|/8,
  // at most sqrt(3)/8.
  check_gap(test::make("one_peer_exponential", 6), 1 - std::sqrt(3.0) / 8);
}

TEST_CASE("the gap of the exponential graph for n = 2^L is 2/(L + 1)") {
  // A normal matrix with eigenvalues (1 + sum_j w^(2^j))/(L + 1), w^n = 1. Largest: w = -1, where
  // one of the L + 1 terms is -1 and the others 1 (Ying et al., 2021, Proposition 1).
  check_gap(test::make("exponential", 64), 2.0 / 7);
  check_gap(test::make("exponential", 65536), 2.0 / 17);
}

TEST_CASE("the gap agrees with a dense eigenvalue method") {
  check_gap(test::make("star", 20), slow_gap(test::make("star", 20)));
  check_gap(test::make("torus", 30), slow_gap(test::make("torus", 30)));
  check_gap(test::make("torus", 36, {{"sides", "3x2x6"}}),
            slow_gap(test::make("torus", 36, {{"sides", "3x2x6"}})));
  for (const NodeId nodes : {7, 12, 23}) {
    CAPTURE(nodes);
    check_gap(test::make("exponential", nodes), slow_gap(test::make("exponential", nodes)));
    check_gap(test::make("one_peer_exponential", nodes),
              slow_gap(test::make("one_peer_exponential", nodes)));
    const test::Keys keys{{"probability", "0.4"}};
    check_gap(test::make("erdos_renyi", nodes, keys),
              slow_gap(test::make("erdos_renyi", nodes, keys)));
  }
  check_gap(test::make("random_regular", 60), slow_gap(test::make("random_regular", 60)));
  // Rows sum to one, columns do not.
  const test::Keys uniform{{"mixing", "uniform"}};
  check_gap(test::make("star", 12, uniform), slow_gap(test::make("star", 12, uniform)));
}

TEST_CASE("of two eigenvalues that nearly are equal the gap is the larger one's") {
  // Three arms, one of which has a leaf at its beginning: the slowest waves along them differ by 1.5 % of the gap.
  constexpr NodeId arm = 30;
  std::vector<Connection> connections{{1, 3 * arm + 1}};
  for (NodeId node = 1; node <= 3 * arm; ++node)
    connections.push_back({node % arm == 1 ? 0 : node - 1, node});
  const Topology star = mix(3 * arm + 2, connections, {});
  // The dense method takes W_ii as it was rounded to float.
  CHECK(spectral_gap(star).gap == starling::test::relative(slow_gap(star), 1e-5));
}

TEST_CASE("a topology in two parts has no gap") {
  const auto parts = mix(6, std::vector<Connection>{{0, 1}, {1, 2}, {3, 4}, {4, 5}}, {});
  const SpectralGap found = spectral_gap(parts);
  CHECK(found.converged);
  CHECK(std::abs(found.gap) < 1e-7);
}

TEST_CASE("a search that hits its limit says so and gives an upper bound") {
  std::vector<Connection> connections;
  for (NodeId node = 1; node < 2000; ++node) connections.push_back({node - 1, node});
  const Topology path = mix(2000, connections, {});
  // The ends keep 2/3: a path folds a ring of twice as many nodes.
  const double gap = 2.0 / 3 * (1 - std::cos(std::numbers::pi / 2000));
  check_gap(path, gap);
  const SpectralGap found = spectral_gap(path, {.iterations = 50});
  CHECK_FALSE(found.converged);
  CHECK(found.gap >= gap);
  CHECK(found.gap < 0.1);
  CHECK_FALSE(spectral_gap(path, {.iterations = 0}).converged);
}

TEST_CASE("a weight or an arc that differs in one row is seen") {
  const auto gap_of_circle = [](std::vector<Topology::Arc> arcs) {
    std::vector<double> self(6, 1.0);
    for (const Topology::Arc& arc : arcs)
      self[static_cast<std::size_t>(arc.receiver)] -= arc.weight;
    const Topology topology(6, {arcs}, {self});
    check_gap(topology, slow_gap(topology));
    return spectral_gap(topology).gap;
  };
  std::vector<Topology::Arc> arcs;
  for (NodeId node = 0; node < 6; ++node) arcs.push_back({node, (node + 1) % 6, 0.5});
  const double circle = gap_of_circle(arcs);  // |1 + w|/2, w = exp(pi i/3)
  CHECK(circle == starling::test::relative(1 - std::sqrt(3.0) / 2, 1e-12));
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    std::vector<Topology::Arc> other = arcs;
    other[i].weight = 0.25;
    CHECK(gap_of_circle(other) != circle);
    other[i] = {other[i].sender, (other[i].sender + 2) % 6, 0.5};
    CHECK(gap_of_circle(other) != circle);
    other.erase(other.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(gap_of_circle(other) != circle);
  }
}

TEST_CASE("the gap of a random regular graph of degree 4 is near that of an expander") {
  // The second eigenvalue of the adjacency tends to 2 sqrt(3) (Friedman, 2008), so that of W to (1
  // + 2 sqrt(3))/5 = 0.8928; finite graphs stay within a few percent of the gap 0.1072.
  const SpectralGap found = spectral_gap(test::make("random_regular", 20'000));
  CHECK(found.converged);
  CHECK(found.gap > 0.100);
  CHECK(found.gap < 0.115);
}

TEST_CASE("what a phase does in the long run is told where a period leaves nothing") {
  // A static symmetric topology shrinks by its gap.
  for (const char* kind : {"ring", "star", "torus"}) {
    const Topology topology = test::make(kind, 16);
    CHECK(long_run_gap(topology) == doctest::Approx(spectral_gap(topology).gap).epsilon(1e-3));
  }
  // Each of the phases of a random matching leaves (n - 2) / (2 (n - 1)) of the squared distance, in the mean, which is above the geometric
  // mean; all of them less than what can be told from nothing.
  const Topology matching = test::make("random_matching", 64, {{"rounds", "400"}});
  CHECK(spectral_gap(matching).gap == 1);
  const double mean = 1 - std::sqrt(62.0 / 126);
  CHECK(long_run_gap(matching) > mean);
  CHECK(long_run_gap(matching) < mean + 0.03);
  // Two phases that together average exactly.
  CHECK(long_run_gap(test::make("one_peer_exponential", 4)) == 1);
  CHECK(long_run_gap(test::make("ring", 1)) == 1);
  CHECK(long_run_gap(test::make("complete", 8)) == doctest::Approx(1));
}

TEST_CASE("the gap is the same to the bit every time") {
  const auto graph = test::make("random_regular", 500);
  CHECK(spectral_gap(graph).gap == spectral_gap(graph).gap);
}

}  // namespace
}  // namespace starling::topologies::test_spectrum
