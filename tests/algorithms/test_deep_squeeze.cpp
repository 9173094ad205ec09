// DeepSqueeze beside its recursion, and that its mean moves as without codes.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/algorithms/coded_gossip.hpp"
#include "tests/algorithms/naive_codec.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_deep_squeeze {

TEST_CASE("DeepSqueeze follows its recursion: step, feed back, send, mix") {
  for (const std::string topology : {"ring", "star"}) {
    const std::string text = test::quadratic_scenario(
        7, 25, topology,
        test::coded_section("deep_squeeze",
                            "consensus_rate = 0.3\ncompression = top_k\nkeep = 0.4"));
    const Recorder recorder = test::run(text);
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    const test::Numbers w = test::mixing_matrix(*parts.topology);
    std::vector<test::Numbers> x(7, test::Numbers(5));
    std::vector<test::Numbers> errors = x;
    for (int t = 0; t < 25; ++t) {
      std::vector<test::Numbers> codes;
      for (std::size_t i = 0; i < 7; ++i) {
        x[i] = test::gradient_step(parts, static_cast<NodeId>(i), x[i], x[i]);
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

TEST_CASE("the mean model of DeepSqueeze moves by the mean gradient, whatever the codec") {
  // Mixing adds sum_j W_ij (Q(v_j) - Q(v_i)), which sums to 0 over i: mean = 3 (1 - 0.9^k) from 0.
  for (const std::string codec :
       {"sign", "one_bit", "ternary", "half", "top_k\nkeep = 0.4", "random_k\nkeep = 0.4"}) {
    CAPTURE(codec);
    const Recorder recorder = test::coded_run(
        test::coded_section("deep_squeeze", "consensus_rate = 0.1\ncompression = " + codec),
        {"workload.centers=index"}, 40);
    CHECK(test::mean_model(recorder, 2) ==
          doctest::Approx(3 * (1 - std::pow(0.9, 40))).epsilon(1e-5));
  }
}

TEST_CASE("DeepSqueeze brings nodes together although it sends two entries of five") {
  const std::vector<std::string> one_push = test::gradients_until(1, {"workload.centers=index"});
  const Recorder recorder = test::coded_run(
      test::coded_section("deep_squeeze", "consensus_rate = 0.1\ncompression = top_k\nkeep = 0.4"),
      one_push, 600);
  for (NodeId i = 0; i < 7; ++i) CHECK(std::abs(test::model(recorder, i, 0) - 0.3) < 0.05);
}

TEST_CASE("without compression DeepSqueeze is D-PSGD, up to rounding") {
  test::check_without_compression("deep_squeeze", "adapt_then_combine");
}

TEST_CASE("DeepSqueeze sends one code to each neighbor a step") {
  test::check_bytes("deep_squeeze", "\nconsensus_rate = 0.1");
}

TEST_CASE("DeepSqueeze refuses lattice codes and topologies it cannot follow") {
  test::check_refusals("deep_squeeze");
}

}  // namespace starling::test_deep_squeeze
