#include <cmath>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "tests/support/block_averaging.hpp"
#include "tests/support/small_run.hpp"

using namespace starling;

TEST_CASE("local SGD ends at the weighted optimum of its local steps") {
  // For H = 1 that is the optimum.
  for (const int period : {1, 4, 10}) {
    const std::string text = test::quadratic_scenario(
        5, 600, "ring",
        "kind = local_sgd\nlearning_rate = 0.1\nperiod = " + std::to_string(period));
    const Recorder recorder = test::run(text);
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
    for (std::size_t k = 0; k < 5; ++k) {
      const double expected = test::local_fixed_point(problem, 5, k, 0.1, period);
      CHECK(test::model(recorder, 2, k) == doctest::Approx(expected).epsilon(1e-5));
      if (period == 1) CHECK(expected == doctest::Approx(problem.optimum()[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("local SGD that averages every step is allreduce SGD, with local momentum too") {
  // Averaging is linear: with H = 1 the models agree at every step, and the mean of the local velocities is the
  // velocity of the mean gradient.
  for (const std::string momentum : {"0", "0.9"}) {
    const std::string settings = "\nlearning_rate = 0.02\nmomentum = " + momentum;
    const Recorder local = test::run(
        test::quadratic_scenario(6, 40, "ring", "kind = local_sgd\nperiod = 1" + settings));
    const Recorder exact =
        test::run(test::quadratic_scenario(6, 40, "ring", "kind = allreduce" + settings));
    for (std::size_t k = 0; k < 5; ++k) {
      CHECK(test::model(local, 3, k) == doctest::Approx(test::model(exact, 3, k)).epsilon(1e-4));
    }
  }
}

TEST_CASE("keeping, averaging and resetting momentum are three algorithms for longer periods") {
  const std::string text = test::quadratic_scenario(
      4, 24, "ring", "kind = local_sgd\nperiod = 4\nlearning_rate = 0.05\nmomentum = 0.8");
  const Recorder keep = test::run(text, {"algorithm.momentum_policy=keep"});
  const Recorder average = test::run(text, {"algorithm.momentum_policy=average"});
  const Recorder reset = test::run(text, {"algorithm.momentum_policy=reset"});
  CHECK(keep.models != average.models);
  CHECK(average.models != reset.models);
  CHECK(keep.models != reset.models);
}

TEST_CASE(
    "post-local SGD that never switches is allreduce SGD, one that switches at once local SGD, to "
    "the bit") {
  const std::string settings = "\nlearning_rate = 0.05\nmomentum = 0.8";
  const std::string local =
      test::quadratic_scenario(6, 24, "ring", "kind = local_sgd\nperiod = 4" + settings);
  const Recorder exact =
      test::run(test::quadratic_scenario(6, 24, "ring", "kind = allreduce" + settings));
  CHECK(test::run(local, {"algorithm.switch_step=24"}).models == exact.models);
  CHECK(test::run(local, {"algorithm.switch_step=0"}).models == test::run(local).models);
  CHECK(test::run(local).models != exact.models);
}

TEST_CASE("post-local SGD takes exact steps up to the switch and counts its periods from there") {
  // Switch after 5 of 13 steps, period 4: five steps of x <- x - lr mean_i a_i (x - b_i), then two rounds of
  // x <- mean_i (b_i + (1 - lr a_i)^4 (x - b_i)), which end with the last step.
  const std::string text = test::quadratic_scenario(
      5, 13, "ring", "kind = local_sgd\nlearning_rate = 0.1\nperiod = 4\nswitch_step = 5");
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < 5; ++k) {
    double x = 0;
    for (int round = 0; round < 7; ++round) {
      double sum = 0;
      for (NodeId i = 0; i < 5; ++i) {
        const double b = static_cast<double>(problem.center(i, k));
        sum += b +
               std::pow(1 - 0.1 * static_cast<double>(problem.curvature(i, k)), round < 5 ? 1 : 4) *
                   (x - b);
      }
      x = sum / 5;
    }
    for (NodeId i = 0; i < 5; ++i)
      CHECK(test::model(recorder, i, k) == doctest::Approx(x).epsilon(1e-5));
  }
}
