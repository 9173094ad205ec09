// The shared update rule: its numbers against PyTorch's, its moments under every policy, its keys.

#include <algorithm>
#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_optimizer {
namespace {

/// Settings of the [algorithm] section, and where 12 steps from 0 on f = 1/2 |x - 1|^2 in five dimensions end.
struct Reference {
  std::vector<std::string> settings;
  double end;
};

const std::vector<std::string> one_center{"workload.centers=list", "workload.center_values=1"};

std::vector<std::string> in_algorithm(std::vector<std::string> settings) {
  for (std::string& setting : settings) setting.insert(0, "algorithm.");
  settings.insert(settings.end(), one_center.begin(), one_center.end());
  return settings;
}

double sum_squares(const Recorder& recorder) {
  double sum = 0;
  for (std::size_t k = 0; k < 5; ++k) sum += std::pow(test::model(recorder, 0, k), 2);
  return sum;
}

/// Local Adam (rate 0.1, PyTorch's defaults) on f_i = 1/2 (x - i)^2, i = 0, 1, models averaged every second step.
double local_adam(int steps, const std::string& policy) {
  double x[2] = {0, 0}, m[2] = {0, 0}, s[2] = {0, 0};
  int t = 0;
  for (int k = 0; k < steps; ++k) {
    ++t;
    for (int i = 0; i < 2; ++i) {
      const double g = x[i] - i;
      m[i] = 0.9 * m[i] + 0.1 * g;
      s[i] = 0.999 * s[i] + 0.001 * g * g;
      x[i] -=
          0.1 * m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(s[i] / (1 - std::pow(0.999, t))) + 1e-8);
    }
    if ((k + 1) % 2 != 0) continue;
    x[0] = x[1] = (x[0] + x[1]) / 2;
    if (policy == "average") {
      m[0] = m[1] = (m[0] + m[1]) / 2;
      s[0] = s[1] = (s[0] + s[1]) / 2;
    } else if (policy == "reset") {
      t = 0;
      m[0] = m[1] = s[0] = s[1] = 0;
    }
  }
  return x[0];
}

}  // namespace

TEST_CASE("every rule gives PyTorch's numbers") {
  // `end` is what torch.optim 1.13 (Adagrad, Adam, AdamW, SGD; clip_grad_norm_ before the step) gives in float64.
  const Reference references[] = {
      {{"optimizer=adagrad", "learning_rate=0.1"}, 0.4901083790573325},
      {{"optimizer=adagrad", "learning_rate=0.1", "weight_decay=0.25"}, 0.46936236998709613},
      {{"optimizer=adam", "learning_rate=0.1"}, 1.0589378852550004},
      {{"optimizer=adam", "learning_rate=0.1", "weight_decay=0.25"}, 0.9821958492816536},
      {{"optimizer=adam", "learning_rate=0.1", "beta1=0.5", "beta2=0.9", "epsilon=0.01"},
       0.8925703433172919},
      {{"optimizer=adamw", "learning_rate=0.1", "weight_decay=0.25"}, 0.9356999683974068},
      {{"optimizer=adamw", "learning_rate=0.1", "weight_decay=0.25", "beta1=0.8", "beta2=0.9",
        "epsilon=0.1", "clip_norm=1"},
       0.8364343243295222},
      {{"optimizer=sgd", "learning_rate=0.3", "momentum=0.5", "nesterov=yes", "weight_decay=0.1",
        "clip_norm=0.5"},
       0.920688214456461},
  };
  for (const Reference& reference : references) {
    CAPTURE(reference.settings[0]);
    CAPTURE(reference.settings.size());
    const Recorder recorder = test::run(test::quadratic_scenario(1, 12, "ring", "kind = allreduce"),
                                        in_algorithm(reference.settings));
    CHECK(test::model(recorder, 0, 0) == doctest::Approx(reference.end).epsilon(3e-6));
    CHECK(test::model(recorder, 0, 4) == test::model(recorder, 0, 0));
  }
}

