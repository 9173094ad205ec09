// D2 and exact diffusion beside the paper's recursion, at the optimum that they reach, and where D2 diverges.
#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_d2 {
namespace {

const std::string d2 = "kind = d2\nlearning_rate = 0.1\nmixing = ";

}  // namespace

TEST_CASE("D2 and exact diffusion bring every node to the optimum of heterogeneous quadratics") {
  // Where nothing moves, x = W (psi + x - psi) = W x makes all x equal, and the mean over nodes
  // leaves mean(g) = 0. Up to rounding: mean(x(k+1) - psi(k)) is carried along for ever, and gains
  // some 1e-9 of x a step here.
  for (const std::string mixing : {"d2", "exact_diffusion"}) {
    CHECK(test::distance_from_optimum(test::quadratic_scenario(7, 1500, "ring", d2 + mixing)) <
          1e-5);
    CHECK(test::distance_from_optimum(test::quadratic_scenario(7, 1500, "star", d2 + mixing)) <
          1e-4);
  }
  CHECK(test::distance_from_optimum(
            test::quadratic_scenario(7, 1500, "ring", "kind = dpsgd\nlearning_rate = 0.1")) > 1e-2);
}

TEST_CASE("D2 diverges where an eigenvalue of W is below -1/3, exact diffusion does not") {
  // Hypercube of 8 nodes, weights 1/4: least eigenvalue (1 - 3)/4 = -1/2. Along it the recursion
  // without gradients is z^2 = 2 (-1/2) z - (-1/2), whose root -(1 + sqrt 3)/2 = -1.37 is outside
  // the unit circle. (I + W)/2 has 1/4 there.
  const double diverged =
      test::distance_from_optimum(test::quadratic_scenario(8, 100, "hypercube", d2 + "d2"));
  CHECK(diverged > 1e3);
  CHECK(test::distance_from_optimum(
            test::quadratic_scenario(8, 1500, "hypercube", d2 + "exact_diffusion")) < 1e-5);
}

TEST_CASE("D2 that will diverge whatever the learning rate is warned of") {
  // Least eigenvalues: a hypercube of 16 (1 - 4) / 5, a torus of 4 x 4 the same, one of 6 x 6, too. Rings have -1/3 at least, stars
  // 0, and so have all that are lazy.
  const auto warnings = [](int nodes, const std::string& topology, const std::string& mixing,
                           const std::vector<std::string>& more = {}) {
    const std::string text = test::quadratic_scenario(nodes, 5, topology, d2 + mixing);
    return assemble(Scenario::parse(text, "test.ini", more)).warnings;
  };
  const std::vector<std::string> told = warnings(16, "hypercube", "d2");
  REQUIRE(told.size() == 1);
  CHECK(
      told[0].ends_with("algorithm.mixing = d2 diverges at any learning rate where W has an "
                        "eigenvalue below -1/3, and here "
                        "one is -0.6 or less: take exact_diffusion, or topology.lazy = yes"));
  for (const int nodes : {16, 36}) CHECK(warnings(nodes, "torus", "d2").size() == 1);
  CHECK(warnings(16, "hypercube", "exact_diffusion").empty());
  CHECK(warnings(16, "hypercube\nlazy = yes", "d2").empty());
  for (const int nodes : {1, 2, 3, 4, 16, 200}) CHECK(warnings(nodes, "ring", "d2").empty());
  for (const char* topology : {"star", "complete"}) CHECK(warnings(9, topology, "d2").empty());
  CHECK(warnings(16, "hypercube", "d2",
                 {"workload.kind=timing", "workload.parameters=10", "workload.dimension=default"})
            .empty());
}

TEST_CASE("D2 follows the recursion of the paper") {
  // Two nodes, W = 1/2 everywhere, c = (0, 1), lr 0.1: x(1) = W (x - lr g), then W (2 x - x' - lr
  // (g - g')). W makes both nodes equal, so with mean gradient x - 1/2 both follow x(k+1) = 2 x -
  // x' - lr (x - x').
  double previous = 0;
  double x = 0.1 * 0.5;
  for (int k = 1; k < 6; ++k) {
    const double next = 2 * x - previous - 0.1 * (x - previous);
    previous = x;
    x = next;
  }
  const Recorder recorder =
      test::run(test::quadratic_scenario(2, 6, "complete", d2 + "d2"), {"workload.centers=index"});
  for (NodeId i = 0; i < 2; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(x).epsilon(1e-6));
}

TEST_CASE("exact diffusion is D2 with lazy mixing weights") {
  // (I + W)/2 in the algorithm or in the topology: the same products, rounded in another order.
  const Recorder inside =
      test::run(test::quadratic_scenario(6, 60, "ring", d2 + "exact_diffusion"));
  const Recorder outside =
      test::run(test::quadratic_scenario(6, 60, "ring\nlazy = yes", d2 + "d2"));
  for (NodeId i = 0; i < 6; ++i) {
    CHECK(test::model(inside, i, 1) == doctest::Approx(test::model(outside, i, 1)).epsilon(1e-4));
  }
}

TEST_CASE("a learning rate that falls leaves D2 at the optimum") {
  // psi(k) holds its own learning rate, so the step at which the rate changes adds no lasting push;
  // with lr(k) (g(k) - g(k-1)) instead, every change would leave (lr' - lr) mean(g) in every later
  // step of the mean: some tenths here.
  CHECK(test::distance_from_optimum(test::quadratic_scenario(
            7, 1500, "ring",
            d2 + "d2\nschedule = step\ndecay_steps = 10, 20, 30\ndecay_factor = 0.7")) < 5e-4);
}

TEST_CASE("D2 refuses topologies that change or are directed") {
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(8, 3, "one_peer_exponential", d2 + "d2")),
                       doctest::Contains("does not change, got one with 3 phases"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(8, 3, "exponential", d2 + "d2")),
                       doctest::Contains("algorithm.kind = d2 needs symmetric mixing weights"),
                       ScenarioError);
}

}  // namespace starling::test_d2
