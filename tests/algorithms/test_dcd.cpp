// DCD-PSGD, ECD-PSGD and DeepSqueeze, which have the same limits.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/naive_codec.hpp"
#include "tests/support/small_run.hpp"

using namespace starling;

namespace {

std::string section(const std::string& kind, const std::string& keys = "") {
  return "kind = " + kind + "\nlearning_rate = 0.1\n" + keys;
}

Recorder run(const std::string& algorithm, const std::vector<std::string>& overrides = {},
             int steps = 60, const std::string& topology = "ring") {
  return test::run(test::quadratic_scenario(7, steps, topology, algorithm), overrides);
}

using Numbers = std::vector<double>;

/// x less 0.1 times the gradient of node i at `at`.
Numbers gradient_step(const Assembly& parts, NodeId i, Numbers x, const Numbers& at) {
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < x.size(); ++k) {
    x[k] -= 0.1 * static_cast<double>(problem.curvature(i, k)) *
            (at[k] - static_cast<double>(problem.center(i, k)));
  }
  return x;
}

/// DCD-PSGD with the two largest entries of five, in double: every node i has a replica of every x_j, itself included, and
/// moves it by what j sent.
std::vector<Numbers> slow_twin(const Assembly& parts) {
  const auto n = static_cast<std::size_t>(parts.settings.nodes);
  const std::size_t d = 5;
  const Numbers w = test::mixing_matrix(*parts.topology);
  std::vector<std::vector<Numbers>> replicas(n, std::vector<Numbers>(n, Numbers(d)));
  for (Step s = 0; s < parts.settings.steps; ++s) {
    std::vector<Numbers> codes;
    for (std::size_t i = 0; i < n; ++i) {
      Numbers z(d);
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < d; ++k) z[k] += w[i * n + j] * replicas[i][j][k];
      }
      z = gradient_step(parts, static_cast<NodeId>(i), z, replicas[i][i]);
      for (std::size_t k = 0; k < d; ++k) z[k] -= replicas[i][i][k];
      codes.push_back(test::keep_largest(z, 2));
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < d && (i == j || w[i * n + j] > 0); ++k)
          replicas[i][j][k] += codes[j][k];
      }
    }
  }
  std::vector<Numbers> x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(replicas[i][i]);
  return x;
}

}  // namespace

TEST_CASE("DCD-PSGD with one vector beside the model is the one with a replica per neighbor") {
  for (const std::string topology : {"ring", "star"}) {
    const std::string text = test::quadratic_scenario(
        7, 25, topology, section("dcd", "compression = top_k\nkeep = 0.4"));
    const Recorder recorder = test::run(text);
    const auto twin = slow_twin(assemble(Scenario::parse(text, "test.ini")));
    for (std::size_t i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k)
        CHECK(std::abs(test::model(recorder, static_cast<NodeId>(i), k) - twin[i][k]) < 1e-5);
    }
  }
}

TEST_CASE("ECD-PSGD with one vector beside the model is the one with an estimate per neighbor") {
  for (const std::string topology : {"ring", "star"}) {
    const std::string text = test::quadratic_scenario(
        7, 12, topology, section("ecd", "compression = top_k\nkeep = 0.4"));
    const Recorder recorder = test::run(text);
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    const Numbers w = test::mixing_matrix(*parts.topology);
    std::vector<Numbers> x(7, Numbers(5));
    std::vector<std::vector<Numbers>> estimates(7, x);  // of node j at node i
    for (int t = 1; t <= 12; ++t) {
      std::vector<Numbers> next(7, Numbers(5));
      std::vector<Numbers> codes;
      for (std::size_t i = 0; i < 7; ++i) {
        next[i] = gradient_step(parts, static_cast<NodeId>(i), Numbers(5), x[i]);
        Numbers z(5);
        for (std::size_t k = 0; k < 5; ++k) {
          for (std::size_t j = 0; j < 7; ++j) next[i][k] += w[i * 7 + j] * estimates[i][j][k];
          z[k] = (1 - t / 2.0) * x[i][k] + t / 2.0 * next[i][k];
        }
        codes.push_back(test::keep_largest(z, 2));
      }
      for (auto& of_node : estimates) {
        for (std::size_t j = 0; j < 7; ++j) {
          for (std::size_t k = 0; k < 5; ++k)
            of_node[j][k] = (1 - 2.0 / t) * of_node[j][k] + 2.0 / t * codes[j][k];
        }
      }
      x = next;
    }
    for (std::size_t i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k) {
        const double found = test::model(recorder, static_cast<NodeId>(i), k);
        CHECK(std::abs(found - x[i][k]) < 1e-4 * (1 + std::abs(x[i][k])));
      }
    }
  }
}

