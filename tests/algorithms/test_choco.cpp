// CHOCO-SGD beside a twin with a copy per neighbor; its mean moves as without codes, and what it sends.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/algorithms/naive_codec.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_choco {
namespace {

const std::string choco = "kind = choco\nlearning_rate = 0.1\n";
const std::string top_k = "compression = top_k\nkeep = 0.4\nconsensus_rate = ";
/// f_i = 1/2 (x - i)^2, and gradients in the first step alone.
const std::vector<std::string> one_push = test::gradients_until(1, {"workload.centers=index"});

double spread(const Recorder& recorder) {
  double worst = 0;
  for (NodeId i = 0; i < static_cast<NodeId>(recorder.models.size()); ++i) {
    for (std::size_t k = 0; k < 5; ++k) {
      const double away = std::abs(test::model(recorder, i, k) - test::mean_model(recorder, k));
      if (!(away <= worst)) worst = away;
    }
  }
  return worst;
}

using Numbers = std::vector<double>;

/// CHOCO-SGD as the paper writes it, in double: every node i has a copy of h_j for every neighbor j and for itself, and
/// moves it by what j sent.
std::vector<Numbers> slow_twin(const Assembly& parts, bool mixes_new, double gamma) {
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  const auto n = static_cast<std::size_t>(parts.settings.nodes);
  const std::size_t d = 5;
  const Numbers w = test::mixing_matrix(*parts.topology);
  std::vector<Numbers> x(n, Numbers(d));
  std::vector<std::vector<Numbers>> copies(n, std::vector<Numbers>(n, Numbers(d)));
  const auto step = [&](std::size_t i, const Numbers& at) {
    for (std::size_t k = 0; k < d; ++k) {
      const auto node = static_cast<NodeId>(i);
      x[i][k] -= 0.1 * static_cast<double>(problem.curvature(node, k)) *
                 (at[k] - static_cast<double>(problem.center(node, k)));
    }
  };
  const auto pull = [&](std::size_t i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < d; ++k)
        x[i][k] += gamma * w[i * n + j] * (copies[i][j][k] - copies[i][i][k]);
    }
  };
  const auto exchange = [&] {
    for (std::size_t j = 0; j < n; ++j) {
      Numbers difference(d);
      for (std::size_t k = 0; k < d; ++k) difference[k] = x[j][k] - copies[j][j][k];
      const Numbers code = test::keep_largest(difference, 2);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < d && (i == j || w[i * n + j] > 0); ++k)
          copies[i][j][k] += code[k];
      }
    }
  };
  for (Step s = 0; s < parts.settings.steps; ++s) {
    if (mixes_new) {
      for (std::size_t i = 0; i < n; ++i) step(i, Numbers(x[i]));
      exchange();
      for (std::size_t i = 0; i < n; ++i) pull(i);
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        const Numbers old = x[i];
        pull(i);
        step(i, old);
      }
      exchange();
    }
  }
  return x;
}

}  // namespace

TEST_CASE("without compression CHOCO-SGD is D-PSGD in the matching order, up to rounding") {
  // h = x after every exchange, and s = W x; both are sums of differences, so not the same bits.
  for (const std::string topology : {"ring", "star"}) {
    for (const auto& [order, same] :
         {std::pair<std::string, std::string>{"mix_new", "adapt_then_combine"},
          {"mix_old", "combine_while_adapt"}}) {
      const Recorder mixed =
          test::run(test::quadratic_scenario(7, 60, topology, choco + "order = " + order));
      const Recorder plain = test::run(test::quadratic_scenario(
          7, 60, topology, "kind = dpsgd\nlearning_rate = 0.1\norder = " + same));
      CHECK(test::largest_difference(mixed, plain) < 2e-6);
      CHECK(spread(plain) > 0.01);
    }
  }
}

