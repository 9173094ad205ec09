// QG-DSGDm beside its recursion, and beside quasi-hyperbolic momentum where all average with all.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/algorithms/coded_gossip.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_quasi_global {

TEST_CASE("QG-DSGDm follows its recursion: momentum, step, mix, what really moved") {
  for (const std::string topology : {"ring", "star"}) {
    for (const bool nesterov : {false, true}) {
      // The rate falls to a tenth at step 15: what moved is divided by the rate that moved it.
      const std::string text = test::quadratic_scenario(
          7, 25, topology,
          test::coded_section("quasi_global",
                              "momentum = 0.8\nschedule = step\ndecay_steps = 15\nnesterov = " +
                                  std::string(nesterov ? "yes" : "no")));
      const Recorder recorder = test::run(text);
      const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
      const test::Numbers w = test::mixing_matrix(*parts.topology);
      std::vector<test::Numbers> x(7, test::Numbers(5));
      std::vector<test::Numbers> q = x;
      for (int t = 0; t < 25; ++t) {
        const double rate = t < 15 ? 0.1 : 0.01;
        std::vector<test::Numbers> y = x;
        for (std::size_t i = 0; i < 7; ++i) {
          const test::Numbers stepped =
              test::gradient_step(parts, static_cast<NodeId>(i), x[i], x[i]);
          for (std::size_t k = 0; k < 5; ++k) {
            const double g = (x[i][k] - stepped[k]) / 0.1;
            const double m = 0.8 * q[i][k] + g;
            y[i][k] -= rate * (nesterov ? g + 0.8 * m : m);
          }
        }
        for (std::size_t i = 0; i < 7; ++i) {
          for (std::size_t k = 0; k < 5; ++k) {
            double z = 0;
            for (std::size_t j = 0; j < 7; ++j) z += w[i * 7 + j] * y[j][k];
            q[i][k] = 0.8 * q[i][k] + 0.2 * (x[i][k] - z) / rate;
            x[i][k] = z;
          }
        }
      }
      for (std::size_t i = 0; i < 7; ++i) {
        for (std::size_t k = 0; k < 5; ++k)
          CHECK(std::abs(test::model(recorder, static_cast<NodeId>(i), k) - x[i][k]) < 1e-5);
      }
    }
  }
}

TEST_CASE(
    "where all average with all, QG-DSGDm is quasi-hyperbolic momentum on the mean gradient") {
  // All nodes have moved alike, by the mean of their m: with a = 1, c_i = i and b = 0.9 + 0.1 * 0.9
  //   x <- x - 0.1 (0.9 q + x - 3),   q <- b q + 0.1 (x - 3) with the x before.
  const Recorder recorder = test::coded_run(test::coded_section("quasi_global"),
                                            {"workload.centers=index"}, 30, "complete");
  double x = 0;
  double q = 0;
  for (int t = 0; t < 30; ++t) {
    const double g = x - 3;
    x -= 0.1 * (0.9 * q + g);
    q = (0.9 + 0.1 * 0.9) * q + 0.1 * g;
  }
  for (NodeId i = 0; i < 7; ++i)
    CHECK(test::model(recorder, i, 2) == doctest::Approx(x).epsilon(1e-5));
}

TEST_CASE("QG-DSGDm sends what D-PSGD sends, and is it without momentum") {
  const Recorder recorder = test::coded_run(test::coded_section("quasi_global"));
  CHECK(recorder.nodes[2].bytes_sent == 60 * 2 * 5 * 4);  // 5 floats to two neighbors, 60 steps
  CHECK(test::coded_run(test::coded_section("quasi_global", "momentum = 0")).models ==
        test::coded_run(test::coded_section("dpsgd", "order = adapt_then_combine")).models);
  CHECK_THROWS_WITH_AS(test::coded_run(test::coded_section("quasi_global", "optimizer = adam")),
                       doctest::Contains("optimizer must be sgd"), ScenarioError);
}

}  // namespace starling::test_quasi_global