TEST_CASE("DeepSqueeze follows its recursion: step, feed back, send, mix") {
  for (const std::string topology : {"ring", "star"}) {
    const std::string text = test::quadratic_scenario(
        7, 25, topology,
        section("deep_squeeze", "consensus_rate = 0.3\ncompression = top_k\nkeep = 0.4"));
    const Recorder recorder = test::run(text);
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    const Numbers w = test::mixing_matrix(*parts.topology);
    std::vector<Numbers> x(7, Numbers(5));
    std::vector<Numbers> errors = x;
    for (int t = 0; t < 25; ++t) {
      std::vector<Numbers> codes;
      for (std::size_t i = 0; i < 7; ++i) {
        x[i] = gradient_step(parts, static_cast<NodeId>(i), x[i], x[i]);
        for (std::size_t k = 0; k < 5; ++k) errors[i][k] += x[i][k];
        codes.push_back(test::keep_largest(errors[i], 2));
        for (std::size_t k = 0; k < 5; ++k) errors[i][k] -= codes[i][k];
      }
      for (std::size_t i = 0; i < 7; ++i) {
        for (std::size_t j = 0; j < 7; ++j) {
          for (std::size_t k = 0; k < 5; ++k)
            x[i][k] += 0.3 * w[i * 7 + j] * (codes[j][k] - codes[i][k]);
        }
      }
    }
    for (std::size_t i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k)
        CHECK(std::abs(test::model(recorder, static_cast<NodeId>(i), k) - x[i][k]) < 1e-5);
    }
  }
}

TEST_CASE("without compression DCD, ECD and DeepSqueeze are D-PSGD, up to rounding") {
  for (const std::string topology : {"ring", "star"}) {
    for (const auto& entry : {std::pair<std::string, std::string>{"dcd", "combine_while_adapt"},
                              {"ecd", "combine_while_adapt"},
                              {"deep_squeeze", "adapt_then_combine"}}) {
      CAPTURE(entry.first);
      const auto& [kind, order] = entry;
      const Recorder plain = run(section("dpsgd", "order = " + order), {}, 60, topology);
      // ECD's estimates multiply differences of z by 2/t and gain t/3 roundings on the way.
      CHECK(test::largest_difference(run(section(kind), {}, 60, topology), plain) < 2e-5);
    }
  }
}

TEST_CASE("DCD-PSGD stays where it is if nothing pushes it: codes of zero are zero") {
  // Equal minima at the start 100: every gradient is 0, so is z, and C(z). ECD sends extrapolations, not differences.
  const std::vector<std::string> at_rest{"workload.start=100", "workload.centers=list",
                                         "workload.center_values=100"};
  for (const std::string codec : {"none", "half", "sign", "one_bit", "ternary", "levels",
                                  "top_k\nkeep = 0.4", "random_k\nkeep = 0.4\nunbiased = yes"}) {
    CAPTURE(codec);
    const Recorder recorder = run(section("dcd", "compression = " + codec), at_rest);
    for (const auto& x : recorder.models) CHECK(x == std::vector<float>(5, 100.0F));
  }
}