TEST_CASE("a clipped first step is as long as the limit allows") {
  // |g| = sqrt(5) at the start, cut to 0.01: the step is 0.1 * 0.01 long. A limit above |g| changes nothing.
  const std::string text =
      test::quadratic_scenario(1, 1, "ring", "kind = allreduce\nlearning_rate = 0.1");
  const Recorder cut = test::run(text, in_algorithm({"clip_norm=0.01"}));
  CHECK(std::sqrt(sum_squares(cut)) == doctest::Approx(0.001).epsilon(1e-6));
  CHECK(test::run(text, in_algorithm({"clip_norm=3"})).models ==
        test::run(text, in_algorithm({})).models);
}

TEST_CASE("warm-up and decay set the pace of Adam, not of its moments") {
  // The recursion of optimizer.hpp in double; the rate rises over 4 steps and falls to a tenth at step 8.
  double x = 0, m = 0, s = 0;
  for (int k = 0; k < 12; ++k) {
    const double rate = 0.1 * (k < 4 ? (k + 1) / 4.0 : k < 8 ? 1.0 : 0.1);
    m = 0.9 * m + 0.1 * (x - 1);
    s = 0.999 * s + 0.001 * (x - 1) * (x - 1);
    x -= rate * m / (1 - std::pow(0.9, k + 1)) /
         (std::sqrt(s / (1 - std::pow(0.999, k + 1))) + 1e-8);
  }
  const Recorder recorder = test::run(
      test::quadratic_scenario(1, 12, "ring", "kind = allreduce\nlearning_rate = 0.1"),
      in_algorithm({"optimizer=adam", "warmup_steps=4", "schedule=step", "decay_steps=8"}));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(x).epsilon(3e-6));
}

TEST_CASE("a cosine begins where the warm-up ends, and there fall rates that fell within it") {
  // f = 1/2 (x - 1)^2: x - 1 shrinks by 1 - rate. Rates of 0.1 (k + 1) / 4, then half a turn over the other 8 of 12 steps; or
  // a tenth.
  double by_cosine = -1;
  double by_step = -1;
  for (int k = 0; k < 12; ++k) {
    const double rise = 0.1 * (k + 1) / 4;
    by_cosine *= 1 - (k < 4 ? rise : 0.05 * (1 + std::cos(std::numbers::pi * (k - 4) / 8)));
    by_step *= 1 - (k < 4 ? rise : 0.01);
  }
  const auto end = [](std::vector<std::string> settings) {
    settings.emplace_back("warmup_steps=4");
    return test::model(
        test::run(test::quadratic_scenario(1, 12, "ring", "kind = allreduce\nlearning_rate = 0.1"),
                  in_algorithm(settings)),
        0, 0);
  };
  CHECK(end({"schedule=cosine"}) == doctest::Approx(1 + by_cosine).epsilon(1e-6));
  CHECK(end({"schedule=step", "decay_steps=2"}) == doctest::Approx(1 + by_step).epsilon(1e-6));
}

TEST_CASE(
    "inverse schedules fall as 1 / k, or as its root, which after a warm-up is the Transformer's") {
  // f = 1/2 (x - 1)^2: x - 1 shrinks by 1 - rate, s = 1, 2, .. counts steps. a = 5 without warm-up; a = 4 = warmup_steps, where
  // the rate is 0.2 min(s / 4, sqrt(4 / s)), as in "Attention Is All You Need" with 0.2 = d^-0.5 4^-0.5.
  double inverse = -1;
  double root = -1;
  double transformer = -1;
  for (int s = 1; s <= 12; ++s) {
    inverse *= 1 - 0.2 * 5 / (5 + s - 1);
    root *= 1 - 0.2 * std::sqrt(5.0 / (5 + s - 1));
    transformer *= 1 - 0.2 * std::min(s / 4.0, std::sqrt(4.0 / s));
  }
  const auto end = [](const std::vector<std::string>& settings) {
    return test::model(
        test::run(test::quadratic_scenario(1, 12, "ring", "kind = allreduce\nlearning_rate = 0.2"),
                  in_algorithm(settings)),
        0, 0);
  };
  CHECK(end({"schedule=inverse", "decay_offset=5"}) == doctest::Approx(1 + inverse).epsilon(1e-6));
  CHECK(end({"schedule=inverse_root", "decay_offset=5"}) ==
        doctest::Approx(1 + root).epsilon(1e-6));
  CHECK(end({"schedule=inverse_root", "decay_offset=4", "warmup_steps=4"}) ==
        doctest::Approx(1 + transformer).epsilon(1e-6));
}

