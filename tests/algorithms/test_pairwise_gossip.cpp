// Pairwise gossip: exchanges by clocks, the sum that they conserve, and how fast they bring models together.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_pairwise_gossip {
namespace {

const std::string gossip = "kind = pairwise_gossip\nlearning_rate = 0.1\n";
// Models i lr after the first step, pure averaging afterwards.
const std::vector<std::string> no_gradients_after_the_first =
    test::gradients_until(1, {"workload.centers=index"});

double variance(const Recorder& recorder) {
  const double mean = test::mean_model(recorder, 0);
  double sum = 0;
  for (std::size_t i = 0; i < recorder.models.size(); ++i) {
    const double away = test::model(recorder, static_cast<NodeId>(i), 0) - mean;
    sum += away * away;
  }
  return sum / static_cast<double>(recorder.models.size());
}

std::int64_t messages(const Recorder& recorder) {
  std::int64_t sum = 0;
  for (const NodeTotals& node : recorder.nodes) sum += node.messages_sent;
  return sum;
}

}  // namespace

TEST_CASE("pairwise gossip conserves the sum of models and never spreads them") {
  // Longer runs continue shorter ones with the same ticks and partners, so their final models are
  // later states of one sequence of averagings.
  double last = 1e9;
  for (const int steps : {2, 4, 8, 16, 32, 64}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(9, steps, "ring", gossip + "interval = 2 ms"),
                  no_gradients_after_the_first);
    CHECK(test::mean_model(recorder, 0) == doctest::Approx(0.4).epsilon(1e-6));
    CHECK(variance(recorder) <= last);
    last = variance(recorder);
  }
  CHECK(last < 1e-3);
}

TEST_CASE("exchanges of pairwise gossip follow clocks, not steps") {
  // 16 nodes with ticks every 2 ms for 400 ms: 3200 exchanges, standard deviation sqrt(3200) = 57,
  // two messages each (a little less: crossing requests count as answers), and two notices for each
  // node but one at the end. Gradients of 1 ms or 8 ms do not matter; AD-PSGD would do an eighth in the second
  // case.
  const std::string text =
      test::quadratic_scenario(16, 400, "complete", gossip + "interval = 2 ms");
  const Recorder fast = test::run(text);
  const Recorder slow = test::run(text, {"run.steps=50", "compute.gradient=8 ms"});
  for (const Recorder* recorder : {&fast, &slow}) {
    CHECK(messages(*recorder) - 2 * 15 < 2 * (3200 + 4 * 57));
    CHECK(messages(*recorder) - 2 * 15 > 2 * (3200 - 4 * 57) * 0.98);
  }
}

TEST_CASE("an exchange on the complete graph shrinks the variance by 1 - 1/(n-1) on average") {
  // lambda_2 of E[W] = I - D/2n + (P + P^T)/2n with P_ij = 1/(n-1), D = 2 I: (1 - 1/n) - 1/(n
  // (n-1)) = 1 - 1/(n-1). As W is a projection, W^T W = W, and this is also the mean factor of the
  // variance. After E exchanges the exponent is E/(n-1) = 64 (30 ms / 10 ms) / 63, about 3. That
  // of one run deviates by 0.11 of it, that of eight together by 0.04; 3 sigma.
  const double start = (64.0 * 64 - 1) / 12 * 0.01;  // variance of 0, 0.1, .., 6.3
  double exponent = 0, exchanges = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    std::vector<std::string> settings = no_gradients_after_the_first;
    settings.push_back("run.seed=" + std::to_string(seed));
    const Recorder recorder = test::run(
        test::quadratic_scenario(64, 31, "complete", gossip + "interval = 10 ms"), settings);
    exponent += std::log(start / variance(recorder));
    exchanges += static_cast<double>(messages(recorder) - 2 * 63) / 2;
  }
  CHECK(exponent == test::relative(exchanges / 63, 0.12));
}

TEST_CASE("exchanges on a star follow their expected matrix, whose nodes are not alike") {
  // All clocks tick once per interval: d/dt E[x] = (P + P^T - D) x / (2 interval). With the center's P_0j = 1/4, a leaf's P_j0 = 1
  // the center's distance from the mean falls by exp(-(1 + 1/4) 5 t / (2 interval)), here in 2 ms of intervals of 10 ms, to 0.535
  // of it; that of one run spreads by as much as it is, that of 1000 by a thirtieth; 3 sigma.
  double distance = 0;
  for (int seed = 1; seed <= 1000; ++seed) {
    std::vector<std::string> settings = no_gradients_after_the_first;
    settings.push_back("run.seed=" + std::to_string(seed));
    const Recorder recorder =
        test::run(test::quadratic_scenario(5, 3, "star", gossip + "interval = 10 ms"), settings);
    distance += (test::mean_model(recorder, 0) - test::model(recorder, 0, 0)) / 1000;
  }
  CHECK(distance == test::relative(0.2 * std::exp(-0.625), 0.1));
}

TEST_CASE("computing never waits in pairwise gossip, and everything ends") {
  for (const std::string topology : {"ring", "star", "exponential", "one_peer_exponential"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 50, topology, gossip),
                  {"network.latency=3 ms", "compute.slow_nodes=1", "compute.slowdown=3"});
    const Table& steps = recorder.steps;
    for (std::size_t i = 1; i < 8; ++i) {
      CHECK(steps.value("time", steps.rows("time") - 1, i) == doctest::Approx(0.05).epsilon(1e-9));
    }
  }
}

TEST_CASE("pairwise gossip refuses a clock that does not tick") {
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(4, 3, "ring", gossip + "interval = 0 ms")),
      doctest::Contains("algorithm.interval must be positive"), ScenarioError);
}

}  // namespace starling::test_pairwise_gossip
