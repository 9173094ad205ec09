// Moniqua beside D-PSGD, up to the error of its quantizer; its mean, its bound theta, and what it sends.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_moniqua {
namespace {

const std::string moniqua = "kind = moniqua\nlearning_rate = 0.1\n";
const std::vector<std::string> by_index{"workload.centers=index"};

Recorder run(const std::string& keys, const std::vector<std::string>& overrides = {},
             int steps = 60) {
  return test::run(test::quadratic_scenario(6, steps, "ring", keys), overrides);
}

}  // namespace

TEST_CASE("Moniqua is D-PSGD up to the error of its quantizer") {
  // A step adds at most 2/3 * 2 d B of error to a model (two neighbors of weight 1/3), d B = theta / (2^bits - 1) being
  // half a cell, and errors shrink by at least 1 - lr a_min = 0.95 a step: in all at most 20 * 4/3 * theta/(2^bits - 1).
  // Both take gradient and weight decay at the model before it was mixed.
  const std::string decay = "weight_decay = 0.5\n";
  const Recorder plain = run("kind = dpsgd\nlearning_rate = 0.1\n" + decay);
  for (const int bits : {6, 8, 12, 16}) {
    for (const std::string rounding : {"nearest", "shifted"}) {
      CAPTURE(bits);
      const Recorder recorder = run(moniqua + decay + "theta = 2\nbits = " + std::to_string(bits) +
                                    "\nrounding = " + rounding);
      const double half_cell = 2 / (std::pow(2, bits) - 1);
      const double difference = test::largest_difference(recorder, plain);
      CHECK(difference < 20 * 4.0 / 3 * half_cell);
      CHECK(difference > 0.01 * half_cell);
    }
  }
}

TEST_CASE("the mean model of Moniqua moves by the mean gradient, with two bits, too") {
  // Own models count as the others see them: mixing adds sum_j W_ij (Q(x_j) - Q(x_i)), which sums to 0 over i.
  for (const std::string keys : {"bits = 2\ntheta = 4", "bits = 8\ntheta = 4\nrounding = shifted",
                                 "bits = 1\ntheta = 4\nconsensus_rate = 0.3"}) {
    const Recorder recorder = run(moniqua + keys, by_index, 40);
    CHECK(test::mean_model(recorder, 1) ==
          doctest::Approx(2.5 * (1 - std::pow(0.9, 40))).epsilon(1e-5));
  }
}

TEST_CASE("nodes of Moniqua that agree stay where they are") {
  // Equal models make equal codes, also with random offsets: sum_j W_ij (Q - Q) = 0. Minima at the start: no gradient.
  for (const std::string rounding : {"nearest", "shifted"}) {
    const Recorder recorder =
        run(moniqua + "bits = 3\nrounding = " + rounding,
            {"workload.start=0.377", "workload.centers=list", "workload.center_values=0.377"});
    for (const auto& x : recorder.models) {
      for (const float value : x) CHECK(value == doctest::Approx(0.377).epsilon(1e-6));
    }
  }
}

TEST_CASE("a theta that models exceed shows as models that differ by it") {
  // Neighbors' models differ by some 0.3 here (lr 0.1, minima 0 .. 5). theta 4 reads them right and averages; with 0.02 a
  // neighbor is always read within theta of oneself, so no mixing step gains on the push of 0.1 (i - x): nodes end next
  // to their own minima, a spread of 2.5 around the mean instead of 1.
  const auto spread = [](const Recorder& recorder) {
    return test::model(recorder, 5, 0) - test::model(recorder, 0, 0);
  };
  const double plain = spread(run("kind = dpsgd\nlearning_rate = 0.1", by_index, 200));
  const double wide = spread(run(moniqua + "theta = 4", by_index, 200));
  const double narrow = spread(run(moniqua + "theta = 0.02", by_index, 200));
  CHECK(std::abs(wide - plain) < 2 * 4.0 / 255);  // a cell
  CHECK(narrow > 2 * plain);
}

TEST_CASE("a message of Moniqua has bits / 8 bytes per entry") {
  // 5 entries of 8 bits, two neighbors, 60 steps; 3 bits: 15 bits are 2 bytes.
  CHECK(run(moniqua).nodes[0].bytes_sent == 60 * 2 * 5);
  CHECK(run(moniqua + "bits = 3").nodes[0].bytes_sent == 60 * 2 * 2);
}

TEST_CASE("lattice codes are Moniqua in D-PSGD, D2 and AD-PSGD") {
  // cell = 2 theta / (2^bits - 1): in D-PSGD the same numbers to the bit.
  const Recorder own = run(moniqua + "theta = 2.55\nbits = 8");
  const Recorder lattice =
      run("kind = dpsgd\nlearning_rate = 0.1\ncompression = lattice\ncell = 0.02\nshifted = no");
  CHECK(own.models == lattice.models);

  for (const std::string kind : {"d2\nmixing = exact_diffusion", "adpsgd", "pairwise_gossip"}) {
    CAPTURE(kind);
    const std::string text = "kind = " + kind + "\nlearning_rate = 0.1";
    const Recorder plain = run(text, {}, 300);
    const Recorder coded = run(text + "\ncompression = lattice\ncell = 1e-4\nbits = 16", {}, 300);
    CHECK(test::largest_difference(plain, coded) < 0.01);
    CHECK(coded.nodes[0].bytes_sent < 0.6 * static_cast<double>(plain.nodes[0].bytes_sent));
  }
}

TEST_CASE("Moniqua refuses bounds and bits that make no code") {
  CHECK_THROWS_WITH_AS(run(moniqua + "theta = 0"), doctest::Contains("must be positive, got 0"),
                       ScenarioError);
  // So small a cell would be 0.
  CHECK_THROWS_WITH_AS(run(moniqua + "theta = 5e-324"),
                       doctest::Contains("must be from 1.18e-38 to 3.4e+38, got 5e-324"),
                       ScenarioError);
  CHECK_NOTHROW(run(moniqua + "theta = 1.2e-38\nbits = 24", {}, 2));
  CHECK_THROWS_WITH_AS(run(moniqua + "bits = 25"),
                       doctest::Contains("must be from 1 to 24, got 25"), ScenarioError);
}

}  // namespace starling::test_moniqua
