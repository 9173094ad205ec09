// WAGMA: its groups, how they mix, what late nodes take, and which other algorithms it is.
#include <algorithm>
#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "algorithms/wagma.hpp"
#include "sim/base/error.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_wagma {
namespace {

std::set<std::set<NodeId>> groups_of_step(Step t, NodeId nodes, NodeId size,
                                          bool is_dynamic = true) {
  const std::vector<int> bits = algorithms::wagma_bits(t, nodes, size, is_dynamic);
  std::set<std::set<NodeId>> groups;
  for (NodeId i = 0; i < nodes; ++i) {
    std::set<NodeId> group{i};
    for (const int bit : bits) {
      std::set<NodeId> wider = group;
      for (const NodeId member : group) wider.insert(member ^ (1 << bit));
      group = wider;
    }
    groups.insert(group);
  }
  return groups;
}

const char* const wagma = "kind = wagma\nlearning_rate = 0.1\ngroup_size = 4\ntau = 5";
const std::vector<std::string> no_gradients_after_the_first = test::gradients_until(1);

}  // namespace

TEST_CASE("WAGMA forms the groups of the published example") {
  // P = 8, S = 4: t = 0 uses bits 0, 1 and t = 1 bits 2, 0 (TPDS 2021, Fig. 3).
  CHECK(groups_of_step(0, 8, 4) == std::set<std::set<NodeId>>{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(groups_of_step(1, 8, 4) == std::set<std::set<NodeId>>{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(groups_of_step(1, 8, 4, false) == groups_of_step(0, 8, 4, false));
}

TEST_CASE("groups of WAGMA mix everybody after log_S P steps") {
  // 64 nodes, S = 8: two steps. Zero gradients after the first step: all models equal the mean after two group
  // averagings without a global step.
  const std::string text = test::quadratic_scenario(
      64, 3, "ring",
      "kind = wagma\nlearning_rate = 0.1\ngroup_size = 8\ntau = 100\nactivation = full");
  const Recorder recorder = test::run(text, no_gradients_after_the_first);
  for (NodeId i = 0; i < 64; ++i) {
    CHECK(test::model(recorder, i, 1) ==
          doctest::Approx(test::mean_model(recorder, 1)).epsilon(1e-6));
  }
}

TEST_CASE("WAGMA over one group of everybody averages models every step") {
  // S = P and nobody late: x <- mean_j (x_j - lr g_j), which is allreduce SGD (all start equal).
  const Recorder group = test::run(test::quadratic_scenario(
      8, 30, "ring",
      "kind = wagma\nlearning_rate = 0.1\ngroup_size = 8\ntau = 7\nactivation = full"));
  const Recorder exact =
      test::run(test::quadratic_scenario(8, 30, "ring", "kind = allreduce\nlearning_rate = 0.1"));
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(test::model(group, 5, k) == doctest::Approx(test::model(exact, 5, k)).epsilon(1e-5));
  }
}

TEST_CASE("WAGMA with tau 1 is local SGD with period 1, bit for bit") {
  const Recorder global = test::run(
      test::quadratic_scenario(8, 30, "ring", "kind = wagma\nlearning_rate = 0.1\ntau = 1"));
  const Recorder local = test::run(
      test::quadratic_scenario(8, 30, "ring", "kind = local_sgd\nlearning_rate = 0.1\nperiod = 1"));
  CHECK(global.models == local.models);
}

TEST_CASE("all models of WAGMA are equal to the bit after each global step") {
  const Recorder recorder = test::run(test::quadratic_scenario(16, 40, "ring", wagma),
                                      {"compute.delay=3 ms", "compute.delay_probability=0.2"});
  CHECK(test::nodes_agree(recorder));  // the last step, 40, is global
}

TEST_CASE("staleness in WAGMA is at most tau - 1") {
  const Recorder recorder =
      test::run(test::quadratic_scenario(16, 60, "ring", wagma),
                {"compute.slow_nodes=1", "compute.slowdown=12", "run.record_every=1"});
  double worst = 0;
  for (std::size_t row = 0; row < recorder.steps.rows("staleness"); ++row) {
    for (std::size_t i = 0; i < 16; ++i) {
      const double staleness = recorder.steps.value("staleness", row, i);
      if (!std::isnan(staleness)) worst = std::max(worst, staleness);
    }
  }
  CHECK(worst == 4);  // the slow node is late for whole periods: the bound is reached, not passed
}

TEST_CASE("nobody waits for a slow node between global steps of WAGMA") {
  // Nodes 1..15 take 1 ms a step, node 0 takes 12: a period of 5 steps ends when node 0 has made its five, so the
  // run takes 12 ms a step, but within a period the others finish four steps in about 4 ms.
  const Recorder recorder =
      test::run(test::quadratic_scenario(16, 10, "ring", wagma),
                {"compute.slow_nodes=1", "compute.slowdown=12", "run.record_every=1"});
  for (std::size_t i = 1; i < 16; ++i) {
    CHECK(recorder.steps.value("time", 3, i) < 0.005);
    CHECK(recorder.steps.value("time", 4, i) > 0.059);
  }
}

TEST_CASE("a late node takes the newest sum and its own model, S + 1 models in all") {
  // f_i = 1/2 (x - i)^2 from 2. Node 0 takes 10 ms a step: node 1 has made its four steps by then, with node 0's first model
  // in every sum; node 0 takes the last of these sums at each of its own.
  double fast = 2;
  double sum = 0;
  for (int t = 0; t < 4; ++t) {
    sum = fast - 0.1 * (fast - 1) + 2;
    fast = sum / 2;
  }
  double slow = 2;
  for (int t = 0; t < 4; ++t) slow = (sum + slow - 0.1 * slow) / 3;
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    2, 4, "ring", "kind = wagma\nlearning_rate = 0.1\ngroup_size = 2\ntau = 100"),
                {"workload.centers=index", "workload.start=2", "compute.slow_nodes=1",
                 "compute.slowdown=10"});
  CHECK(test::model(recorder, 1, 0) == doctest::Approx(fast).epsilon(1e-5));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(slow).epsilon(1e-5));
}

