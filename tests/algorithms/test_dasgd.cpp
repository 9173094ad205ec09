// Delayed averaging: how late averages are merged, beside its recursions, and when nobody waits for them.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_dasgd {
namespace {

const char* const dasgd = "kind = dasgd\nlearning_rate = 0.05\nperiod = 4";

}  // namespace

TEST_CASE("delayed averaging without delay and own share is local SGD") {
  const Recorder local = test::run(test::quadratic_scenario(
      6, 40, "ring", "kind = local_sgd\nlearning_rate = 0.05\nperiod = 4"));
  const std::string text = test::quadratic_scenario(6, 40, "ring", dasgd);
  CHECK(test::largest_difference(test::run(text, {"algorithm.delay=0", "algorithm.local_share=0"}),
                                 local) < 1e-6);
  CHECK(test::largest_difference(test::run(text, {"algorithm.delay=0", "algorithm.merge=delta"}),
                                 local) < 2e-6);
  CHECK(test::largest_difference(test::run(text), local) > 1e-3);
}

TEST_CASE("late corrections leave the mean model where local steps took it") {
  // Curvature 1: mean_i g_i depends on the mean model alone and sum_i (mean(s) - s_i) = 0, so with
  // centers i the mean is that of gradient descent, 2.5 (1 - 0.95^k), whatever the delay; the
  // models come together all the same.
  const std::string text = test::quadratic_scenario(6, 41, "ring", dasgd);
  for (const std::string delay : {"1", "3"}) {
    const Recorder recorder = test::run(
        text, {"algorithm.merge=delta", "algorithm.delay=" + delay, "workload.centers=index"});
    CHECK(test::mean_model(recorder, 0) ==
          doctest::Approx(2.5 * (1 - std::pow(0.95, 41))).epsilon(1e-5));
    // A node alone would stand at 5 (1 - 0.95^41) = 4.4.
    CHECK(test::model(recorder, 5, 0) < 3.3);
  }
}

TEST_CASE("a delayed convex merge follows its recursion") {
  // Two nodes, centers 0 and 1, curvature 1, rate r: local steps multiply x - c by q = 1 - r.
  // Period 3, delay 2: of every 3 steps the snapshot is taken after the third, merged after the
  // second of the next ones. 11 steps: the last merge is due exactly after step 11.
  const double q = 0.9;
  double x[2] = {0, 0};
  double snapshots = 0;
  for (int k = 1; k <= 11; ++k) {
    for (int i = 0; i < 2; ++i) x[i] = i + q * (x[i] - i);
    if (k % 3 == 0) snapshots = (x[0] + x[1]) / 2;
    if (k > 3 && k % 3 == 2) {
      for (double& model : x) model = 0.25 * model + 0.75 * snapshots;
    }
  }
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    2, 11, "ring", "kind = dasgd\nlearning_rate = 0.1\nperiod = 3\ndelay = 2"),
                {"workload.centers=index"});
  for (NodeId i = 0; i < 2; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(x[i]).epsilon(1e-5));
}

TEST_CASE("an anchor follows the average of the period before") {
  // Two nodes, centers 0 and 1, curvature 1, q = 0.9, period 2, pull 0.6, anchor momentum 0.7.
  double x[2] = {0, 0};
  double z = 0;
  double v = 0;
  double mean = 0;
  bool has_mean = false;
  for (int k = 1; k <= 12; ++k) {
    for (int i = 0; i < 2; ++i) x[i] = i + 0.9 * (x[i] - i);
    if (k % 2 != 0) continue;
    if (has_mean) {
      v = 0.7 * v + mean - z;
      z += v;
    }
    for (double& model : x) model = 0.4 * model + 0.6 * z;
    mean = (x[0] + x[1]) / 2;
    has_mean = true;
  }
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    2, 12, "ring", "kind = dasgd\nlearning_rate = 0.1\nperiod = 2\nmerge = anchor"),
                {"workload.centers=index"});
  for (NodeId i = 0; i < 2; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(x[i]).epsilon(1e-5));
}

