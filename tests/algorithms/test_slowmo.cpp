// SlowMo over every base: its recursion, its fixed point, and which other algorithms it is.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/algorithms/block_averaging.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_slowmo {
namespace {

const char* const slowmo = "kind = slowmo\nlearning_rate = 0.05\nperiod = 4";

const std::vector<std::string> bases{"gossip",
                                     "sgp",
                                     "sgp\npeers = topology",
                                     "overlap_sgp",
                                     "overlap_sgp\npeers = topology\ntau = 3",
                                     "adpsgd",
                                     "adpsgd\nexchanges_per_step = 2"};

}  // namespace

TEST_CASE("SlowMo without slow momentum is local SGD") {
  // alpha = 1, beta = 0: u = (x_0 - x')/gamma and x_0 - gamma u = x'.
  const Recorder slow =
      test::run(test::quadratic_scenario(6, 40, "ring", slowmo), {"algorithm.slow_momentum=0"});
  const Recorder local = test::run(test::quadratic_scenario(
      6, 40, "ring", "kind = local_sgd\nlearning_rate = 0.05\nperiod = 4"));
  CHECK(test::largest_difference(slow, local) < 2e-6);
}

TEST_CASE("SlowMo's plain averages within blocks are those of local SGD") {
  // Without slow momentum a block ends with one more: period 4 with averages every second step is local SGD with period 2.
  const Recorder slow = test::run(test::quadratic_scenario(6, 40, "ring", slowmo),
                                  {"algorithm.slow_momentum=0", "algorithm.local_period=2"});
  const Recorder local = test::run(test::quadratic_scenario(
      6, 40, "ring", "kind = local_sgd\nlearning_rate = 0.05\nperiod = 2"));
  CHECK(test::largest_difference(slow, local) < 2e-6);
  // Twelve steps in blocks of 6, averages after 6 and 12, and after 3 and 9, or 4 and 8: two messages for each.
  for (const std::string period : {"3", "4"}) {
    const Recorder counted =
        test::run(test::quadratic_scenario(4, 12, "ring", "kind = slowmo\nlearning_rate = 0.05"),
                  {"algorithm.period=6", "algorithm.collective=recursive_doubling",
                   "algorithm.local_period=" + period});
    for (const NodeTotals& node : counted.nodes) CHECK(node.messages_sent == 4 * 2);
  }
  // Five steps of a block of 12, which no slow step ends: the average after the last one, if one is due, is made.
  for (const std::string period : {"2", "5"}) {
    const Recorder cut = test::run(test::quadratic_scenario(6, 5, "ring", slowmo),
                                   {"algorithm.period=12", "algorithm.local_period=" + period});
    CHECK(test::largest_difference(
              cut, test::run(test::quadratic_scenario(
                       6, 5, "ring",
                       "kind = local_sgd\nlearning_rate = 0.05\nperiod = " + period))) < 2e-6);
    CHECK(test::nodes_agree(cut) == (period == "5"));
  }
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(2, 4, "ring", slowmo), {"algorithm.local_period=4"}),
      doctest::Contains("local_period must be less than period (4), got 4"), ScenarioError);
}

TEST_CASE(
    "SlowMo's momentum follows its recursion on one node, across a change of the learning rate") {
  // One node, f = 1/2 (x - 1)^2 from 0, blocks of 2; the rate falls from 0.1 to 0.05 between two blocks, or within one. A step
  // of rate r moves x - 1 by 1 - r; with the rate of the last one, u <- 0.6 u + (x_0 - x') / r; x <- x_0 - 0.8 r u.
  for (const int falls_at : {4, 3}) {
    const auto rate_at = [&](int k) { return k < falls_at ? 0.1 : 0.05; };
    double x = 0;
    double u = 0;
    for (int k = 0; k < 8; k += 2) {
      const double rate = rate_at(k + 1);
      const double moved = 1 + (1 - rate_at(k)) * (1 - rate) * (x - 1);
      u = 0.6 * u + (x - moved) / rate;
      x -= 0.8 * rate * u;
    }
    const Recorder recorder = test::run(
        test::quadratic_scenario(1, 8, "ring", "kind = slowmo\nlearning_rate = 0.1\nperiod = 2"),
        {"workload.centers=list", "workload.center_values=1", "algorithm.slow_momentum=0.6",
         "algorithm.slow_learning_rate=0.8", "algorithm.schedule=step",
         "algorithm.decay_steps=" + std::to_string(falls_at), "algorithm.decay_factor=0.5"});
    CHECK(test::model(recorder, 0, 0) == doctest::Approx(x).epsilon(1e-5));
  }
}

