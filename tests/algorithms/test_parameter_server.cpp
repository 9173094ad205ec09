// The synchronous parameter server beside allreduce SGD, with backup nodes and several servers.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_parameter_server {

TEST_CASE("a synchronous parameter server is allreduce SGD, however many nodes share its work") {
  const std::string settings = "\nlearning_rate = 0.05\nmomentum = 0.8\nweight_decay = 0.01";
  const Recorder exact =
      test::run(test::quadratic_scenario(6, 40, "ring", "kind = allreduce" + settings));
  for (const std::string servers : {"1", "3", "6"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(6, 40, "ring", "kind = parameter_server" + settings),
                  {"algorithm.servers=" + servers});
    CHECK(test::largest_difference(recorder, exact) < 3e-6);
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE(
    "with backup nodes the server does without the slowest gradients and nobody waits for them") {
  // The slow ones, b = 1 or 2 from node 0 on, take 10 ms, the others 1 ms: their gradients always come too late. So the mean
  // is that of centers b..5, and from 0 with curvature 1: x_50 = (5 + b) / 2 (1 - 0.9^50). A step takes 1 ms and a round
  // trip of 20 us.
  for (const int b : {1, 2}) {
    const Recorder recorder = test::run(
        test::quadratic_scenario(6, 50, "ring", "kind = parameter_server\nlearning_rate = 0.1"),
        {"workload.centers=index", "compute.slow_nodes=" + std::to_string(b), "compute.slowdown=10",
         "algorithm.backup_nodes=" + std::to_string(b)});
    for (NodeId i = 0; i < 6; ++i) {
      CHECK(test::model(recorder, i, 0) ==
            doctest::Approx((5 + b) / 2.0 * (1 - std::pow(0.9, 50))).epsilon(1e-5));
    }
    CHECK(to_seconds(recorder.nodes[3].finished) == doctest::Approx(50 * 1.02e-3).epsilon(1e-6));
    CHECK(to_seconds(recorder.nodes[0].finished) < 0.062);  // at most one gradient after the others
  }
}

TEST_CASE(
    "backup nodes change nothing but the mean if all are equally fast and all problems equal") {
  const std::string text =
      test::quadratic_scenario(5, 30, "ring", "kind = parameter_server\nlearning_rate = 0.1");
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=2"};
  std::vector<std::string> backed = equal;
  backed.emplace_back("algorithm.backup_nodes=2");
  backed.emplace_back("algorithm.servers=3");
  const Recorder recorder = test::run(text, backed);
  CHECK(test::largest_difference(recorder, test::run(text, equal)) < 1e-6);
  for (const NodeTotals& node : recorder.nodes) CHECK(node.steps == 30);
}

TEST_CASE(
    "a parameter server sends n models per step, and as many servers as nodes share that evenly") {
  // 5 parameters of 4 bytes, 5 nodes, 20 steps: every node pushes 20 bytes a step, the server
  // answers with 20 to each; what a node sends to itself does not travel.
  const std::string text =
      test::quadratic_scenario(5, 20, "ring", "kind = parameter_server\nlearning_rate = 0.1");
  const Recorder central = test::run(text);
  CHECK(central.nodes[0].bytes_sent == 20 * 4 * 20);
  CHECK(central.nodes[4].bytes_sent == 20 * 20);
  for (const NodeTotals& node : test::run(text, {"algorithm.servers=5"}).nodes)
    CHECK(node.bytes_sent == 20 * (4 * 4 + 4 * 4));
}

TEST_CASE("several servers refuse to clip the mean gradient: each would cut its piece by itself") {
  const std::string text = test::quadratic_scenario(
      4, 5, "ring", "kind = parameter_server\nlearning_rate = 0.1\nclip_norm = 0.5");
  CHECK_NOTHROW(test::run(text));
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.servers=2"}),
                       doctest::Contains("take servers = 1"), ScenarioError);
}

}  // namespace starling::test_parameter_server
