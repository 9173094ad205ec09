// Asynchronous DiLoCo: the rules of its server beside their recursions, its grace period, and blocks by the nodes' speeds.
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_async_diloco {
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
  CHECK(test::nodes_agree(recorder));
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

TEST_CASE("by speed, a node that is twice as slow takes half the steps and comes as often") {
  // Steps of 1 ms, and of 2 ms on one node: its blocks of 4 become blocks of 2 once it has told. It is in its
  // first block for 8 ms, in all others for 4 ms like everybody.
  const std::vector<std::string> slow{"compute.slow_nodes=1", "compute.slowdown=2"};
  const Recorder fixed = test::run(async_scenario(4, 48, "delayed_nesterov"), slow);
  const Recorder dynamic = test::run(async_scenario(4, 48, "delayed_nesterov"),
                                     with(slow, {"algorithm.local_steps=by_speed"}));
  CHECK(fixed.steps.rows("staleness") > 0);
  std::size_t slow_nodes = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const bool is_slow = dynamic.nodes[i].messages_sent > fixed.nodes[i].messages_sent + 12;
    slow_nodes += is_slow ? 1 : 0;
    // A row per step that ended a block: 12 blocks of 4, or one of 4 and 22 of 2.
    std::size_t blocks = 0;
    for (std::size_t row = 0; row < dynamic.steps.rows("local_steps"); ++row) {
      const double length = dynamic.steps.value("local_steps", row, i);
      if (std::isnan(length)) continue;
      ++blocks;
      CHECK((length == 4 || length == 2));
    }
    CHECK((blocks == 12 || blocks == 23));
    CHECK((blocks == 23) == is_slow);
  }
  CHECK(slow_nodes == 1);
}

TEST_CASE("the server's grace begins with the first arrival and grows by no other") {
  // Steps of 10, 18 and 26 ms, 10 ms of grace. Nodes 0 and 1 come at 10 and 18 ms and are answered at 20; node 2, which comes at 26,
  // waits for others until 36, though node 0 comes at 30 again.
  const Recorder recorder = test::run(
      async_scenario(3, 2, "vanilla"),
      {"algorithm.period=1", "algorithm.grace=10 ms", "network.latency=0 s",
       "compute.gradient=10 ms", "compute.speeds=1, 0.5555555555555556, 0.3846153846153846"});
  CHECK(recorder.steps.value("time", 0, 0) == doctest::Approx(0.020).epsilon(1e-6));
  CHECK(recorder.steps.value("time", 0, 1) == doctest::Approx(0.020).epsilon(1e-6));
  CHECK(recorder.steps.value("time", 0, 2) == doctest::Approx(0.036).epsilon(1e-6));
}

TEST_CASE(
    "blocks of slower nodes have so many whole steps as last no longer than the fastest one's") {
  // Steps of 29 ms and, on node 0, of 98.6 ms: floor(100 * 29 / 98.6) = floor(29.4). With 100 ms floor(100 * 29 / 100) = 29, while
  // 100 * (29 / 100) is 28.999999999999996.
  for (const std::string slowdown : {"3.4", "3.4482758620689655"}) {
    const Recorder recorder = test::run(
        async_scenario(2, 300, "vanilla"),
        {"algorithm.period=100", "algorithm.local_steps=by_speed", "compute.gradient=29 ms",
         "compute.slow_nodes=1", "compute.slowdown=" + slowdown});
    std::size_t blocks = 0;
    for (std::size_t row = 0; row < recorder.steps.rows("local_steps"); ++row) {
      const double length = recorder.steps.value("local_steps", row, 0);
      if (std::isnan(length)) continue;
      ++blocks;
      CHECK(length == 29);
    }
    CHECK(blocks == 1 + 6);  // 100 steps, then 200 of blocks of 29
  }
}

TEST_CASE("nodes of one speed take fixed blocks") {
  for (const std::string rule : {"vanilla", "delayed", "delayed_nesterov"}) {
    const Recorder fixed = test::run(async_scenario(6, 46, rule));
    const Recorder dynamic =
        test::run(async_scenario(6, 46, rule), {"algorithm.local_steps=by_speed"});
    CHECK(fixed.models == dynamic.models);
  }
}