TEST_CASE("a cyclic schedule falls by equal amounts to its floor, again and again") {
  // Rates 0.2 (1 - 0.8 s / 4), s = 1 .. 4, after two steps of warm-up with 0.1 and 0.2.
  double x = -1 * (1 - 0.1) * (1 - 0.2);
  for (int s = 0; s < 10; ++s) x *= 1 - 0.2 * (1 - 0.8 * (s % 4 + 1) / 4);
  const Recorder recorder = test::run(
      test::quadratic_scenario(1, 12, "ring", "kind = allreduce\nlearning_rate = 0.2"),
      in_algorithm({"schedule=cyclic", "cycle_steps=4", "cycle_floor=0.2", "warmup_steps=2"}));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(1 + x).epsilon(1e-6));
}

TEST_CASE("a warm-up rises by equal amounts from the share that it is told") {
  // Rates 0.2 (1/4 + 3/4 s / 4) in steps s = 1 .. 4, then 0.2.
  double x = -1;
  for (int s = 1; s <= 6; ++s) x *= 1 - 0.2 * (0.25 + 0.75 * std::min(s / 4.0, 1.0));
  const Recorder recorder =
      test::run(test::quadratic_scenario(1, 6, "ring", "kind = allreduce\nlearning_rate = 0.2"),
                in_algorithm({"warmup_steps=4", "warmup_from=0.25"}));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(1 + x).epsilon(1e-6));
}

TEST_CASE("policies keep, average or forget both moments of Adam, bias correction included") {
  for (const std::string policy : {"keep", "average", "reset"}) {
    CAPTURE(policy);
    const std::string text = test::quadratic_scenario(
        2, 10, "ring",
        "kind = local_sgd\nperiod = 2\noptimizer = adam\nlearning_rate = 0.1\nmomentum_policy = " +
            policy);
    const Recorder recorder = test::run(text, {"workload.centers=index"});
    CHECK(test::model(recorder, 0, 0) == doctest::Approx(local_adam(10, policy)).epsilon(1e-5));
    const Recorder analytic =
        test::run(text, {"workload.centers=index", "network.collectives=analytic"});
    CHECK(recorder.models == analytic.models);
  }
  // 4 floats or fewer tell little: the three ends differ by far more than the tolerance above.
  CHECK(std::abs(local_adam(10, "keep") - local_adam(10, "average")) > 1e-3);
  CHECK(std::abs(local_adam(10, "keep") - local_adam(10, "reset")) > 1e-3);
}

TEST_CASE("averaged moments travel in one message, as long as both") {
  // Recursive doubling between two nodes sends the whole vector once: per averaging 5 floats of the model, and 10 of
  // Adam's moments, 5 of a velocity or of Adagrad's sums. Five averagings.
  const std::string text = test::quadratic_scenario(
      2, 10, "ring",
      "kind = local_sgd\nperiod = 2\nlearning_rate = 0.1\nmomentum_policy = average\n"
      "collective = recursive_doubling");
  const auto bytes = [&text](const std::string& setting) {
    return test::run(text, {setting}).nodes[0].bytes_sent;
  };
  CHECK(bytes("algorithm.optimizer=adamw") == 5 * 15 * 4);
  CHECK(bytes("algorithm.optimizer=adagrad") == 5 * 10 * 4);
  CHECK(bytes("algorithm.momentum=0.5") == 5 * 10 * 4);
  CHECK(bytes("algorithm.momentum_policy=keep") == 5 * 5 * 4);
}

