#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/block_averaging.hpp"

using namespace starling;

namespace {

std::string async_scenario(int nodes, int steps, const std::string& rule) {
  return test::quadratic_scenario(
      nodes, steps, "ring",
      "kind = async_diloco\nlearning_rate = 0.05\nperiod = 4\nrule = " + rule);
}

const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.6"};

std::vector<std::string> with(std::vector<std::string> settings,
                              const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

}  // namespace

TEST_CASE("one node under any rule is DiLoCo with one node") {
  const Recorder diloco = test::run(
      test::quadratic_scenario(1, 48, "ring", "kind = diloco\nlearning_rate = 0.05\nperiod = 4"));
  for (const std::string rule : {"vanilla", "delayed", "delayed_nesterov"}) {
    const Recorder recorder =
        test::run(async_scenario(1, 48, rule), {"algorithm.outer_learning_rate=0.7"});
    CHECK(test::largest_difference(recorder, diloco) < 2e-6);
  }
}

TEST_CASE("delayed with as many arrivals as nodes is DiLoCo") {
  const Recorder diloco = test::run(
      test::quadratic_scenario(6, 48, "ring", "kind = diloco\nlearning_rate = 0.05\nperiod = 4"));
  CHECK(test::largest_difference(test::run(async_scenario(6, 48, "delayed")), diloco) < 5e-6);
  CHECK(test::largest_difference(test::run(async_scenario(6, 48, "delayed"), uneven), diloco) <
        5e-6);
}

TEST_CASE("delayed Nesterov that delays by one arrival is vanilla with full weight") {
  const Recorder nesterov =
      test::run(async_scenario(6, 48, "delayed_nesterov"),
                with(uneven, {"algorithm.delay=1", "algorithm.outer_learning_rate=0.05"}));
  const Recorder vanilla =
      test::run(async_scenario(6, 48, "vanilla"),
                with(uneven, {"algorithm.weight=1", "algorithm.outer_learning_rate=0.05"}));
  CHECK(test::largest_difference(nesterov, vanilla) < 2e-6);
}

TEST_CASE("delayed Nesterov applies momentum on every N-th arrival and progress on all") {
  // One node, N = 3, share a = 0.2, mu = 0.5, eta = 0.6: f = 1/2 (x - 1)^2 from 0, blocks of 4
  // steps of rate 0.05.
  const double q = std::pow(0.95, 4);
  double theta = 0;
  double m = 0;
  double b = 0;
  for (int arrival = 1; arrival <= 8; ++arrival) {
    const double d = theta - (1 + q * (theta - 1));
    b += d;
    if (arrival % 3 == 0) {
      m = 0.5 * m + b / 3;
      theta -= 0.6 * ((1 - 0.2 * 3 + 0.2) * 0.5 * m + d / 3);
      b = 0;
    } else {
      theta -= 0.6 * (0.2 * 0.5 * m + d / 3);
    }
  }
  const Recorder recorder = test::run(
      async_scenario(1, 32, "delayed_nesterov"),
      {"workload.centers=list", "workload.center_values=1", "algorithm.delay=3",
       "algorithm.share=0.2", "algorithm.outer_momentum=0.5", "algorithm.outer_learning_rate=0.6"});
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(theta).epsilon(1e-5));
}

TEST_CASE("a node waits for its own round trip only, unless the server gives others time to join") {
  // Blocks of 4 ms and a round trip of 20 us: 12 blocks end after 48.24 ms although node 0 takes 10
  // times as long.
  const std::vector<std::string> slow{"compute.slow_nodes=1", "compute.slowdown=10",
                                      "run.record_every=1"};
  for (const std::string rule : {"vanilla", "delayed_nesterov"}) {
    const Recorder recorder = test::run(async_scenario(5, 48, rule), slow);
    CHECK(recorder.steps.value("time", 47, 3) == doctest::Approx(12 * 4.02e-3).epsilon(1e-6));
    // Four equally fast nodes: between two fetches the three others come once each.
    CHECK(recorder.steps.value("staleness", 31, 3) == 3);
    // A grace period of 1 ms is added to each of these nodes' rounds, as node 0 does not come.
    const Recorder patient =
        test::run(async_scenario(5, 8, rule), with(slow, {"algorithm.grace=1 ms"}));
    CHECK(patient.steps.value("time", 7, 3) == doctest::Approx(2 * 5.02e-3).epsilon(1e-6));
  }
}

TEST_CASE("with a grace period all equally fast nodes fetch the same model") {
  const Recorder recorder = test::run(async_scenario(6, 48, "vanilla"), {"algorithm.grace=0.1 ms"});
  for (const auto& x : recorder.models) CHECK(x == recorder.models[0]);
  const Recorder hasty = test::run(async_scenario(6, 48, "vanilla"));
  CHECK(hasty.models[5] != hasty.models[0]);
}

TEST_CASE("delayed ends with fewer arrivals than it waits for when nobody else is left") {
  // 5 nodes, 4 arrivals per outer step: 15 arrivals in all leave three for the last step.
  const Recorder recorder = test::run(
      test::quadratic_scenario(
          5, 12, "ring",
          "kind = async_diloco\nlearning_rate = 0.05\nperiod = 4\nrule = delayed\ndelay = 4"),
      uneven);
  for (const NodeTotals& node : recorder.nodes) CHECK(node.steps == 12);
}
