// Local SGD at its fixed point, with momentum, a switch after exact steps, and groups of groups.
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "tests/algorithms/block_averaging.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_local_sgd {

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

TEST_CASE(
    "groups of local SGD average as often as they are told, the last one with those that are "
    "left") {
  // x_i <- x_i - lr (x_i - i): of 5 nodes in groups of 2, each step moves a group towards the mean of its own centers, and node 4
  // towards 4. The mean of all models is that of all centers in the end, which comes with step 12.
  const std::string text = test::quadratic_scenario(
      5, 12, "ring",
      "kind = local_sgd\nlearning_rate = 0.1\nperiod = 100\ngroup_sizes = 2\ngroup_periods = 1");
  const std::vector<std::string> centers{"workload.centers=index"};
  const Recorder apart = test::run(text, centers);
  const double way = 1 - std::pow(0.9, 12);
  const double expected[] = {0.5, 0.5, 2.5, 2.5, 4};
  for (NodeId i = 0; i < 5; ++i)
    CHECK(test::model(apart, i, 0) == doctest::Approx(way * expected[i]).epsilon(1e-5));
  const Recorder together = test::run(text, {"workload.centers=index", "algorithm.period=12"});
  for (NodeId i = 0; i < 5; ++i)
    CHECK(test::model(together, i, 0) == doctest::Approx(way * 2).epsilon(1e-5));
  // A step of a pair, or of all, sends what one collective does; node 4 has nobody to average with.
  CHECK(apart.nodes[0].messages_sent == 12 * 2);
  CHECK(apart.nodes[4].messages_sent == 0);
}

TEST_CASE("wrong groups of local SGD are refused") {
  const auto refusal = [](const std::string& keys) {
    const std::string text = test::quadratic_scenario(
        6, 12, "ring", "kind = local_sgd\nlearning_rate = 0.1\nperiod = 8\n" + keys);
    return test::message_of<ScenarioError>([&] { assemble(Scenario::parse(text, "test.ini")); });
  };
  const auto check = [&](const std::string& keys, const char* sentence) {
    CAPTURE(keys);
    CHECK(refusal(keys).find(sentence) != std::string::npos);
  };
  CHECK(refusal("group_sizes = 2, 3\ngroup_periods = 1, 4") == "no error");
  check("group_sizes = 2", "group_periods must be as many as group_sizes, 1, got 0");
  check("group_sizes = 2, 3\ngroup_periods = 4", "must be as many as group_sizes, 2, got 1");
  check("group_sizes = 3, 2\ngroup_periods = 1, 4",
        "must be whole numbers above 1 that grow from level to level, got 2 after 3");
  check("group_sizes = 6\ngroup_periods = 1", "must be below run.nodes, 6, got 6");
  check("group_sizes = 2\ngroup_periods = 8", "must be below period, 8, got 8");
  check("group_sizes = 2\ngroup_periods = 0",
        "must be whole numbers above 0 that grow from level to level, got 0");
  check("group_periods = 4", "group_periods must be as many as group_sizes, 0, got 1");
  check("group_sizes = 2\ngroup_periods = 4\ncompression = half",
        "group_sizes must be left out with compression");
}

}  // namespace starling::test_local_sgd
