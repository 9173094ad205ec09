// Push-sum gossip: the mass that it conserves, the mean that estimates come to, and who waits.
#include <cmath>

#include <doctest/doctest.h>

#include "scenarios/assemble.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_push_sum {
namespace {

const std::string push_sum = "kind = push_sum\nlearning_rate = 0.1\n";
// All times uneven, so that shares are in flight when nodes end; models i lr after the first step,
// then no gradients.
const std::vector<std::string> averaging =
    test::gradients_until(1, {"workload.centers=index", "compute.distribution=lognormal",
                              "compute.sigma=0.5", "network.latency=1.7 ms"});

}  // namespace

TEST_CASE("push-sum conserves numerators and weights, shares in flight included") {
  // w starts at 1, and halves and their sums are exact in double: sum_i w_i = n to the bit. Every
  // first step adds -lr g_i to the model while w_i is still 1 if nothing was sent before; so sum_i
  // w_i z_i = lr sum_i i. The nodes' last states include all that was under way when they made
  // their last steps.
  for (const std::string topology : {"ring", "star", "complete", "exponential"}) {
    for (const std::string gradient : {"model", "numerator"}) {
      const Recorder recorder =
          test::run(test::quadratic_scenario(8, 30, topology, push_sum + "gradient = " + gradient),
                    averaging);
      double w = 0;
      double s = 0;
      for (NodeId i = 0; i < 8; ++i) {
        w += test::last_weight(recorder, i);
        s += test::last_weight(recorder, i) * test::model(recorder, i, 0);
      }
      CHECK(w == 8);
      CHECK(s == doctest::Approx(2.8).epsilon(1e-5));
    }
  }
}

TEST_CASE("the end of a push-sum node does not overtake its last share, which is staged") {
  for (const std::string staging : {"staging_latency=3 ms", "staging_bandwidth=1 kB/s"}) {
    std::vector<std::string> staged = averaging;
    staged.push_back("network." + staging);
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 30, "complete", push_sum), staged);
    double w = 0;
    for (NodeId i = 0; i < 8; ++i) w += test::last_weight(recorder, i);
    CHECK(w == 8);
  }
}

TEST_CASE("estimates of push-sum converge to the mean on directed graphs") {
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 200, "exponential", push_sum), averaging);
  for (NodeId i = 0; i < 8; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(0.35).epsilon(1e-4));
}

TEST_CASE("nobody waits in push-sum gossip") {
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 50, "complete", push_sum),
                {"compute.slow_nodes=1", "compute.slowdown=10", "network.latency=2 ms"});
  const Table& steps = recorder.steps;
  for (std::size_t i = 1; i < 8; ++i) {
    CHECK(steps.value("time", steps.rows("time") - 1, i) == doctest::Approx(0.05).epsilon(1e-9));
  }
}

TEST_CASE("push-sum sends as often as it is told") {
  // 16 nodes x 500 steps with chance 0.1: 800 shares, standard deviation sqrt(8000 x 0.09) = 27;
  // and 2 notices per node.
  const Recorder recorder =
      test::run(test::quadratic_scenario(16, 500, "ring", push_sum + "send_chance = 0.1"));
  std::int64_t shares = 0;
  for (const NodeTotals& node : recorder.nodes) shares += node.messages_sent - 2;
  CHECK(std::abs(static_cast<double>(shares - 800)) < 4 * 27);
}

TEST_CASE("push-sum warns where much is sent to some nodes, whose losses then weigh more") {
  const auto warnings = [](const std::string& topology, const std::string& more) {
    return assemble(
               Scenario::parse(test::quadratic_scenario(
                                   6, 5, topology, "kind = push_sum\nlearning_rate = 0.1\n" + more),
                               "test.ini"))
        .warnings;
  };
  REQUIRE(warnings("star", "").size() == 1);
  CHECK(warnings("star", "")[0].find("algorithm.gradient = model weighs the losses") !=
        std::string::npos);
  CHECK(warnings("star", "gradient = numerator").empty());
  CHECK(warnings("ring", "").empty());
  CHECK(warnings("complete", "").empty());
}

TEST_CASE("push-sum refuses chances that are none") {
  for (const std::string chance : {"0", "1.5"}) {
    CHECK_THROWS_WITH_AS(
        test::run(test::quadratic_scenario(4, 3, "ring", push_sum + "send_chance = " + chance)),
        doctest::Contains("must be in (0, 1]"), ScenarioError);
  }
}

TEST_CASE(
    "a node of push-sum whose senders fall silent is told, before its estimate has no digits") {
  // Nodes 1 and 2 of a star hear from node 0 only, which is slow: their weights halve at each step. Floats end at 2^-126, the
  // weights themselves at 2^-1074.
  const std::vector<std::string> slow{"compute.slow_nodes=1", "compute.slowdown=1000000"};
  const std::string scenario = test::quadratic_scenario(3, 2000, "star", push_sum);
  CHECK_THROWS_WITH_AS(test::run(scenario, slow),
                       doctest::Contains("weight fell to 5.9e-39 by the end of step 127"), Error);
  std::vector<std::string> timing{"workload.kind=timing", "workload.parameters=1000",
                                  "workload.dimension=default", "workload.centers=default",
                                  "run.record_every=1"};
  timing.insert(timing.end(), slow.begin(), slow.end());
  const Recorder recorder = test::run(scenario, timing);  // which has no numbers that could be lost
  CHECK(recorder.steps.value("push_sum_weight", 1074, 2) == 0);
  for (const NodeTotals& node : recorder.nodes) CHECK(node.steps == 2000);
}

}  // namespace starling::test_push_sum