TEST_CASE("nodes do not wait for an average that is ready when they merge it") {
  // Latency 0.4 ms: an allreduce of two nodes takes 0.8 ms (two half exchanges), less than one step
  // of 1 ms. With delay 0 each of the 10 averages is waited for: 40 + 10 * 0.8 ms. With delay 1
  // none is: 40 ms, the end of the last step (the average begun there is merged afterwards).
  const std::string text = test::quadratic_scenario(2, 40, "ring", dasgd);
  const Recorder hidden = test::run(text, {"network.latency=0.4 ms"});
  const Recorder exposed = test::run(text, {"network.latency=0.4 ms", "algorithm.delay=0"});
  CHECK(to_seconds(hidden.nodes[0].finished) == doctest::Approx(0.04).epsilon(1e-6));
  CHECK(to_seconds(exposed.nodes[0].finished) == doctest::Approx(0.048).epsilon(1e-6));
}

TEST_CASE("a correction that is a whole period late is CoCoD-SGD") {
  // Two nodes, centers 0 and 1, curvature 1, q = 0.9, period 3: the mean of where nodes began a period travels while they
  // take its steps, and the next one begins at that mean plus the own steps. The models of the end are averaged, too.
  const double q = 0.9;
  double x[2] = {0, 0};
  double begun[2] = {0, 0};
  for (int k = 1; k <= 12; ++k) {
    for (int i = 0; i < 2; ++i) x[i] = i + q * (x[i] - i);
    if (k % 3 != 0) continue;
    const double mean = (begun[0] + begun[1]) / 2;
    for (int i = 0; i < 2; ++i) begun[i] = x[i] = mean + (x[i] - begun[i]);
  }
  const std::string text =
      test::quadratic_scenario(2, 12, "ring",
                               "kind = dasgd\nlearning_rate = 0.1\nperiod = 3\ndelay = 3\n"
                               "merge = delta\nmomentum_policy = keep");
  const Recorder recorder = test::run(text, {"workload.centers=index", "network.latency=1.4 ms"});
  for (NodeId i = 0; i < 2; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx((x[0] + x[1]) / 2).epsilon(1e-5));
  // An allreduce takes 2.8 ms, a period 3 ms: nobody waits.
  CHECK(to_seconds(recorder.nodes[0].finished) == doctest::Approx(0.012).epsilon(1e-6));
}

TEST_CASE("delayed averaging by corrections or an anchor forgets momentum at a merge, if told to") {
  // One node, f = x^2/2 from 1, whose average is its own snapshot, so that corrections and an anchor without pull change no model.
  // Of every 2 steps a snapshot is taken after the second, and merged one step later, or two.
  for (const std::string merge : {"delta", "anchor\npull = 0"}) {
    double x = 1;
    double m = 0;
    for (int k = 1; k <= 9; ++k) {
      m = 0.5 * m + x;
      x -= 0.1 * m;
      if (k > 2 && k % 2 == (merge == "delta" ? 1 : 0)) m = 0;
    }
    const Recorder recorder = test::run(
        test::quadratic_scenario(1, 9, "ring",
                                 "kind = dasgd\nlearning_rate = 0.1\nmomentum = 0.5\nperiod = 2\n"
                                 "momentum_policy = reset\nmerge = " +
                                     merge),
        {"workload.centers=list", "workload.start=1"});
    CHECK(test::model(recorder, 0, 0) == doctest::Approx(x).epsilon(1e-5));
  }
}

TEST_CASE("a delay that is negative or longer than the period is refused") {
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(2, 4, "ring", dasgd), {"algorithm.delay=5"}),
      "command line: algorithm.delay must be from 0 to period (4), got 5", ScenarioError);
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(2, 4, "ring", dasgd), {"algorithm.delay=-1"}),
      "command line: algorithm.delay must be from 0 to period (4), got -1", ScenarioError);
}

}  // namespace starling::test_dasgd
