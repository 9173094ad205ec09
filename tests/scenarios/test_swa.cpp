// Stochastic weight averaging: what is evaluated and saved is the mean of a node's models over its steps.

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_swa {
namespace {

constexpr int nodes = 5;
constexpr int dimensions = 5;
const std::string sgp = "kind = sgp";
const std::vector<std::string> averaging{"run.swa_start=6", "run.swa_period=4"};

/// f_i(x) = 1/2 |x - (i, .., i)|^2 from 0 on: all coordinates of a model are equal. On a star weights of push-sum differ.
Recorder run(const std::string& algorithm, int steps, std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.end(), {"run.evaluate_every=1", "workload.centers=index"});
  return test::run(
      test::quadratic_scenario(nodes, steps, "star", algorithm + "\nlearning_rate = 0.2"),
      overrides);
}

double loss_after(const Recorder& run, int steps) {
  return run.evaluation.value("test_loss", static_cast<std::size_t>(steps - 1));
}

/// Of one node, over its steps.
struct Average {
  double sum = 0;  // of weighted models
  double weight = 0;
};

/// Out of runs that end after each of those steps.
std::vector<Average> averages_of(const std::string& algorithm, const std::vector<int>& taken_in) {
  std::vector<Average> averages(nodes);
  for (const int steps : taken_in) {
    const Recorder part = run(algorithm, steps);
    for (int i = 0; i < nodes; ++i) {
      const double weight = algorithm == sgp ? test::last_weight(part, i) : 1;
      averages[static_cast<std::size_t>(i)].sum += weight * test::model(part, i, 0);
      averages[static_cast<std::size_t>(i)].weight += weight;
    }
  }
  return averages;
}

/// f at the mean over the nodes.
double loss_of(const std::vector<Average>& averages) {
  double sum = 0;
  double weight = 0;
  for (const Average& node : averages) {
    sum += node.sum;
    weight += node.weight;
  }
  double loss = 0;
  for (int i = 0; i < nodes; ++i) loss += 0.5 * dimensions * std::pow(sum / weight - i, 2) / nodes;
  return loss;
}

}  // namespace

TEST_CASE("the average of a node is the mean of what runs of so many steps end with") {
  for (const std::string& algorithm : {std::string("kind = dpsgd"), sgp}) {
    CAPTURE(algorithm);
    const Recorder averaged = run(algorithm, 15, averaging);
    const std::vector<Average> expected = averages_of(algorithm, {6, 10, 14});
    for (int i = 0; i < nodes; ++i) {
      const Average& node = expected[static_cast<std::size_t>(i)];
      CHECK(test::model(averaged, i, 0) == doctest::Approx(node.sum / node.weight).epsilon(1e-6));
    }
    CHECK(loss_after(averaged, 15) == doctest::Approx(loss_of(expected)).epsilon(1e-6));
    CHECK(loss_after(averaged, 13) ==
          doctest::Approx(loss_of(averages_of(algorithm, {6, 10}))).epsilon(1e-6));
  }
}

TEST_CASE("averages that would begin after the last step are warned of") {
  const auto warnings = [](const char* start) {
    const std::string text =
        test::quadratic_scenario(nodes, 15, "star", sgp + "\nlearning_rate = 0.2");
    return assemble(Scenario::parse(text, "test.ini", {start})).warnings;
  };
  CHECK(warnings("run.swa_start=15").empty());  // the last model is its own mean
  CHECK(warnings("run.swa_start=16") ==
        std::vector<std::string>{"command line: run.swa_start is 16, and nodes take 15 steps: "
                                 "nothing is averaged"});
}

TEST_CASE("averages change neither what nodes do nor evaluations before the first model") {
  for (const std::string& algorithm : {std::string("kind = dpsgd"), sgp}) {
    CAPTURE(algorithm);
    const Recorder plain = run(algorithm, 15);
    const Recorder averaged = run(algorithm, 15, averaging);
    for (std::size_t row = 0; row < 15; ++row) {
      for (std::size_t i = 0; i < nodes; ++i) {
        for (const char* metric : {"time", "train_loss", "bytes_sent"})
          CHECK(averaged.steps.value(metric, row, i) == plain.steps.value(metric, row, i));
      }
    }
    for (int steps = 1; steps <= 6; ++steps)
      CHECK(loss_after(averaged, steps) == loss_after(plain, steps));
    CHECK(loss_after(averaged, 10) != loss_after(plain, 10));
  }
}

TEST_CASE("exchanges after the last step change no average, and evaluations by time have it") {
  const std::string algorithm = "kind = adpsgd";
  const std::vector<std::string> by_time{"run.swa_start=1", "run.evaluate_interval=4 ms",
                                         "topology.kind=complete", "run.nodes=4"};
  const Recorder averaged = run(algorithm, 15, by_time);
  const Table& table = averaged.evaluation_by_time;
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += test::model(averaged, i, 0) / 4;
  double loss = 0;
  for (int i = 0; i < 4; ++i) loss += 0.5 * dimensions * std::pow(sum - i, 2) / 4;
  CHECK(table.value("test_loss", table.rows("test_loss") - 1) ==
        doctest::Approx(loss).epsilon(1e-6));
}

TEST_CASE("by time the average of a node counts once, of however many models it is") {
  // f_i(x) = 1/2 (x - i)^2 from 3, rate 0.05, no exchange: after k steps x_i = i + 0.95^k (3 - i). By 24.5 ms node 0, with steps of
  // 10 ms, has made 2, node 1 24.
  double sum = 0;
  for (int i = 0; i < 2; ++i) {
    const int steps = i == 0 ? 2 : 24;
    for (int k = 1; k <= steps; ++k) sum += (i + std::pow(0.95, k) * (3 - i)) / steps;
  }
  const Recorder averaged =
      test::run(test::quadratic_scenario(2, 30, "ring",
                                         "kind = local_sgd\nlearning_rate = 0.05\nperiod = 30"),
                {"run.swa_start=1", "run.evaluate_interval=24500 us", "workload.dimension=1",
                 "workload.centers=index", "workload.start=3", "compute.speeds=0.1, 1"});
  const double loss = (std::pow(sum / 2, 2) + std::pow(sum / 2 - 1, 2)) / 4;
  CHECK(averaged.evaluation_by_time.value("test_loss", 0) == doctest::Approx(loss).epsilon(1e-5));
}

TEST_CASE("a period without a start is refused") {
  CHECK_THROWS_WITH_AS(run(sgp, 15, {"run.swa_period=4"}),
                       doctest::Contains("swa_period needs swa_start > 0"), ScenarioError);
  CHECK_THROWS_WITH_AS(run(sgp, 15, {"run.swa_start=6", "run.swa_period=0"}),
                       doctest::Contains("swa_period must be at least 1, got 0"), ScenarioError);
}

}  // namespace starling::test_swa
