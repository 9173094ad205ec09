// What late nodes cost, beside formulas: the delays of WAGMA-SGD's experiments (Li et al., IEEE TPDS 2021, Fig. 4) on a network that
// takes no time. A gradient takes 0.615 s, and 0.32 s more if its node is late, which each is at each step with probability
// p = 1 - (1 - 1/P)^2, for itself. The paper's measurements lie beside the same formulas, but for what communication adds.

#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/support/small_run.hpp"

namespace starling::test_stragglers {
namespace {

constexpr double gradient = 0.615;
constexpr double delay = 0.32;
constexpr int tau = 10;

double probability(int nodes) { return 1 - std::pow(1 - 1.0 / nodes, 2); }

/// Mean over nodes of the seconds that a step took.
double seconds_per_step(int nodes, int steps, const std::string& algorithm) {
  const Recorder recorder = test::run(fmt::format(
      "[run]\nnodes = {}\nsteps = {}\n[topology]\nkind = ring\n[network]\nkind = constant\n"
      "latency = 0 s\n[compute]\ngradient = 615 ms\ndelay = 320 ms\ndelay_probability = {}\n"
      "[workload]\nkind = timing\nbytes = 4 B\n[algorithm]\nlearning_rate = 0.1\n{}\n",
      nodes, steps, probability(nodes), algorithm));
  double sum = 0;
  for (const NodeTotals& node : recorder.nodes) sum += to_seconds(node.finished);
  return sum / nodes / steps;
}

/// Of the most of `nodes` counts, each binomial of `tau` draws: sum over m of P(some count exceeds m).
double mean_of_largest_count(int nodes) {
  const double p = probability(nodes);
  double term = std::pow(1 - p, tau);  // P(count = m)
  double below = 0;                    // P(count <= m)
  double mean = 0;
  for (int m = 0; m < tau; ++m) {
    below += term;
    term *= p / (1 - p) * (tau - m) / (m + 1);
    mean += 1 - std::pow(below, nodes);
  }
  return mean;
}

}  // namespace

TEST_CASE("late nodes cost what closed forms say where the network takes no time") {
  for (const int nodes : {4, 16, 64, 256}) {
    CAPTURE(nodes);
    // Within 1 %: of so many steps the means have standard errors of 0.4 % at most.
    const int steps = nodes <= 16 ? 2000 : 1000;
    // Who waits for all at every step waits for a late node unless none of P is late.
    const double all = gradient + delay * (1 - std::pow(1 - probability(nodes), nodes));
    CHECK(seconds_per_step(nodes, steps, "kind = local_sgd\nperiod = 1") ==
          doctest::Approx(all).epsilon(0.01));
    // Who waits for nobody has its own delays.
    CHECK(seconds_per_step(nodes, steps, "kind = adpsgd") ==
          doctest::Approx(gradient + delay * probability(nodes)).epsilon(0.01));
    // Who waits for all at every tau-th step takes as long as the node that was late most often since.
    const int group = 1 << (static_cast<int>(std::log2(nodes)) / 2);
    CHECK(seconds_per_step(nodes, steps,
                           fmt::format("kind = wagma\ngroup_size = {}\ntau = {}", group, tau)) ==
          doctest::Approx(gradient + delay * mean_of_largest_count(nodes) / tau).epsilon(0.01));
  }
}

TEST_CASE("the closed forms of late nodes are the paper's, within what communication adds") {
  // Seconds per step of WAGMA-SGD measured on 4 and 16 nodes, where communication is hidden: 4 * 128 / 642 and 16 * 128 / 2835.
  CHECK(gradient + delay * mean_of_largest_count(4) / tau ==
        doctest::Approx(4 * 128 / 642.0).epsilon(0.05));
  CHECK(gradient + delay * mean_of_largest_count(16) / tau ==
        doctest::Approx(16 * 128 / 2835.0).epsilon(0.05));
}

}  // namespace starling::test_stragglers
