// DiLoCo beside its recursion, at its fixed point, and what it sends.
#include <doctest/doctest.h>

#include "tests/algorithms/block_averaging.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_diloco {

TEST_CASE("DiLoCo with a plain outer step of rate 1 is local SGD, local momentum included") {
  // theta - mean_i (theta - x_i) = mean_i x_i; inner momentum stays on its node in both.
  const std::string settings = "\nlearning_rate = 0.05\nperiod = 4\nmomentum = 0.8";
  const Recorder outer =
      test::run(test::quadratic_scenario(6, 40, "ring", "kind = diloco" + settings),
                {"algorithm.outer_learning_rate=1", "algorithm.outer_momentum=0"});
  const Recorder local =
      test::run(test::quadratic_scenario(6, 40, "ring", "kind = local_sgd" + settings));
  CHECK(test::largest_difference(outer, local) < 3e-6);
}

TEST_CASE("DiLoCo's outer step is Nesterov momentum on the progress of a block") {
  // One node, f = 1/2 (x - 1)^2 from 0: a block of 3 steps with rate 0.1 moves x - 1 by 0.9^3. D =
  // theta - x, m <- 0.9 m + D, theta <- theta - 0.7 (D + 0.9 m).
  double theta = 0;
  double m = 0;
  for (int block = 0; block < 5; ++block) {
    const double d = theta - (1 + 0.9 * 0.9 * 0.9 * (theta - 1));
    m = 0.9 * m + d;
    theta -= 0.7 * (d + 0.9 * m);
  }
  const Recorder recorder = test::run(
      test::quadratic_scenario(1, 15, "ring", "kind = diloco\nlearning_rate = 0.1\nperiod = 3"),
      {"workload.centers=list", "workload.center_values=1"});
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(theta).epsilon(1e-5));
}

TEST_CASE("DiLoCo ends at the fixed point of local SGD with all models equal to the bit") {
  const std::string text =
      test::quadratic_scenario(5, 1200, "ring", "kind = diloco\nlearning_rate = 0.05\nperiod = 4");
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(test::model(recorder, 2, k) ==
          doctest::Approx(test::local_fixed_point(problem, 5, k, 0.05, 4)).epsilon(1e-4));
  }
  CHECK(test::nodes_agree(recorder));
}

TEST_CASE("DiLoCo sends one model's worth of bytes per block, whatever its length") {
  // Ring allreduce of d floats over n nodes: 2 (n - 1) chunks of d / n floats per node; n = 5
  // divides d = 5. Two blocks of 10 steps: 2 * 8 * 4 bytes.
  const Recorder recorder = test::run(test::quadratic_scenario(
      5, 20, "ring", "kind = diloco\nlearning_rate = 0.05\nperiod = 10\ncollective = ring"));
  for (const NodeTotals& node : recorder.nodes) CHECK(node.bytes_sent == 64);
}

}  // namespace starling::test_diloco