TEST_CASE("slow momentum outlives blocks that end at a learning rate of 0") {
  // One node, f = 1/2 (x - 1)^2 from 0, blocks of 2 at the rates 0.1 and 0: u <- 0.6 u + (x_0 - x') / 0.1, as if all were at 0.1.
  double x = 0;
  double v = 0;
  for (int k = 0; k < 8; k += 2) {
    v = 0.6 * v + 0.1 * (x - 1);
    x -= v;
  }
  const Recorder recorder = test::run(
      test::quadratic_scenario(1, 8, "ring", "kind = slowmo\nlearning_rate = 0.2\nperiod = 2"),
      {"workload.centers=list", "workload.center_values=1", "algorithm.slow_momentum=0.6",
       "algorithm.schedule=cyclic", "algorithm.cycle_steps=2", "algorithm.cycle_floor=0"});
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(x).epsilon(1e-5));
}

TEST_CASE("a block of SlowMo that ends at a learning rate of 0 has the rate of the one before") {
  // One node, f = x^2/2 from 1, blocks of 2 at the rates 0.15, 0.1, then 0.05, 0, and again: a block moves x to 0.85 * 0.9 x, or to
  // 0.95 x, and all are divided by 0.1: v <- 0.5 v + x - x', with v = 0.1 u, and x <- x - v.
  double x = 1;
  double v = 0;
  for (int block = 0; block < 4; ++block) {
    v = 0.5 * v + x - (block % 2 == 0 ? 0.85 * 0.9 : 0.95) * x;
    x -= v;
    const Recorder recorder = test::run(
        test::quadratic_scenario(1, 2 * (block + 1), "ring",
                                 "kind = slowmo\nlearning_rate = 0.2\nperiod = 2"),
        {"workload.centers=list", "workload.start=1", "algorithm.slow_momentum=0.5",
         "algorithm.schedule=cyclic", "algorithm.cycle_steps=4", "algorithm.cycle_floor=0"});
    CHECK(test::model(recorder, 0, 0) == doctest::Approx(x).epsilon(1e-5));
  }
}

TEST_CASE("a learning rate that vanishes leaves SlowMo and quasi-global momentum their models") {
  // Both divide what models moved by the learning rate. Falls of 1e-200 at steps 5 and 9 leave nothing of it, in double, too.
  // SlowMo's block of steps 4 to 7 has moved once by then; with alpha = 1 and no momentum it stays there:
  // x - 1 = -0.9^5 from 0, on f = 1/2 (x - 1)^2.
  const std::vector<std::string> falling{"workload.centers=list", "workload.center_values=1",
                                         "algorithm.schedule=step", "algorithm.decay_steps=5, 9",
                                         "algorithm.decay_factor=1e-200"};
  const auto run = [&](const std::string& algorithm) {
    return test::run(test::quadratic_scenario(4, 16, "ring", algorithm + "\nlearning_rate = 0.1\n"),
                     falling);
  };
  const Recorder slow = run("kind = slowmo\nperiod = 4\nslow_momentum = 0");
  const Recorder momentum = run("kind = slowmo\nperiod = 4");
  const Recorder global = run("kind = quasi_global");
  CHECK(test::model(slow, 2, 0) == doctest::Approx(1 - std::pow(0.9, 5)).epsilon(1e-5));
  for (const Recorder& recorder : {momentum, global}) {
    CHECK(test::model(recorder, 2, 0) > 0.3);
    CHECK(test::model(recorder, 2, 0) < 1);
  }
}

TEST_CASE("slow momentum does not move the fixed point of local SGD") {
  const std::string text = test::quadratic_scenario(5, 1200, "ring", slowmo);
  const Recorder recorder = test::run(text, {"algorithm.slow_momentum=0.7"});
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(test::model(recorder, 2, k) ==
          doctest::Approx(test::local_fixed_point(problem, 5, k, 0.05, 4)).epsilon(1e-4));
  }
}