TEST_CASE("equal updates of Adam are computed once for all nodes of an allreduce") {
  // Per step one transform for the second moments and one for the step, not 32 of each; a window's border may cost a
  // second copy.
  const Recorder recorder = test::run(test::quadratic_scenario(
      32, 20, "ring", "kind = allreduce\nlearning_rate = 0.1\noptimizer = adam\nclip_norm = 1"));
  CHECK(recorder.statistics.at("graph.transforms") <= 20 * 3 + 3 * 32);
}

TEST_CASE("DiLoCo's outer Adam is FedAdam with bias correction") {
  // One node, f = 1/2 (x - 1)^2 from 0, blocks of 3 steps of rate 0.1: D = theta - x; epsilon 0.1 by default.
  double theta = 0, m = 0, s = 0;
  for (int t = 1; t <= 5; ++t) {
    const double d = theta - (1 + 0.729 * (theta - 1));
    m = 0.9 * m + 0.1 * d;
    s = 0.99 * s + 0.01 * d * d;
    theta -= 0.3 * m / (1 - std::pow(0.9, t)) / (std::sqrt(s / (1 - std::pow(0.99, t))) + 0.1);
  }
  const Recorder recorder = test::run(
      test::quadratic_scenario(1, 15, "ring", "kind = diloco\nlearning_rate = 0.1\nperiod = 3"),
      in_algorithm({"outer_optimizer=adam", "outer_beta2=0.99", "outer_learning_rate=0.3"}));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(theta).epsilon(1e-5));
}

TEST_CASE("settings that do not belong together are errors") {
  const std::string text =
      test::quadratic_scenario(2, 3, "ring", "kind = allreduce\nlearning_rate = 0.1");
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.optimizer=adam", "algorithm.momentum=0.9"}),
                       doctest::Contains("algorithm.momentum is not a key here"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.optimizer=adam", "algorithm.beta2=1"}),
                       doctest::Contains("beta2 must be in [0, 1), got 1"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.optimizer=adagrad", "algorithm.epsilon=0"}),
                       doctest::Contains("epsilon must be from"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.clip_norm=-1"}),
                       doctest::Contains("must not be negative, got -1"), ScenarioError);
  // As floats these are 0 or infinite: a gradient of 0 would be divided by 0, others cut to nothing.
  for (const std::string epsilon : {"1e-60", "1e+60"}) {
    CHECK_THROWS_WITH_AS(
        test::run(text, {"algorithm.optimizer=adam", "algorithm.epsilon=" + epsilon}),
        doctest::Contains(("epsilon must be from 1e-37 to 3.4e+38, got " + epsilon).c_str()),
        ScenarioError);
  }
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.clip_norm=1e-300"}),
                       doctest::Contains("clip_norm must be 0 or at least 1e-37, got 1e-300"),
                       ScenarioError);
  for (const std::string steps : {"-3", "1.5"}) {
    CHECK_THROWS_WITH_AS(
        test::run(text, {"algorithm.schedule=step", "algorithm.decay_steps=" + steps}),
        doctest::Contains("decay_steps must be whole numbers from 0 on"), ScenarioError);
  }
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.warmup_from=0.5"}),
                       doctest::Contains("warmup_from needs warmup_steps > 0"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.schedule=inverse", "algorithm.decay_offset=0"}),
                       doctest::Contains("decay_offset must be positive, got 0"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.schedule=cyclic", "algorithm.cycle_steps=0"}),
                       doctest::Contains("cycle_steps must be at least 1, got 0"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.schedule=inverse_root"}),
                       doctest::Contains("algorithm.decay_offset is missing"), ScenarioError);
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(2, 3, "ring",
                                         "kind = async_diloco\nlearning_rate = 0.1\nperiod = 1"),
                {"algorithm.outer_optimizer=adam"}),
      doctest::Contains("outer_optimizer must be sgd"), ScenarioError);
}

}  // namespace starling::test_optimizer
