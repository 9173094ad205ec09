// Overlap SGP beside SGP: the mass that it conserves, late shares, and how far nodes get ahead of each other.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_overlap_sgp {
namespace {

const std::string overlap = "kind = overlap_sgp\nlearning_rate = 0.1\n";
// Uneven times keep shares under way; models lr i after the first step, pure averaging afterwards.
const std::vector<std::string> averaging =
    test::gradients_until(1, {"workload.centers=index", "compute.distribution=lognormal",
                              "compute.sigma=0.5", "network.latency=2.3 ms"});

}  // namespace

TEST_CASE("overlap SGP that allows no delay is SGP to the bit") {
  const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.5",
                                        "workload.noise=0.1"};
  for (const std::string peers : {"one_peer", "two_peer", "topology"}) {
    const std::string keys = "learning_rate = 0.1\nmomentum = 0.5\npeers = " + peers;
    const Recorder late = test::run(
        test::quadratic_scenario(7, 40, "star", "kind = overlap_sgp\ntau = 0\n" + keys), uneven);
    const Recorder push =
        test::run(test::quadratic_scenario(7, 40, "star", "kind = sgp\n" + keys), uneven);
    CHECK(late.models == push.models);
  }
}

TEST_CASE("overlap SGP conserves the sums of numerators and weights, messages included") {
  // sum_i x_i = lr sum_i i = 2.1 after the first step, sum_i w_i = 7: at the end, when all shares
  // have come, the nodes hold it all. With 2.3 ms latency and steps of 1 ms some shares are always
  // under way before.
  for (const std::string tau : {"1", "2", "5"}) {
    for (const std::string peers : {"one_peer", "topology"}) {
      const Recorder recorder = test::run(
          test::quadratic_scenario(7, 20, "star", overlap + "tau = " + tau + "\npeers = " + peers),
          averaging);
      double w = 0;
      double x = 0;
      for (NodeId i = 0; i < 7; ++i) {
        w += test::last_weight(recorder, i);
        x += test::last_weight(recorder, i) * test::model(recorder, i, 0);
      }
      CHECK(w == doctest::Approx(7).epsilon(1e-12));
      CHECK(x == doctest::Approx(2.1).epsilon(1e-5));
    }
  }
}

TEST_CASE("the weight that is recorded after a step is what the node holds then") {
  // Half of it leaves at every step; what left at 1 ms comes back at 3.3 ms, during the fourth step, from somebody else.
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 5, "ring", overlap + "tau = 5\npeers = one_peer"),
                {"network.latency=2.3 ms", "run.record_every=1"});
  const double expected[] = {0.5, 0.25, 0.125, 0.125 / 2 + 0.5};
  for (std::size_t k = 0; k < 4; ++k)
    CHECK(recorder.steps.value("push_sum_weight", k, 3) == expected[k]);
}

TEST_CASE("late shares leave the mean alone if weights travel with them, and not otherwise") {
  // z -> mean = 0.3 on every node. Without division by w, nodes hold x alone: a part of the mass is
  // under way at every step, and uneven degrees make x_i / mean the Perron weight of i, so the
  // models do not even agree.
  const std::string text =
      test::quadratic_scenario(7, 300, "star", overlap + "tau = 2\npeers = topology");
  const Recorder recorder = test::run(text, averaging);
  for (NodeId i = 0; i < 7; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(0.3).epsilon(1e-4));

  std::vector<std::string> biased = averaging;
  biased.emplace_back("algorithm.debias=no");
  const Recorder wrong = test::run(text, biased);
  double error = 0;
  for (NodeId i = 0; i < 7; ++i) error = std::max(error, std::abs(test::model(wrong, i, 0) - 0.3));
  CHECK(error > 0.1);
}

TEST_CASE("transfers of one step cost no time in overlap SGP, longer ones the rest") {
  // Gradients of 1 ms, latency 0.8 ms. SGP: 1.8 ms a step. tau = 1: the share of step k-1 arrives
  // during gradient k. With 2.8 ms latency and tau = 1, step k ends at t_k when shares sent at
  // t_(k-2) + 1 ms have come: 3.8 ms for two steps; with tau = 3 nobody waits.
  const auto seconds = [](const std::string& tau, const std::string& latency) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 50, "ring", overlap + "tau = " + tau),
                  {"network.latency=" + latency});
    const Table& steps = recorder.steps;
    return steps.value("time", steps.rows("time") - 1, 3);
  };
  CHECK(seconds("0", "0.8 ms") == doctest::Approx(0.090).epsilon(1e-6));
  CHECK(seconds("1", "0.8 ms") == doctest::Approx(0.050).epsilon(1e-6));
  CHECK(seconds("1", "2.8 ms") == doctest::Approx(25 * 3.8e-3).epsilon(1e-6));
  CHECK(seconds("3", "2.8 ms") == doctest::Approx(0.050).epsilon(1e-6));
}

TEST_CASE("nodes of overlap SGP are at most tau steps ahead of those they hear from") {
  // A ring: node 1 needs shares of step k - 2 of node 0, which takes 10 ms a step, and so may end
  // step k as soon as node 0 has ended step k - 2. Its last but tau-th step so ends with node 0's.
  const Recorder recorder =
      test::run(test::quadratic_scenario(6, 30, "ring", overlap + "tau = 2\npeers = topology"),
                {"compute.slow_nodes=1", "compute.slowdown=10", "run.record_every=1"});
  for (std::size_t k = 3; k < 30; ++k) {
    const double ahead = recorder.steps.value("time", k - 2, 0);
    CHECK(recorder.steps.value("time", k, 1) > ahead);
    CHECK(recorder.steps.value("time", k, 1) < ahead + 2e-3);
  }
}

TEST_CASE("shares that are not positive are for exchanges that nobody overlaps") {
  // The best constant weight of a star of 6, 2 / (1 + 6), leaves the center 1 - 5 * 2 / 7 < 0: until its neighbors' shares
  // come it would hold a negative weight. They come at once with tau = 0; without division it does no harm.
  const std::string text = test::quadratic_scenario(
      6, 20, "star\nmixing = best_constant", overlap + "peers = topology\nweights = topology");
  for (std::vector<std::string> words :
       {std::vector<std::string>{}, {"algorithm.kind=slowmo", "algorithm.base=overlap_sgp"}}) {
    CHECK_THROWS_WITH_AS(test::run(text, words),
                         doctest::Contains("mixing weights that are positive"), ScenarioError);
    words.emplace_back("algorithm.tau=0");
    CHECK(test::run(text, words).nodes[0].steps == 20);
    words.back() = "algorithm.debias=no";
    CHECK(test::run(text, words).nodes[0].steps == 20);
  }
}

TEST_CASE(
    "a node of overlap SGP that hears nothing for long is told, before its model has no digits") {
  // Node 1 of a pair halves its weight at each step while it may go on without node 0: floats end at 2^-126.
  const std::string text = test::quadratic_scenario(2, 2000, "ring", overlap + "tau = 5000");
  const std::vector<std::string> slow{"compute.slow_nodes=1", "compute.slowdown=1000000",
                                      "workload.curvature_min=0", "workload.curvature_max=0"};
  CHECK_THROWS_WITH_AS(test::run(text, slow),
                       doctest::Contains("weight fell to 5.9e-39 by the end of step 127"), Error);
}

TEST_CASE("overlap SGP refuses a negative delay") {
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(4, 3, "ring", overlap + "tau = -1")),
                       doctest::Contains("must not be negative"), ScenarioError);
}

}  // namespace starling::test_overlap_sgp