TEST_CASE(
    "SlowMo over gossip without slow momentum is D-PSGD with an exact average after every block") {
  // Blocks of 1 over gossip: x' = mean_i (sum_j W_ij x_j - lr g_i(x_i)), and W is doubly
  // stochastic: allreduce SGD.
  const Recorder slow = test::run(
      test::quadratic_scenario(6, 30, "ring", "kind = slowmo\nlearning_rate = 0.1\nperiod = 1"),
      {"algorithm.base=gossip", "algorithm.slow_momentum=0"});
  const Recorder exact =
      test::run(test::quadratic_scenario(6, 30, "ring", "kind = allreduce\nlearning_rate = 0.1"));
  CHECK(test::largest_difference(slow, exact) < 2e-6);
  // No block ends within 10 steps: D-PSGD itself, to the bit.
  const Recorder open = test::run(
      test::quadratic_scenario(
          6, 10, "ring", "kind = slowmo\nlearning_rate = 0.1\nperiod = 11\nweight_decay = 0.3"),
      {"algorithm.base=gossip"});
  const Recorder gossip = test::run(test::quadratic_scenario(
      6, 10, "ring", "kind = dpsgd\nlearning_rate = 0.1\nweight_decay = 0.3"));
  CHECK(open.models == gossip.models);
}

TEST_CASE("keeping, averaging and resetting the base's momentum are three SlowMos") {
  const std::string text =
      test::quadratic_scenario(4, 24, "ring", std::string(slowmo) + "\nmomentum = 0.8");
  const Recorder keep = test::run(text, {"algorithm.momentum_policy=keep"});
  const Recorder average = test::run(text, {"algorithm.momentum_policy=average"});
  const Recorder reset = test::run(text, {"algorithm.momentum_policy=reset"});
  CHECK(keep.models != average.models);
  CHECK(average.models != reset.models);
  CHECK(keep.models != reset.models);
}

TEST_CASE("where gradients do not depend on the model, SlowMo does the same over every base") {
  // Curvature 0: a gradient is noise, named by node and step. No base moves the mean of all models, what is
  // under way included, so at the end of a block all nodes stand where those of local SGD do: nothing may
  // be lost at its end, nor come in later. The rate falls within a block and between two.
  std::vector<std::string> drift{
      "workload.curvature_min=0",       "workload.curvature_max=0",  "workload.noise=1",
      "compute.distribution=lognormal", "compute.sigma=0.5",         "algorithm.schedule=step",
      "algorithm.decay_steps=6, 12",    "algorithm.decay_factor=0.5"};
  for (const std::string momentum : {"0", "0.6"}) {
    const std::string settings =
        std::string(slowmo) + "\nslow_momentum = " + momentum + "\nbase = ";
    const Recorder local =
        test::run(test::quadratic_scenario(7, 24, "star", settings + "local"), drift);
    CHECK(std::abs(test::model(local, 0, 1)) > 1e-2);
    for (const std::string& base : bases) {
      CAPTURE(base);
      const Recorder recorder =
          test::run(test::quadratic_scenario(7, 24, "star", settings + base), drift);
      CHECK(test::largest_difference(recorder, local) < 1e-6);
      CHECK(test::nodes_agree(recorder));
    }
  }
}

TEST_CASE("a block that does not end is the base alone, to the bit") {
  for (const std::string& base : bases) {
    if (base == "gossip") continue;  // its kind is dpsgd, see above
    CAPTURE(base);
    const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.5"};
    const std::string settings = base + "\nlearning_rate = 0.05\nmomentum = 0.5";
    const Recorder slow = test::run(
        test::quadratic_scenario(8, 20, "ring", "kind = slowmo\nperiod = 21\nbase = " + settings),
        uneven);
    const Recorder alone =
        test::run(test::quadratic_scenario(8, 20, "ring", "kind = " + settings), uneven);
    CHECK(slow.models == alone.models);
  }
}

TEST_CASE("every base of SlowMo goes its own way between two averages") {
  std::vector<std::vector<std::vector<float>>> seen;
  for (const std::string& base : bases) {
    const Recorder recorder = test::run(
        test::quadratic_scenario(7, 24, "star", std::string(slowmo) + "\nbase = " + base));
    for (const auto& models : seen) CHECK(models != recorder.models);
    seen.push_back(recorder.models);
  }
}

TEST_CASE("exact averages of SGP begin anew with equal weights") {
  // On a star w is far from one within a block; where one ends, numerators are averaged and w = 1 again:
  // steps 4, 8, .. push from w = 1 to the same w.
  const std::string text = test::quadratic_scenario(
      7, 9, "star", std::string(slowmo) + "\nbase = sgp\npeers = topology");
  const Recorder recorder = test::run(text);
  const auto weight = [&](std::size_t k) { return recorder.steps.value("push_sum_weight", k, 0); };
  CHECK(weight(0) == doctest::Approx(1. / 7 + 6. / 2).epsilon(1e-12));
  CHECK(weight(4) == weight(0));
  CHECK(weight(8) == weight(0));
  CHECK(weight(1) != weight(0));
}

}  // namespace starling::test_slowmo
