// SwarmSGD, blocking and not, one-sided and quantized: what exchanges conserve, who waits, and phases of any length.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_swarm {
namespace {

const std::string swarm = "kind = swarm\nlearning_rate = 0.1\n";
const std::vector<std::string> uneven_times{"compute.distribution=lognormal", "compute.sigma=0.5",
                                            "workload.centers=index"};

/// With gradients only in the first `steps` steps.
std::vector<std::string> gradients_until(int steps) {
  return test::gradients_until(steps, uneven_times);
}

double spread(const Recorder& recorder) {
  double worst = 0;
  for (std::size_t i = 0; i < recorder.models.size(); ++i) {
    worst = std::max(worst, std::abs(test::model(recorder, static_cast<NodeId>(i), 0) -
                                     test::mean_model(recorder, 0)));
  }
  return worst;
}

}  // namespace

TEST_CASE("blocking SwarmSGD conserves the sum of models") {
  // f_i = 1/2 (x - i)^2: averaging in pairs leaves the mean alone, a step moves it by -lr (mean -
  // mean(i)), whatever the number of local steps: mean = 3 (1 - 0.9^k) after k steps of everybody.
  for (const std::string steps : {"1", "4", "7"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(7, 30, "ring",
                                           swarm + "averaging = blocking\nlocal_steps = " + steps),
                  uneven_times);
    CHECK(test::mean_model(recorder, 0) ==
          doctest::Approx(3 * (1 - std::pow(0.9, 30))).epsilon(1e-5));
  }
}

TEST_CASE("the copies of non-blocking SwarmSGD move in sum by the applied local steps alone") {
  // One phase of 5 steps with gradients, from 0: u_i = i (1 - 0.9^5), whatever is exchanged
  // meanwhile. Then u = 0, and the mean copy stays at 4 (1 - 0.9^5), while 12 exchanges per node
  // bring them together.
  const Recorder recorder = test::run(
      test::quadratic_scenario(9, 65, "complete", swarm + "local_steps = 5"), gradients_until(5));
  const double mean = 4 * (1 - std::pow(0.9, 5));
  CHECK(test::mean_model(recorder, 0) == doctest::Approx(mean).epsilon(1e-6));
  CHECK(spread(recorder) < 0.01 * mean);
}

TEST_CASE("a round of blocking SwarmSGD averages disjoint pairs") {
  // H = 1: after one step x_i = lr i. A perfect matching of 8 nodes makes four pairs of equal
  // models, with the mean of two different multiples of 0.1; the same pairs again would change
  // nothing, so later rounds must draw others.
  const std::string text =
      test::quadratic_scenario(8, 1, "complete", swarm + "averaging = blocking\nlocal_steps = 1");
  const Recorder recorder = test::run(text, gradients_until(1));
  std::vector<double> models;
  for (NodeId i = 0; i < 8; ++i) models.push_back(test::model(recorder, i, 0));
  double sum = 0;
  for (const double x : models) {
    CHECK(std::count(models.begin(), models.end(), x) >= 2);
    sum += x;
  }
  CHECK(sum == doctest::Approx(2.8).epsilon(1e-6));
  CHECK(spread(recorder) > 0);

  std::vector<std::string> longer = gradients_until(1);
  longer.emplace_back("run.steps=40");
  CHECK(spread(test::run(text, longer)) < 1e-3);
}

TEST_CASE("matchings keep to the edges of the topology") {
  // Star: in one round the center meets one leaf, the others keep their models lr i; pairs 0 and j
  // get lr j / 2.
  const Recorder recorder = test::run(
      test::quadratic_scenario(6, 1, "star", swarm + "averaging = blocking\nlocal_steps = 1"),
      gradients_until(1));
  int changed = 0;
  for (NodeId i = 1; i < 6; ++i) {
    if (test::model(recorder, i, 0) == doctest::Approx(0.1 * i).epsilon(1e-6)) continue;
    ++changed;
    CHECK(test::model(recorder, i, 0) == doctest::Approx(0.05 * i).epsilon(1e-6));
    CHECK(recorder.models[0] == recorder.models[static_cast<std::size_t>(i)]);
  }
  CHECK(changed == 1);
}

TEST_CASE("two nodes of SwarmSGD that end with an exchange end equal") {
  const Recorder blocking = test::run(
      test::quadratic_scenario(2, 12, "complete", swarm + "averaging = blocking\nlocal_steps = 4"),
      uneven_times);
  CHECK(test::nodes_agree(blocking));
}

TEST_CASE("non-blocking SwarmSGD waits for round trips alone, blocking SwarmSGD for slow nodes") {
  const std::vector<std::string> one_slow{"compute.slow_nodes=1", "compute.slowdown=10"};
  const std::string text = test::quadratic_scenario(8, 48, "complete", swarm + "local_steps = 4");
  const Recorder free = test::run(text, one_slow);
  std::vector<std::string> settings = one_slow;
  settings.emplace_back("algorithm.averaging=blocking");
  const Recorder waiting = test::run(text, settings);
  // 12 exchanges with two latencies of 10 us each beside 48 ms of computing. Blocking, whoever
  // meets node 0 in a round waits until its phases of 40 ms are over.
  const Table& steps = free.steps;
  for (std::size_t i = 1; i < 8; ++i) {
    const double end = steps.value("time", steps.rows("time") - 1, i);
    CHECK(end > 0.048 + 1e-6);
    CHECK(end < 0.048 + 12 * 20e-6 + 1e-9);
    CHECK(to_seconds(waiting.nodes[i].finished) > 0.2);
  }
}

