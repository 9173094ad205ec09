// BMUF: which other algorithms it is for what block momentum, and that this does not move its fixed point.
#include <cmath>

#include <doctest/doctest.h>

#include "tests/algorithms/block_averaging.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_bmuf {
namespace {

/// A run of 6 nodes and 60 steps in blocks of 4.
Recorder run_blocks(const std::string& algorithm) {
  return test::run(
      test::quadratic_scenario(6, 60, "ring", algorithm + "\nlearning_rate = 0.05\nperiod = 4"));
}

}  // namespace

TEST_CASE("BMUF without block momentum is local SGD") {
  for (const std::string filter : {"cbm", "nbm"}) {
    const Recorder filtered = run_blocks("kind = bmuf\nblock_momentum = 0\nfilter = " + filter);
    CHECK(test::largest_difference(filtered, run_blocks("kind = local_sgd")) < 2e-6);
  }
}

TEST_CASE("BMUF with Nesterov block momentum is DiLoCo with SGD inside") {
  // W_g moves by D_t + eta D_t - eta D_{t-1} = zeta G + eta D_t. With D = -zeta m, G = -(outer
  // gradient) that is theta <- theta - zeta (outer gradient + eta m), m <- eta m + outer gradient.
  const Recorder filtered =
      run_blocks("kind = bmuf\nfilter = nbm\nblock_learning_rate = 0.7\nblock_momentum = 0.9");
  const Recorder outer =
      run_blocks("kind = diloco\nouter_learning_rate = 0.7\nouter_momentum = 0.9");
  CHECK(test::largest_difference(filtered, outer) < 1e-5);
  CHECK(test::largest_difference(filtered, run_blocks("kind = local_sgd")) > 1e-3);
}

TEST_CASE("BMUF with classical block momentum is SlowMo over local SGD") {
  // With D = -alpha gamma u: D <- beta D + alpha (x' - x_0), x <- x_0 + D; zeta = alpha, eta =
  // beta, constant rate.
  const Recorder filtered =
      run_blocks("kind = bmuf\nfilter = cbm\nblock_learning_rate = 0.8\nblock_momentum = 0.6");
  const Recorder slow = run_blocks("kind = slowmo\nslow_learning_rate = 0.8\nslow_momentum = 0.6");
  CHECK(test::largest_difference(filtered, slow) < 1e-5);
  CHECK(test::largest_difference(filtered, run_blocks("kind = local_sgd")) > 1e-3);
}

TEST_CASE("the released block momentum takes the look-ahead for the model") {
  // One node, f = 1/2 (x - 1)^2 from 0, blocks of two steps of rate 0.1, zeta = 0.8, eta = 0.5:
  // G = (0.9^2 - 1) (w - 1), d <- eta d + zeta G, w <- w + (1 + eta) d.
  double w = 0;
  double d = 0;
  for (int block = 0; block < 4; ++block) {
    d = 0.5 * d + 0.8 * (0.81 - 1) * (w - 1);
    w += 1.5 * d;
  }
  const auto end = [](const std::string& filter) {
    return test::model(test::run(test::quadratic_scenario(
                                     1, 8, "ring",
                                     "kind = bmuf\nlearning_rate = 0.1\nperiod = 2\n"
                                     "block_learning_rate = 0.8\nblock_momentum = 0.5\nfilter = " +
                                         filter),
                                 {"workload.centers=list", "workload.center_values=1"}),
                       0, 0);
  };
  CHECK(end("released") == doctest::Approx(w).epsilon(1e-5));
  CHECK(std::abs(end("nbm") - w) > 0.01);
}

TEST_CASE("block momentum does not move the fixed point of local SGD, and all nodes stand there") {
  const std::string text =
      test::quadratic_scenario(5, 1200, "ring", "kind = bmuf\nlearning_rate = 0.05\nperiod = 4");
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (const std::string filter : {"cbm", "nbm"}) {
    const Recorder recorder = test::run(text, {"algorithm.filter=" + filter});
    for (std::size_t k = 0; k < 5; ++k) {
      CHECK(test::model(recorder, 2, k) ==
            doctest::Approx(test::local_fixed_point(problem, 5, k, 0.05, 4)).epsilon(1e-4));
    }
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE("after steps alone all nodes of BMUF go on with node 0's model, without momentum") {
  // f_i = 1/2 (x - c_i)^2 from 0, rate 0.1, momentum 0.5. Three steps alone end at `x` on node 0; then a block of two without
  // momentum of blocks, which is a mean.
  const double centers[] = {1, 5, 9};
  const auto local_steps = [](double x, double center, int steps) {
    double m = 0;
    for (int k = 0; k < steps; ++k) {
      m = 0.5 * m + x - center;
      x -= 0.1 * m;
    }
    return x;
  };
  const auto run = [](int steps) {
    return test::run(
        test::quadratic_scenario(3, steps, "ring",
                                 "kind = bmuf\nlearning_rate = 0.1\nmomentum = 0.5\nperiod = 2\n"
                                 "block_momentum = 0\nalone_steps = 3"),
        {"workload.centers=list", "workload.center_values=1, 5, 9"});
  };
  const double x = local_steps(0, centers[0], 3);
  double mean = 0;
  for (const double center : centers) mean += local_steps(x, center, 2) / 3;
  const Recorder alone = run(3);
  const Recorder block = run(5);
  CHECK(test::nodes_agree(alone));
  CHECK(test::model(alone, 2, 0) == doctest::Approx(x).epsilon(1e-6));
  CHECK(test::nodes_agree(block));
  CHECK(test::model(block, 2, 0) == doctest::Approx(mean).epsilon(1e-6));
}

}  // namespace starling::test_bmuf
