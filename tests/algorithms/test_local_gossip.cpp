// Local gossip, which is cooperative SGD: the algorithms that it is for some topologies and periods, and how it mixes.
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"
#include "topology/spectrum.hpp"

namespace starling::test_local_gossip {
namespace {

const std::string gossip = "kind = local_gossip\nlearning_rate = 0.1\n";
const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.5"};

}  // namespace

TEST_CASE("local gossip after every step is D-PSGD that adapts first, on changing topologies too") {
  for (const std::string topology : {"ring", "star", "one_peer_exponential"}) {
    const Recorder local = test::run(test::quadratic_scenario(7, 40, topology, gossip), uneven);
    const Recorder dpsgd = test::run(
        test::quadratic_scenario(7, 40, topology,
                                 "kind = dpsgd\nlearning_rate = 0.1\norder = adapt_then_combine"),
        uneven);
    CHECK(local.models == dpsgd.models);
  }
}

TEST_CASE("local gossip on the complete topology is local SGD") {
  const Recorder gossiping =
      test::run(test::quadratic_scenario(6, 40, "complete", gossip + "local_steps = 4"));
  const Recorder local = test::run(test::quadratic_scenario(
      6, 40, "complete", "kind = local_sgd\nlearning_rate = 0.1\nperiod = 4"));
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(test::model(gossiping, 4, k) == doctest::Approx(test::model(local, 4, k)).epsilon(1e-5));
  }
}

TEST_CASE("local gossip over random matchings is blocking SwarmSGD, bit for bit") {
  for (const std::string topology : {"ring", "complete"}) {
    const Recorder pairs =
        test::run(test::quadratic_scenario(7, 30, topology,
                                           gossip + "mixing = random_matching\nlocal_steps = 3"),
                  uneven);
    const Recorder swarm =
        test::run(test::quadratic_scenario(
                      7, 30, topology,
                      "kind = swarm\nlearning_rate = 0.1\naveraging = blocking\nlocal_steps = 3"),
                  uneven);
    CHECK(pairs.models == swarm.models);
  }
}

TEST_CASE("a random perfect matching shrinks the variance by (n - 2) / (2 (n - 1)) on average") {
  // With deviations d from the mean and j uniform among the others of i: E sum_i ((d_i + d_j) /
  // 2)^2 = (1/4) sum_i (2 d_i^2 + 2 d_i E d_j) = (S / 2) (1 - 1/(n-1)), as E d_j = -d_i / (n-1):
  // the p of the paper. Models i lr after the first step; 1 + 6 rounds: log of the variance falls
  // by 7 x 0.709 for n = 64, here to a tenth.
  const Recorder recorder =
      test::run(test::quadratic_scenario(64, 7, "complete", gossip + "mixing = random_matching"),
                test::gradients_until(1, {"workload.centers=index"}));
  double variance = 0;
  for (NodeId i = 0; i < 64; ++i) {
    const double away = test::model(recorder, i, 0) - 3.15;
    variance += away * away / 64;
  }
  const double start = (64.0 * 64 - 1) / 12 * 0.01;  // of 0, 0.1, .., 6.3
  CHECK(test::mean_model(recorder, 0) == doctest::Approx(3.15).epsilon(1e-6));
  CHECK(std::log(variance / start) == doctest::Approx(7 * std::log(62.0 / 126)).epsilon(0.1));
}

TEST_CASE("local gossip refuses rounds without steps") {
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(4, 3, "ring", gossip + "local_steps = 0")),
      doctest::Contains("at least 1, got 0"), ScenarioError);
}

TEST_CASE("cooperative SGD A(1, J, 0) is allreduce SGD") {
  const Recorder gossiping = test::run(test::quadratic_scenario(6, 40, "complete", gossip), uneven);
  const Recorder exact = test::run(
      test::quadratic_scenario(6, 40, "complete", "kind = allreduce\nlearning_rate = 0.1"), uneven);
  CHECK(test::largest_difference(gossiping, exact) < 2e-6);
}

TEST_CASE("cooperative SGD A(tau, W, 1) on a star is elastic averaging") {
  // A star of 1 + n nodes with Metropolis weights: x_i <- (1 - a) x_i + a z and z <- (1 - n a) z + a sum x_i with
  // a = 1 / (n + 1). Node 0 holds the anchor; node 1 + i has the problem of node i of EASGD.
  const Recorder star =
      test::run(test::quadratic_scenario(7, 40, "star", gossip + "local_steps = 4\nauxiliary = 1"),
                {"workload.centers=list", "workload.center_values=99, 0, 1, 2, 3, 4, 5"});
  const Recorder elastic = test::run(
      test::quadratic_scenario(6, 40, "ring", "kind = easgd\nlearning_rate = 0.1\nperiod = 4"),
      {"workload.centers=index", fmt::format("algorithm.elasticity={}", 1.0 / 7)});
  for (NodeId i = 0; i < 6; ++i) {
    CHECK(test::model(star, i + 1, 2) == doctest::Approx(test::model(elastic, i, 2)).epsilon(1e-5));
  }
  CHECK(star.nodes[0].compute.count() == 0);
}

TEST_CASE("a period of the schedule shrinks the distance from the mean by the p of its matrices") {
  // Koloskova et al., assumption 4: |X W_0 .. W_(T-1) - mean|^2 <= (1 - p) |X - mean|^2 with p = 1 - (1 - gap)^2, gap
  // of spectrum.hpp. One step of rate 0.1 gives x_i = 0.1 i, then nothing but T rounds of mixing.
  for (const std::string topology :
       {"ring", "star", "one_peer_exponential", "equi_dynamic\nrounds = 9", "equi_static",
        "random_matching\nrounds = 12"}) {
    CAPTURE(topology);
    const std::string first = test::quadratic_scenario(8, 1, topology, gossip);
    const Assembly parts = assemble(Scenario::parse(first, "test.ini"));
    const auto period = static_cast<int>(parts.topology->period());
    const double gap = topologies::spectral_gap(*parts.topology).gap;
    const Recorder recorder = test::run(test::quadratic_scenario(8, period, topology, gossip),
                                        test::gradients_until(1, {"workload.centers=index"}));
    double squares = 0;
    for (NodeId i = 0; i < 8; ++i) squares += std::pow(test::model(recorder, i, 0) - 0.35, 2);
    const double start = 8 * (8.0 * 8 - 1) / 12 * 0.01;
    CHECK(gap > 0);
    CHECK(squares <= start * (1 - gap) * (1 - gap) * (1 + 1e-5) + 1e-10);
    CHECK(test::mean_model(recorder, 0) == doctest::Approx(0.35).epsilon(1e-6));
  }
}

TEST_CASE("local gossip needs a node that computes") {
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(4, 3, "ring", gossip + "auxiliary = 4")),
                       doctest::Contains("from 0 to 3, got 4"), ScenarioError);
}

}  // namespace starling::test_local_gossip