TEST_CASE("a node alone always takes whole periods") {
  // 7 p / p is less than 7 for some paces p.
  const Recorder alone = test::run(async_scenario(1, 7000, "vanilla"),
                                   {"algorithm.period=7", "algorithm.local_steps=by_speed",
                                    "compute.distribution=lognormal", "compute.sigma=0.3"});
  std::size_t blocks = 0;
  for (std::size_t row = 0; row < alone.steps.rows("local_steps"); ++row) {
    const double length = alone.steps.value("local_steps", row, 0);
    if (std::isnan(length)) continue;
    ++blocks;
    CHECK(length == 7);
  }
  CHECK(blocks > 100);
}

TEST_CASE("a pace counts until its node tells another one") {
  // Steps of both nodes take 10 ms in the first block, then 20 ms. Node 0, which has no way to the server, always comes first:
  // after 40 ms it is the fastest, after 80 more node 1's 10 ms still count, so that its block is half as long; when that ends,
  // node 1 has told 20 ms, too.
  std::string durations;
  for (int k = 0; k < 22; ++k) durations += k < 4 ? "0.01,0.01\n" : "0.02,0.02\n";
  const test::TemporaryFile file("node 0,node 1\n" + durations);
  const Recorder recorder =
      test::run(async_scenario(2, 22, "vanilla"),
                {"algorithm.local_steps=by_speed", "compute.gradient=0 s",
                 "compute.distribution=trace", "compute.trace=" + file.path()});
  std::vector<double> lengths;
  for (std::size_t row = 0; row < recorder.steps.rows("local_steps"); ++row) {
    const double length = recorder.steps.value("local_steps", row, 0);
    if (!std::isnan(length)) lengths.push_back(length);
  }
  CHECK(lengths == std::vector<double>{4, 2, 4, 4, 4, 4});
}

TEST_CASE("blocks that last equally long leave less stale progress") {
  const std::vector<std::string> slow{"compute.slow_nodes=2", "compute.slowdown=4",
                                      "algorithm.outer_learning_rate=0.05"};
  const auto mean_staleness = [&](const std::string& local_steps) {
    const Recorder recorder = test::run(async_scenario(6, 96, "vanilla"),
                                        with(slow, {"algorithm.local_steps=" + local_steps}));
    double sum = 0;
    double count = 0;
    for (std::size_t row = 0; row < recorder.steps.rows("staleness"); ++row) {
      for (std::size_t i = 0; i < 6; ++i) {
        const double staleness = recorder.steps.value("staleness", row, i);
        if (std::isnan(staleness)) continue;
        sum += staleness * staleness;
        ++count;
      }
    }
    return sum / count;
  };
  CHECK(mean_staleness("by_speed") < 0.8 * mean_staleness("fixed"));
}

TEST_CASE("progress that is s outer steps late counts 1 / sqrt(1 + s) of its weight, if damped") {
  // f_i = 1/2 (x - i)^2 from 2, blocks of one step of rate 0.05, weight 0.8, eta = 0.5, no momentum. Node 0 takes 10 ms a step,
  // so its first block comes after all three of node 1.
  for (const bool is_damped : {false, true}) {
    double theta = 2;
    const auto apply = [&theta](double progress, double share) {
      theta -= 0.5 * 0.8 * share * progress;
    };
    for (int block = 0; block < 3; ++block) apply(0.05 * (theta - 1), 1);
    apply(0.05 * 2, is_damped ? 0.5 : 1);
    for (int block = 0; block < 2; ++block) apply(0.05 * theta, 1);
    const Recorder recorder =
        test::run(async_scenario(2, 3, "vanilla"),
                  {"workload.centers=index", "workload.start=2", "compute.slow_nodes=1",
                   "compute.slowdown=10", "algorithm.period=1", "algorithm.weight=0.8",
                   "algorithm.outer_momentum=0", "algorithm.outer_learning_rate=0.5",
                   std::string("algorithm.stale_progress=") + (is_damped ? "damped" : "full")});
    CHECK(test::model(recorder, 0, 0) == doctest::Approx(theta).epsilon(1e-6));
  }
}

}  // namespace starling::test_async_diloco
