// Epidemic learning: to whom models go, what mixing by them keeps, and rounds that end by agreement or at a deadline.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_epidemic {
namespace {

const std::string epidemic = "kind = epidemic\nlearning_rate = 0.1\nreceivers = ";
// Models lr i after the first step, pure averaging afterwards.
const std::vector<std::string> no_gradients_after_the_first =
    test::gradients_until(1, {"workload.centers=index"});

}  // namespace

TEST_CASE("epidemic learning that sends to everybody averages over everybody") {
  // s = n - 1: x_i <- mean_j (x_j - lr g_j), which is allreduce SGD, as all start equal.
  const Recorder exact =
      test::run(test::quadratic_scenario(6, 40, "ring", "kind = allreduce\nlearning_rate = 0.1"));
  for (const std::string graph : {"local", "oracle"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(6, 40, "ring", epidemic + "5\ngraph = " + graph));
    for (std::size_t k = 0; k < 5; ++k) {
      CHECK(test::model(recorder, 4, k) == doctest::Approx(test::model(exact, 4, k)).epsilon(1e-5));
    }
  }
}

TEST_CASE("a graph by the oracle keeps the mean model, receivers drawn by each node do not") {
  // Regular: columns of the mixing matrix sum to s / (s + 1) + 1 / (s + 1) = 1. Local: in-degrees
  // differ, so only rows do.
  for (const int steps : {1, 3, 10}) {
    const Recorder oracle =
        test::run(test::quadratic_scenario(9, steps, "ring", epidemic + "3\ngraph = oracle"),
                  no_gradients_after_the_first);
    CHECK(test::mean_model(oracle, 0) == doctest::Approx(0.4).epsilon(1e-6));
  }
  const Recorder local = test::run(test::quadratic_scenario(9, 1, "ring", epidemic + "3"),
                                   no_gradients_after_the_first);
  CHECK(std::abs(test::mean_model(local, 0) - 0.4) > 1e-3);
}

TEST_CASE("rows of epidemic mixing sum to one") {
  // All f_i equal: a plain mean of equal models is that model, whoever sent: x_k = 2 (1 - (1 -
  // lr)^k).
  for (const std::string graph : {"local", "oracle"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(7, 20, "ring", epidemic + "2\ngraph = " + graph),
                  {"workload.centers=list", "workload.center_values=2", "workload.curvature_min=1",
                   "workload.curvature_max=1"});
    for (NodeId i = 0; i < 7; ++i) {
      CHECK(test::model(recorder, i, 3) ==
            doctest::Approx(2 * (1 - std::pow(0.9, 20))).epsilon(1e-5));
    }
  }
}

TEST_CASE("every node of epidemic learning sends s models a round, none of them to itself") {
  // 5 floats are 20 bytes; messages to oneself are not counted, so one would be missing here.
  for (const std::string graph : {"local", "oracle"}) {
    const Recorder recorder = test::run(
        test::quadratic_scenario(9, 12, "ring", epidemic + "4\nlocal_steps = 3\ngraph = " + graph));
    for (const NodeTotals& node : recorder.nodes) {
      CHECK(node.messages_sent == 4 * 4);
      CHECK(node.bytes_sent == 4 * 4 * 20);
    }
  }
}

TEST_CASE("notices change the traffic of epidemic learning, not its numbers") {
  const std::string text = test::quadratic_scenario(8, 15, "ring", epidemic + "2");
  const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.5"};
  std::vector<std::string> with_notices = uneven;
  with_notices.emplace_back("algorithm.agreement=notices");
  const Recorder silent = test::run(text, uneven);
  const Recorder telling = test::run(text, with_notices);
  CHECK(silent.models == telling.models);
  CHECK(silent.nodes[3].messages_sent == 15 * 2);
  CHECK(telling.nodes[3].messages_sent == 15 * 7);
  CHECK(telling.nodes[3].bytes_sent == 15 * (2 * 20 + 5 * 16));
}