TEST_CASE("DCD-PSGD with unbiased codes brings every node to a common optimum, exactly") {
  // At the optimum z is 0, and so is what C loses: the noise dies out with the differences.
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3"};
  for (const std::string codec : {"levels", "ternary", "random_k\nkeep = 0.6\nunbiased = yes"}) {
    CAPTURE(codec);
    const Recorder recorder = run(section("dcd", "compression = " + codec), equal, 600);
    for (NodeId i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k)
        CHECK(test::model(recorder, i, k) == doctest::Approx(3).epsilon(1e-4));
    }
  }
}

TEST_CASE("the error of ECD-PSGD falls with the number of steps") {
  // Levels of a 127th of the norm of z, which grows with t: a constant quantizer would do no worse at step 100 than at
  // 1600. The code of step t enters the estimate with 2/t, so the variance of estimates falls like 1/t: 4 times less error.
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3"};
  const auto error = [&](int steps) {
    const Recorder recorder =
        run(section("ecd", "compression = levels\nlevels = 127\nbucket = 0"), equal, steps);
    double squares = 0;
    for (NodeId i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k) squares += std::pow(test::model(recorder, i, k) - 3, 2);
    }
    return std::sqrt(squares / 35);
  };
  const double late = error(1600);
  CHECK(late > 0);
  CHECK(late < 0.5 * error(100));
}

TEST_CASE("the mean model of DeepSqueeze moves by the mean gradient, whatever the codec") {
  // Mixing adds sum_j W_ij (Q(v_j) - Q(v_i)), which sums to 0 over i: mean = 3 (1 - 0.9^k) from 0.
  for (const std::string codec :
       {"sign", "one_bit", "ternary", "half", "top_k\nkeep = 0.4", "random_k\nkeep = 0.4"}) {
    CAPTURE(codec);
    const Recorder recorder =
        run(section("deep_squeeze", "consensus_rate = 0.1\ncompression = " + codec),
            {"workload.centers=index"}, 40);
    CHECK(test::mean_model(recorder, 2) ==
          doctest::Approx(3 * (1 - std::pow(0.9, 40))).epsilon(1e-5));
  }
}

TEST_CASE("DeepSqueeze brings nodes together although it sends two entries of five") {
  const std::vector<std::string> one_push = test::gradients_until(1, {"workload.centers=index"});
  const Recorder recorder =
      run(section("deep_squeeze", "consensus_rate = 0.1\ncompression = top_k\nkeep = 0.4"),
          one_push, 600);
  for (NodeId i = 0; i < 7; ++i) CHECK(std::abs(test::model(recorder, i, 0) - 0.3) < 0.05);
}

TEST_CASE("DCD, ECD and DeepSqueeze send one code to each neighbor a step") {
  // 7 levels of 5 entries: a norm and 5 fields of 4 bits, 4 + 3 bytes; two neighbors, 60 steps.
  for (const std::string kind : {"dcd", "ecd", "deep_squeeze"}) {
    const std::string rate = kind == "deep_squeeze" ? "\nconsensus_rate = 0.1" : "";
    const Recorder recorder = run(section(kind, "compression = levels" + rate));
    CHECK(recorder.nodes[2].bytes_sent == 60 * 2 * 7);
  }
}

TEST_CASE("DCD, ECD and DeepSqueeze refuse lattice codes and topologies they cannot follow") {
  for (const std::string kind : {"dcd", "ecd", "deep_squeeze"}) {
    CHECK_THROWS_WITH_AS(run(section(kind, "compression = lattice\ncell = 1\n")),
                         doctest::Contains("compression must be one of none, half,"),
                         ScenarioError);
    CHECK_THROWS_WITH_AS(run(section(kind), {}, 3, "one_peer_exponential"),
                         doctest::Contains("does not change"), ScenarioError);
    CHECK_THROWS_WITH_AS(run(section(kind), {}, 3, "exponential"), doctest::Contains("symmetric"),
                         ScenarioError);
  }
}