TEST_CASE("in one-sided SwarmSGD who reads a model averages, who is read does not") {
  // Two nodes, H = 1. Node 1 has x = 0.1 after its first step and reads 0 five times before node 0, ten times slower, ends a
  // step: 0.1 / 32. What it published last, p, is the model before the last average. Node 0 reads p five times.
  const Recorder recorder = test::run(
      test::quadratic_scenario(2, 5, "complete", swarm + "averaging = one_sided\nlocal_steps = 1"),
      test::gradients_until(
          1, {"workload.centers=index", "compute.slow_nodes=1", "compute.slowdown=10"}));
  const double p = 0.1 / 16;
  CHECK(test::model(recorder, 1, 0) == doctest::Approx(p / 2).epsilon(1e-6));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(p * (1 - 1.0 / 32)).epsilon(1e-6));
  // Requests say nothing: five of them, five models of 20 bytes, a notice at the end.
  for (const NodeTotals& node : recorder.nodes)
    CHECK(node.bytes_sent == 5 * 20 + (5 + 1) * control_bytes);
}

TEST_CASE("nodes of SwarmSGD may be alone at first") {
  for (const std::string averaging : {"non_blocking", "blocking", "one_sided"}) {
    CAPTURE(averaging);
    const auto run = [&](int steps, int alone) {
      return test::run(
          test::quadratic_scenario(8, steps, "complete",
                                   swarm + "local_steps = 2\naveraging = " + averaging),
          {"workload.centers=index", fmt::format("algorithm.alone_steps={}", alone)});
    };
    // x - i shrinks by 0.9 per step from -i. Six steps are three phases, or one after four alone, or none.
    const Recorder alone = run(6, 5);
    for (NodeId i = 0; i < 8; ++i)
      CHECK(test::model(alone, i, 0) == doctest::Approx(i * (1 - std::pow(0.9, 6))).epsilon(1e-5));
    const auto messages = [](const Recorder& recorder) {
      std::int64_t sum = 0;
      for (const NodeTotals& node : recorder.nodes) sum += node.messages_sent;
      return sum;
    };
    const std::int64_t once = messages(run(6, 4)) - messages(alone);
    CHECK(once >= 8);  // requests that cross are one exchange
    CHECK(once <= 16);
    CHECK(messages(run(6, 0)) - messages(alone) > once);
  }
}

TEST_CASE("geometric phases have the mean they are given") {
  // A node starts one exchange per phase: requests and replies make two messages per phase, one if
  // requests cross. 16 nodes x 400 steps with mean length 5 are 1280 phases; their number has
  // standard deviation sqrt(6400 (1/5) (4/5)) = 32.
  const Recorder recorder = test::run(
      test::quadratic_scenario(16, 400, "complete", swarm + "local_steps = 5\nphase = geometric"),
      uneven_times);
  std::int64_t messages = -2 * 15;  // of the end, along a tree
  for (const NodeTotals& node : recorder.nodes) messages += node.messages_sent;
  CHECK(messages > 2 * (1280 - 4 * 32) * 0.98);
  CHECK(messages < 2 * (1280 + 4 * 32));
}

TEST_CASE("phases of SwarmSGD that are longer than the run never end, however long") {
  // Blocking nodes never average; others once, at the end, if their first phase ends there: of no length beyond the run.
  for (const std::string phase : {"fixed", "geometric"}) {
    for (const std::string exchange : {"blocking", "non_blocking"}) {
      CAPTURE(phase);
      CAPTURE(exchange);
      const auto run = [&](const std::string& steps) {
        return test::run(test::quadratic_scenario(4, 20, "ring",
                                                  swarm + "phase = " + phase + "\naveraging = " +
                                                      exchange + "\nlocal_steps = " + steps),
                         uneven_times);
      };
      const Recorder recorder = run("9223372036854775807");
      CHECK(recorder.models == run("1000000000000").models);
      CHECK_FALSE(test::nodes_agree(recorder));
    }
  }
}

TEST_CASE("SwarmSGD ends cleanly on every topology with phases of any length") {
  for (const std::string topology :
       {"ring", "star", "hypercube", "exponential", "one_peer_exponential"}) {
    for (const std::string exchange : {"blocking", "non_blocking"}) {
      const Recorder recorder =
          test::run(test::quadratic_scenario(
                        8, 23, topology,
                        swarm + "local_steps = 4\nphase = geometric\naveraging = " + exchange),
                    {"network.latency=3 ms"});
      for (const NodeTotals& node : recorder.nodes) CHECK(node.steps == 23);
    }
  }
}

namespace {

const std::string lattice = "compression = lattice\ncell = ";

}  // namespace