TEST_CASE("after a global step of WAGMA, a late node contributes the model that all have") {
  // As above, with a global step after the first. At the third node 1 takes what node 0 has left of the second: not its own
  // model of before the mean, but that.
  const double sum = 2 - 0.1 * (2 - 1) + 2;
  const double slow = (sum + 0.9 * 2) / 3;
  const double all = (sum / 2 - 0.1 * (sum / 2 - 1) + 0.9 * slow) / 2;
  const double last_sum = all - 0.1 * (all - 1) + all;
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    2, 3, "ring", "kind = wagma\nlearning_rate = 0.1\ngroup_size = 2\ntau = 2"),
                {"workload.centers=index", "workload.start=2", "compute.slow_nodes=1",
                 "compute.slowdown=10"});
  CHECK(test::model(recorder, 1, 0) == doctest::Approx(last_sum / 2).epsilon(1e-6));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx((last_sum + 0.9 * all) / 3).epsilon(1e-6));
}

TEST_CASE(
    "the released rule averages before the step and counts every node's own model once more") {
  // f_i = 1/2 (x - i)^2 from 2, both on time: x_i <- (x_0 + x_1 + x_i) / 3 - lr g_i; at every fourth step the mean.
  // Weight decay is of the model before, too.
  double x[2] = {2, 2};
  for (int t = 0; t < 7; ++t) {
    const double sum = x[0] + x[1];
    for (int i = 0; i < 2; ++i) {
      const double step = 0.1 * (x[i] - i + 0.25 * x[i]);
      x[i] = ((t + 1) % 4 == 0 ? sum / 2 : (sum + x[i]) / 3) - step;
    }
  }
  const Recorder recorder = test::run(
      test::quadratic_scenario(
          2, 7, "ring",
          "kind = wagma\nlearning_rate = 0.1\ngroup_size = 2\ntau = 4\nactivation = full\n"
          "rule = released"),
      {"workload.centers=index", "workload.start=2", "algorithm.weight_decay=0.25"});
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(x[0]).epsilon(1e-5));
  CHECK(test::model(recorder, 1, 0) == doctest::Approx(x[1]).epsilon(1e-5));
}

TEST_CASE("with everybody on time, waiting or not makes no difference to WAGMA") {
  const std::string text = test::quadratic_scenario(16, 20, "ring", wagma);
  CHECK(test::run(text, {"algorithm.activation=full"}).models ==
        test::run(text, {"algorithm.activation=solo"}).models);
}

TEST_CASE("closed-form and expanded group operations give the same models when all wait") {
  const std::string text = test::quadratic_scenario(16, 20, "ring", wagma);
  const std::vector<std::string> random{"algorithm.activation=full", "compute.delay=3 ms",
                                        "compute.delay_probability=0.3"};
  std::vector<std::string> analytic = random;
  analytic.emplace_back("network.collectives=analytic");
  CHECK(test::run(text, random).models == test::run(text, analytic).models);
}

TEST_CASE("WAGMA refuses sizes that are no powers of two") {
  const auto refusal = [](int nodes, const std::string& override) {
    return test::message_of<ScenarioError>([&] {
      test::run(test::quadratic_scenario(nodes, 3, "ring", "kind = wagma\nlearning_rate = 0.1"),
                {override});
    });
  };
  CHECK(refusal(12, "run.seed=1").find("power of two, got 12") != std::string::npos);
  CHECK(refusal(16, "algorithm.group_size=6")
            .find("algorithm.group_size must be a power of two, got 6") != std::string::npos);
  CHECK(refusal(4, "algorithm.group_size=8").find("at most the number of nodes (4), got 8") !=
        std::string::npos);
  CHECK(refusal(4, "algorithm.tau=0").find("algorithm.tau must be at least 1") !=
        std::string::npos);
}

}  // namespace starling::test_wagma