TEST_CASE("CHOCO-SGD with two vectors beside the model is the one with a copy per neighbor") {
  // Also shows that copies of an estimate are equal on all neighbors: the twin moves each by itself.
  for (const std::string topology : {"ring", "star"}) {
    for (const bool mixes_new : {true, false}) {
      const std::string text = test::quadratic_scenario(
          6, 40, topology, choco + top_k + "0.3\norder = " + (mixes_new ? "mix_new" : "mix_old"));
      const Recorder recorder = test::run(text);
      const auto twin = slow_twin(assemble(Scenario::parse(text, "test.ini")), mixes_new, 0.3);
      for (std::size_t i = 0; i < 6; ++i) {
        for (std::size_t k = 0; k < 5; ++k) {
          CHECK(std::abs(test::model(recorder, static_cast<NodeId>(i), k) - twin[i][k]) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE("the mean model of CHOCO-SGD moves by the mean gradient, whatever the codec") {
  // W is doubly stochastic, so sum_i s_i = sum_i h_i and mixing keeps the mean: mean = 2.5 (1 - 0.9^k) from 0.
  for (const std::string codec :
       {"none", "half", "sign", "one_bit", "ternary", "levels", "top_k\nkeep = 0.2",
        "random_k\nkeep = 0.4", "threshold\nthreshold = 0.05\nkeep = 0.5"}) {
    for (const std::string order : {"mix_new", "mix_old"}) {
      CAPTURE(codec);
      const Recorder recorder =
          test::run(test::quadratic_scenario(6, 30, "ring",
                                             choco + "order = " + order + "\nconsensus_rate = 0.2" +
                                                 "\ncompression = " + codec),
                    {"workload.centers=index"});
      for (std::size_t k = 0; k < 5; ++k) {
        CHECK(test::mean_model(recorder, k) ==
              doctest::Approx(2.5 * (1 - std::pow(0.9, 30))).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("CHOCO-Gossip with the largest entry alone comes to consensus on the mean") {
  // One step from 0 puts node i at 0.1 i; nothing but gossip follows. The largest of 5 entries is contractive with
  // delta 1/5: linear convergence with a small enough rate.
  const Recorder recorder = test::run(
      test::quadratic_scenario(8, 600, "ring",
                               choco + "compression = top_k\nkeep = 0.2\nconsensus_rate = 0.2"),
      one_push);
  CHECK(test::mean_model(recorder, 0) == doctest::Approx(0.35).epsilon(1e-5));
  CHECK(spread(recorder) < 1e-4);
}

TEST_CASE("CHOCO-SGD with a lossy codec and consensus rate 1 diverges") {
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    8, 600, "ring", choco + "compression = top_k\nkeep = 0.2\nconsensus_rate = 1"),
                one_push);
  CHECK_FALSE(spread(recorder) < 10);
}

TEST_CASE("CHOCO-SGD with few levels needs them contractive, which is the default") {
  // 500 entries share a norm and 4 levels: codes that are unbiased lose up to 5.6 times the squares.
  const auto spread_after = [](int steps, const std::string& keys) {
    const std::string codec =
        "compression = levels\nlevels = 4\nbucket = 0\nconsensus_rate = 0.15\n";
    std::vector<std::string> settings = one_push;
    settings.emplace_back("workload.dimension=500");
    return spread(
        test::run(test::quadratic_scenario(8, steps, "ring", choco + codec + keys), settings));
  };
  CHECK(spread_after(600, "") < 0.01);
  CHECK_FALSE(spread_after(200, "contractive = no") < 10);
}

TEST_CASE("estimates may begin at the model all nodes share") {
  // From zero, the first codes are of 100 + small and drawn differently by each node: estimates differ by tens at first,
  // and pull the models apart. From the model, they are of the differences of 0.1 that one step made.
  const std::string text = test::quadratic_scenario(
      8, 10, "ring", choco + "compression = ternary\nconsensus_rate = 0.3");
  std::vector<std::string> far = one_push;
  far.insert(far.end(), {"workload.start=100", "workload.start_spread=10"});
  const double from_zero = spread(test::run(text, far));
  far.emplace_back("algorithm.first_estimate=model");
  const double from_model = spread(test::run(text, far));
  CHECK(from_model < 1);
  CHECK(from_zero > 2 * from_model);
}

TEST_CASE("every neighbor gets one code a step") {
  // sign of 5 entries: 4 + 1 bytes, two neighbors. mix_old has no first exchange: its estimates begin with the second step.
  const std::string text =
      test::quadratic_scenario(8, 20, "ring", choco + "compression = sign\nconsensus_rate = 0.3");
  CHECK(test::run(text).nodes[3].bytes_sent == 20 * 2 * 5);
  CHECK(test::run(text, {"algorithm.order=mix_old"}).nodes[3].bytes_sent == 19 * 2 * 5);
}

TEST_CASE("codes of CHOCO-SGD travel during the gradient if it mixes the old estimates") {
  // 0.5 ms of latency beside 1 ms of gradient: 20 steps end at 20 ms, and at 30 ms if every step waits for codes.
  const std::string text = test::quadratic_scenario(8, 20, "ring", choco);
  const auto finished = [&](const std::string& order) {
    const Recorder recorder =
        test::run(text, {"network.latency=500 us", "algorithm.order=" + order});
    return to_seconds(recorder.nodes[0].finished);
  };
  CHECK(finished("mix_old") == doctest::Approx(0.020).epsilon(1e-6));
  CHECK(finished("mix_new") == doctest::Approx(0.030).epsilon(1e-6));
}

TEST_CASE("CHOCO-SGD refuses what it cannot do, in one sentence") {
  const auto run = [](const std::string& topology, const std::string& keys) {
    return test::run(test::quadratic_scenario(8, 3, topology, choco + keys));
  };
  CHECK_THROWS_WITH_AS(run("ring", "compression = lattice\ncell = 1\nconsensus_rate = 0.1"),
                       doctest::Contains("compression must be one of none, half,"), ScenarioError);
  CHECK_THROWS_WITH_AS(run("ring", "compression = sign"),
                       doctest::Contains("algorithm.consensus_rate is missing"), ScenarioError);
  CHECK_THROWS_WITH_AS(run("ring", "consensus_rate = 1.5"),
                       doctest::Contains("must be in (0, 1], got 1.5"), ScenarioError);
  CHECK_THROWS_WITH_AS(run("one_peer_exponential", ""),
                       doctest::Contains("does not change, got one with 3 phases"), ScenarioError);
  CHECK_THROWS_WITH_AS(run("exponential", ""),
                       doctest::Contains("algorithm.kind = choco needs symmetric mixing weights"),
                       ScenarioError);
}

}  // namespace starling::test_choco
