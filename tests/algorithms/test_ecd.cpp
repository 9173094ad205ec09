// ECD-PSGD beside a twin with an estimate per neighbor, and the error of its estimates.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/algorithms/coded_gossip.hpp"
#include "tests/algorithms/naive_codec.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_ecd {

TEST_CASE("ECD-PSGD with one vector beside the model is the one with an estimate per neighbor") {
  for (const std::string topology : {"ring", "star"}) {
    const std::string text = test::quadratic_scenario(
        7, 12, topology, test::coded_section("ecd", "compression = top_k\nkeep = 0.4"));
    const Recorder recorder = test::run(text);
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    const test::Numbers w = test::mixing_matrix(*parts.topology);
    std::vector<test::Numbers> x(7, test::Numbers(5));
    std::vector<std::vector<test::Numbers>> estimates(7, x);  // of node j at node i
    for (int t = 1; t <= 12; ++t) {
      std::vector<test::Numbers> next(7, test::Numbers(5));
      std::vector<test::Numbers> codes;
      for (std::size_t i = 0; i < 7; ++i) {
        next[i] = test::gradient_step(parts, static_cast<NodeId>(i), test::Numbers(5), x[i]);
        test::Numbers z(5);
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

TEST_CASE("the error of ECD-PSGD falls with the number of steps") {
  // Levels of a 127th of the norm of z, which grows with t: a constant quantizer would do no worse at step 100 than at
  // 1600. The code of step t enters the estimate with 2/t, so the variance of estimates falls like 1/t: 4 times less error.
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3"};
  const auto error = [&](int steps) {
    const Recorder recorder = test::coded_run(
        test::coded_section("ecd", "compression = levels\nlevels = 127\nbucket = 0"), equal, steps);
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

TEST_CASE("without compression ECD-PSGD is D-PSGD, up to rounding") {
  test::check_without_compression("ecd", "combine_while_adapt");
}

TEST_CASE("ECD-PSGD sends one code to each neighbor a step") { test::check_bytes("ecd"); }

TEST_CASE("ECD-PSGD refuses lattice codes and topologies it cannot follow") {
  test::check_refusals("ecd");
}

}  // namespace starling::test_ecd