TEST_CASE("in a graph by the oracle, as in exchanges with neighbors, nodes send to one at a time") {
  // 16 nodes, 3 messages of 10 MB at 1 GB/s each: 30 ms where no port takes two at once, and 1 ms of gradient.
  for (const std::string algorithm :
       {"kind = epidemic\ngraph = oracle\nreceivers = 3", "kind = sgp\npeers = topology"}) {
    CAPTURE(algorithm);
    const Recorder run = test::run(
        test::quadratic_scenario(16, 4, "random_regular\ndegree = 3",
                                 algorithm + "\nlearning_rate = 0.1"),
        {"network.kind=loggp", "network.latency=1 us", "network.overhead=0 s", "network.gap=0 s",
         "network.bandwidth=1 GB/s", "workload.wire_parameters=2500000"});
    const double per_step = to_seconds(run.nodes[0].finished) / 4;
    CHECK(per_step < 0.031 * 1.15);
    CHECK(per_step > 0.031);
  }
}

TEST_CASE("without receivers epidemic learning is n nodes on their own") {
  const Recorder recorder = test::run(test::quadratic_scenario(5, 20, "ring", epidemic + "0"),
                                      {"workload.centers=index"});
  for (NodeId i = 0; i < 5; ++i) {
    CHECK(test::model(recorder, i, 0) ==
          doctest::Approx(i * (1 - std::pow(0.9, 20))).epsilon(1e-5));
  }
}

TEST_CASE("models spread like a rumor: every node's step reaches all in a few rounds") {
  const Recorder recorder = test::run(test::quadratic_scenario(32, 16, "ring", epidemic + "5"),
                                      no_gradients_after_the_first);
  for (NodeId i = 0; i < 32; ++i) {
    CHECK(test::model(recorder, i, 0) ==
          doctest::Approx(test::mean_model(recorder, 0)).epsilon(1e-3));
  }
}

TEST_CASE("epidemic learning refuses more receivers than there are others") {
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(4, 3, "ring", epidemic + "4")),
                       doctest::Contains("must be from 0 to 3, got 4"), ScenarioError);
}

TEST_CASE("a round that ends at a deadline in which all models come is one by agreement") {
  for (const std::string graph : {"local", "oracle"}) {
    const std::string text =
        test::quadratic_scenario(7, 30, "ring", epidemic + "3\ngraph = " + graph);
    const Recorder agreed = test::run(text);
    const Recorder timed =
        test::run(text, {"algorithm.agreement=deadline", "algorithm.timeout=1 ms"});
    for (NodeId i = 0; i < 7; ++i)
      CHECK(test::model(timed, i, 1) == doctest::Approx(test::model(agreed, i, 1)).epsilon(1e-5));
    // The same messages: nobody says that nothing will come.
    CHECK(timed.nodes[2].bytes_sent == agreed.nodes[2].bytes_sent);
    CHECK(timed.nodes[2].messages_sent == agreed.nodes[2].messages_sent);
  }
}

TEST_CASE(
    "models that come after the deadline are dropped, those that come early wait for their round") {
  // Two nodes that send to each other, steps of 1 ms and 2 ms, rounds that end 0.2 ms after the own model was sent.
  // The fast node always ends a round before the slow one gets there: plain gradient descent to its
  // center. The slow one has the fast one's model of its round already: the mean of both.
  const std::string text = test::quadratic_scenario(
      2, 12, "ring", epidemic + "1\nagreement = deadline\ntimeout = 0.2 ms");
  const Recorder recorder =
      test::run(text, {"workload.centers=index", "compute.slow_nodes=1", "compute.slowdown=2"});
  const auto alone = [](int center) { return center * (1 - std::pow(0.9, 12)); };
  int dropped = 0;
  for (NodeId slow = 0; slow < 2; ++slow) {
    const NodeId fast = 1 - slow;
    double x = 0;
    double other = 0;
    for (int k = 0; k < 12; ++k) {
      other -= 0.1 * (other - fast);
      x -= 0.1 * (x - slow);
      x = (x + other) / 2;
    }
    const bool fits = std::abs(test::model(recorder, fast, 0) - alone(fast)) < 1e-5 &&
                      std::abs(test::model(recorder, slow, 0) - x) < 1e-5;
    dropped += fits ? 1 : 0;
  }
  CHECK(dropped == 1);
}

TEST_CASE("without time for a message nobody averages") {
  const Recorder recorder = test::run(
      test::quadratic_scenario(3, 20, "ring", epidemic + "2\nagreement = deadline\ntimeout = 1 ns"),
      {"workload.centers=index"});
  for (NodeId i = 0; i < 3; ++i)
    CHECK(test::model(recorder, i, 0) ==
          doctest::Approx(i * (1 - std::pow(0.9, 20))).epsilon(1e-5));
}

}  // namespace starling::test_epidemic