TEST_CASE("quantized SwarmSGD with cells near zero is SwarmSGD") {
  // Cells of 1e-6, 24 bits: right within 8.4, and an exchange is wrong by half a cell. Five steps of rate 0.1 per exchange
  // shrink errors by 0.6, 12 exchanges add up to 2.5 half cells; beside it, the roundings of another order of sums.
  for (const std::string exchange : {"blocking", "non_blocking"}) {
    CAPTURE(exchange);
    const std::string text = test::quadratic_scenario(
        9, 60, "complete", swarm + "local_steps = 5\naveraging = " + exchange);
    std::vector<std::string> fine = uneven_times;
    for (const std::string setting : {"compression=lattice", "cell=1e-6", "bits=24"})
      fine.push_back("algorithm." + setting);
    const Recorder plain = test::run(text, uneven_times);
    const Recorder coded = test::run(text, fine);
    CHECK(test::largest_difference(plain, coded) < 1e-5);
    CHECK(test::largest_difference(plain, coded) > 0);
    CHECK(spread(plain) > 0.01);
  }
}

TEST_CASE(
    "quantized SwarmSGD brings nodes to their mean, and leaves them apart where codes wrap "
    "around") {
  // As above: copies begin at 0.41 i and their mean ends at 4 (1 - 0.9^5) = 1.64. Rounding has a standard deviation of
  // 0.02 / sqrt 12; of the mean of 9 nodes after 216 roundings 0.0095: 5 sigma. 10 bits reach 10.2 from the reference. 4 bits
  // reach 0.15: a partner is always read as near, wherever it is, so nodes 0 and 8 stay 3.3 apart, or nearly so.
  const double mean = 4 * (1 - std::pow(0.9, 5));
  const auto run = [&](const std::string& exchange, const std::string& bits) {
    std::vector<std::string> settings = gradients_until(5);
    for (const std::string& setting : {std::string("compression=lattice"), std::string("cell=0.02"),
                                       "bits=" + bits, "averaging=" + exchange})
      settings.push_back("algorithm." + setting);
    return test::run(test::quadratic_scenario(9, 65, "complete", swarm + "local_steps = 5"),
                     settings);
  };
  for (const std::string exchange : {"blocking", "non_blocking"}) {
    CAPTURE(exchange);
    const Recorder right = run(exchange, "10");
    CHECK(std::abs(test::mean_model(right, 0) - mean) < 0.05);
    CHECK(spread(right) < 0.1);
    CHECK(spread(run(exchange, "4")) > 1);
  }
}

TEST_CASE("two nodes of quantized SwarmSGD average what the codes say, so they end equal") {
  const std::string text = test::quadratic_scenario(
      2, 12, "complete", swarm + "averaging = blocking\nlocal_steps = 4\n" + lattice + "0.05");
  const Recorder recorder = test::run(text, uneven_times);
  CHECK(test::nodes_agree(recorder));
}

TEST_CASE("codes of quantized SwarmSGD that look like NaNs are read right") {
  // In cells of 1e-3, entries from -0.065 to -0.128 have the 16 bits 0xffbf to 0xff80. Two of them in a word are a signalling
  // NaN, which any arithmetic turns into a quiet one: another 64 cells. Models pass there on their way from 0.
  const std::string text = test::quadratic_scenario(4, 24, "complete", swarm + "local_steps = 2");
  std::vector<std::string> settings = uneven_times;
  settings.back() = "workload.centers=list";
  settings.emplace_back("workload.center_values=-0.1, -0.2, -0.15, -0.05");
  const Recorder plain = test::run(text, settings);
  for (const std::string setting : {"compression=lattice", "cell=1e-3", "bits=16"})
    settings.push_back("algorithm." + setting);
  CHECK(test::largest_difference(plain, test::run(text, settings)) < 5e-3);
}

TEST_CASE("non-blocking quantized SwarmSGD sends two codes each way, blocking one") {
  // 8 bits for each of 5 entries. Without a third node requests and replies alone: 12 phases, then 1 notice of 16 bytes.
  const std::string text =
      test::quadratic_scenario(2, 48, "complete", swarm + "local_steps = 4\n" + lattice + "0.05");
  const Recorder free = test::run(text, uneven_times);
  for (const NodeTotals& node : free.nodes)
    CHECK(node.bytes_sent == (node.messages_sent - 1) * 10 + 16);
  std::vector<std::string> blocking = uneven_times;
  blocking.emplace_back("algorithm.averaging=blocking");
  const Recorder waiting = test::run(text, blocking);
  for (const NodeTotals& node : waiting.nodes) CHECK(node.bytes_sent == 12 * 5);
}

TEST_CASE("SwarmSGD with half precision keeps the sum of models") {
  // Half the difference of what the codes say, on both sides.
  for (const std::string exchange : {"blocking", "non_blocking"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(
                      9, 65, "complete",
                      swarm + "local_steps = 5\ncompression = half\naveraging = " + exchange),
                  gradients_until(5));
    CHECK(test::mean_model(recorder, 0) ==
          doctest::Approx(4 * (1 - std::pow(0.9, 5))).epsilon(1e-6));
  }
}

}  // namespace starling::test_swarm
