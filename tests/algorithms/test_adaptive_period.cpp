// Local SGD whose period follows how far models drift apart, beside the published rule.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_adaptive_period {
namespace {

const char* const adaptive = "kind = adaptive_period\nlearning_rate = 0.05";

/// The period after each step, as node i had it.
std::vector<double> periods(const Recorder& recorder, std::size_t i) {
  std::vector<double> all;
  for (std::size_t row = 0; row < recorder.steps.rows("period"); ++row) {
    all.push_back(recorder.steps.value("period", row, i));
  }
  return all;
}

}  // namespace

TEST_CASE("with thresholds that nothing passes the period stays: local SGD, to the bit") {
  const Recorder fixed = test::run(test::quadratic_scenario(6, 40, "ring", adaptive),
                                   {"algorithm.low=0", "algorithm.high=1e30"});
  const Recorder local = test::run(test::quadratic_scenario(
      6, 40, "ring", "kind = local_sgd\nlearning_rate = 0.05\nperiod = 4"));
  CHECK(fixed.models == local.models);
}

TEST_CASE("the period follows the drift of the models, by the published rule") {
  // Two nodes, centers 0 and 1, curvature 1, rate r: p local steps from a common x leave x_i - i =
  // q^p (x - i), so the models are 1 - q^p apart and S = ((1 - q^p) / 2)^2. Sampling 8 steps of p =
  // 4 gives C = S(4) / r. Where the rate falls to a tenth at step 8, S / r^2 is nearly constant, so S / r
  // is a tenth of C, and the period grows until it is not; where the rate is five times as high from then on, it shrinks.
  struct Rates {
    double before, after;
    std::string factor;
  };
  for (const Rates& rates : {Rates{0.1, 0.01, "0.1"}, Rates{0.02, 0.1, "5"}}) {
    const auto rate_at = [&](int k) { return k < 8 ? rates.before : rates.after; };
    std::vector<double> expected;
    double c = 0;
    int samples = 0;
    int p = 4;
    int local = 0;
    for (int k = 0; k < 60; ++k) {
      const double rate = rate_at(k);
      if (++local == p) {
        double moved = 1;
        for (int step = k - p + 1; step <= k; ++step) moved *= 1 - rate_at(step);
        const double s = std::pow((1 - moved) / 2, 2);
        local = 0;
        if (k < 8) {
          c += (s / rate - c) / ++samples;
        } else if (s < 0.7 * rate * c) {
          ++p;
        } else if (s > 1.3 * rate * c) {
          --p;
        }
      }
      expected.push_back(p);
    }
    CHECK((rates.after < rates.before ? expected.back() >= 8 : expected.back() == 2));
    const std::string keys =
        fmt::format("kind = adaptive_period\nlearning_rate = {}", rates.before);
    const Recorder recorder =
        test::run(test::quadratic_scenario(2, 60, "ring", keys),
                  {"workload.centers=index", "workload.dimension=1", "run.record_every=1",
                   "algorithm.sampling_steps=8", "algorithm.schedule=step",
                   "algorithm.decay_steps=8", "algorithm.decay_factor=" + rates.factor});
    CHECK(periods(recorder, 0) == expected);
  }
}

TEST_CASE("before switch_step models are averaged at every step, and their drift is not sampled") {
  // As above, S = ((1 - q^p) / 2)^2. Sampling the averagings of p = 4 alone, after steps 9 and 13, gives C = S(4) / r, and p stays
  // where it is. With the six of p = 1 before them C were a third of that, and p would shrink.
  const std::string text =
      test::quadratic_scenario(2, 40, "ring", "kind = adaptive_period\nlearning_rate = 0.1");
  const std::vector<std::string> settings = {"workload.centers=index", "workload.dimension=1",
                                             "run.record_every=1", "algorithm.switch_step=6",
                                             "algorithm.sampling_steps=14"};
  const Recorder recorder = test::run(text, settings);
  std::vector<double> expected(40, 4);
  std::fill_n(expected.begin(), 5, 1);
  CHECK(periods(recorder, 1) == expected);

  // With a period that stays it is post-local SGD.
  const Recorder local = test::run(
      test::quadratic_scenario(2, 40, "ring", "kind = local_sgd\nlearning_rate = 0.1\nperiod = 4"),
      {"workload.centers=index", "workload.dimension=1", "algorithm.switch_step=6"});
  CHECK(test::largest_difference(recorder, local) < 1e-6);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.switch_step=10"}),
                       doctest::Contains("switch_step must leave steps"), ScenarioError);
}

TEST_CASE("the first averaging after sampling_steps adapts the period") {
  // Averagings of steps 0, 1 and 2 are sampled; that of step 3, and every later one, finds less drift than it may.
  const Recorder recorder =
      test::run(test::quadratic_scenario(3, 10, "ring", adaptive),
                {"run.record_every=1", "algorithm.period=1", "algorithm.sampling_steps=3",
                 "algorithm.low=1e9", "algorithm.high=1e9"});
  CHECK(periods(recorder, 0) == std::vector<double>{1, 1, 1, 2, 2, 3, 3, 3, 4, 4});
}

TEST_CASE("the first averaging is a sample, even if it comes after sampling_steps") {
  // With nothing sampled any drift were too much, and the period would fall to 1.
  const Recorder fixed = test::run(test::quadratic_scenario(6, 40, "ring", adaptive),
                                   {"run.record_every=1", "algorithm.low=0", "algorithm.high=1e30",
                                    "algorithm.sampling_steps=3"});
  for (const double p : periods(fixed, 0)) CHECK(p == 4);
}

TEST_CASE("all nodes choose the same period from noisy gradients, on any number of nodes") {
  for (const int nodes : {5, 8, 11}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(nodes, 120, "ring", adaptive),
                  {"workload.noise=0.5", "run.record_every=1", "compute.distribution=lognormal",
                   "compute.sigma=0.4", "algorithm.low=0.9", "algorithm.high=1.1"});
    const std::vector<double> first = periods(recorder, 0);
    bool changes = false;
    for (const double p : first) changes = changes || p != 4;
    CHECK(changes);
    for (std::size_t i = 1; i < static_cast<std::size_t>(nodes); ++i)
      CHECK(periods(recorder, i) == first);
  }
}

TEST_CASE("the upper threshold may be the lower one, but not below it") {
  const std::string text = test::quadratic_scenario(2, 4, "ring", adaptive);
  CHECK_NOTHROW(test::run(text, {"algorithm.low=1", "algorithm.high=1"}));
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.low=1", "algorithm.high=0.9"}),
                       doctest::Contains("high must be at least low (1), got 0.9"), ScenarioError);
}

TEST_CASE("models that do not drift keep their period") {
  // Equal problems, no noise: S = 0, and 0 < 0.7 * 0 does not hold.
  const Recorder recorder =
      test::run(test::quadratic_scenario(4, 40, "ring", adaptive),
                {"workload.centers=list", "workload.center_values=2", "run.record_every=1"});
  for (const double p : periods(recorder, 3)) CHECK(p == 4);
}

}  // namespace starling::test_adaptive_period
