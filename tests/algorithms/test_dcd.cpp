// DCD-PSGD beside a twin with a replica per neighbor, at rest and at a common optimum.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/algorithms/coded_gossip.hpp"
#include "tests/algorithms/naive_codec.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_dcd {
namespace {

/// DCD-PSGD with the two largest entries of five, in double: every node i has a replica of every x_j, itself included, and
/// moves it by what j sent.
std::vector<test::Numbers> slow_twin(const Assembly& parts) {
  const auto n = static_cast<std::size_t>(parts.settings.nodes);
  const std::size_t d = 5;
  const test::Numbers w = test::mixing_matrix(*parts.topology);
  std::vector<std::vector<test::Numbers>> replicas(n,
                                                   std::vector<test::Numbers>(n, test::Numbers(d)));
  for (Step s = 0; s < parts.settings.steps; ++s) {
    std::vector<test::Numbers> codes;
    for (std::size_t i = 0; i < n; ++i) {
      test::Numbers z(d);
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < d; ++k) z[k] += w[i * n + j] * replicas[i][j][k];
      }
      z = test::gradient_step(parts, static_cast<NodeId>(i), z, replicas[i][i]);
      for (std::size_t k = 0; k < d; ++k) z[k] -= replicas[i][i][k];
      codes.push_back(test::keep_largest(z, 2));
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < d && (i == j || w[i * n + j] > 0); ++k)
          replicas[i][j][k] += codes[j][k];
      }
    }
  }
  std::vector<test::Numbers> x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(replicas[i][i]);
  return x;
}

}  // namespace

TEST_CASE("DCD-PSGD with one vector beside the model is the one with a replica per neighbor") {
  for (const std::string topology : {"ring", "star"}) {
    const std::string text = test::quadratic_scenario(
        7, 25, topology, test::coded_section("dcd", "compression = top_k\nkeep = 0.4"));
    const Recorder recorder = test::run(text);
    const auto twin = slow_twin(assemble(Scenario::parse(text, "test.ini")));
    for (std::size_t i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k)
        CHECK(std::abs(test::model(recorder, static_cast<NodeId>(i), k) - twin[i][k]) < 1e-5);
    }
  }
}

TEST_CASE("DCD-PSGD stays where it is if nothing pushes it: codes of zero are zero") {
  // Equal minima at the start 100: every gradient is 0, so is z, and C(z). ECD sends extrapolations, not differences.
  const std::vector<std::string> at_rest{"workload.start=100", "workload.centers=list",
                                         "workload.center_values=100"};
  for (const std::string codec : {"none", "half", "sign", "one_bit", "ternary", "levels",
                                  "top_k\nkeep = 0.4", "random_k\nkeep = 0.4\nunbiased = yes"}) {
    CAPTURE(codec);
    const Recorder recorder =
        test::coded_run(test::coded_section("dcd", "compression = " + codec), at_rest);
    for (const auto& x : recorder.models) CHECK(x == std::vector<float>(5, 100.0F));
  }
}

TEST_CASE("DCD-PSGD with unbiased codes brings every node to a common optimum, exactly") {
  // At the optimum z is 0, and so is what C loses: the noise dies out with the differences.
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3"};
  for (const std::string codec : {"levels", "ternary", "random_k\nkeep = 0.6\nunbiased = yes"}) {
    CAPTURE(codec);
    const Recorder recorder =
        test::coded_run(test::coded_section("dcd", "compression = " + codec), equal, 600);
    for (NodeId i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k)
        CHECK(test::model(recorder, i, k) == doctest::Approx(3).epsilon(1e-4));
    }
  }
}

TEST_CASE("without compression DCD-PSGD is D-PSGD, up to rounding") {
  test::check_without_compression("dcd", "combine_while_adapt");
}

TEST_CASE("DCD-PSGD sends one code to each neighbor a step") { test::check_bytes("dcd"); }

TEST_CASE("DCD-PSGD refuses lattice codes and topologies it cannot follow") {
  test::check_refusals("dcd");
}

}  // namespace starling::test_dcd
