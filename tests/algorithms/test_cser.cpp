// CSER beside its recursion, what is left of its models without their errors, and what it sends.
#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_cser {
namespace {

Recorder run(const std::string& algorithm, const std::vector<std::string>& overrides = {}) {
  return test::run_complete(30, 8, algorithm + "\nlearning_rate = 0.05\n", overrides);
}

/// Models of all nodes at the end of CSER on f_i = 1/2 |x - i|^2 in 8 dimensions, 4 blocks, 2 of resets, 30 steps, in
/// double. On the way the models less their errors must be one model.
std::vector<std::vector<double>> reference(int reset_period) {
  std::vector<std::vector<double>> x(4, std::vector<double>(8)), e = x;
  const auto synchronize = [](std::vector<std::vector<double>>& v, std::size_t begin,
                              std::size_t end) {  // answers what did not travel
    auto rest = v;
    for (std::size_t j = begin; j < end; ++j) {
      const double mean = (v[0][j] + v[1][j] + v[2][j] + v[3][j]) / 4;
      for (std::size_t i = 0; i < 4; ++i) {
        v[i][j] = mean;
        rest[i][j] = 0;
      }
    }
    return rest;
  };
  for (int k = 0; k < 30; ++k) {
    auto s = x;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 8; ++j) s[i][j] = 0.05 * (x[i][j] - static_cast<double>(i));
    }
    const std::size_t block = Random(1, "block", shared_stream, k).below(4);
    const auto rest = synchronize(s, 2 * block, 2 * block + 2);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        x[i][j] -= s[i][j];
        e[i][j] -= rest[i][j];
      }
    }
    if ((k + 1) % reset_period == 0) {
      const std::size_t half = Random(1, "reset", shared_stream, k).below(2);
      auto mixed = e;
      const auto left = synchronize(mixed, 4 * half, 4 * half + 4);
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t j = 0; j < 8; ++j) x[i][j] += mixed[i][j] - e[i][j];
      }
      e = left;
    }
    for (std::size_t j = 0; j < 8; ++j) {
      for (std::size_t i = 1; i < 4; ++i)
        CHECK(x[i][j] - e[i][j] == doctest::Approx(x[0][j] - e[0][j]));
    }
  }
  return x;
}

}  // namespace

TEST_CASE("CSER with one block is allreduce SGD, and its steps kept at home are local SGD") {
  const std::string settings = "momentum = 0.8\nweight_decay = 0.01\n";
  const std::vector<std::string> centers{"workload.centers=index"};
  CHECK(test::largest_difference(run("kind = cser\nblocks = 1\n" + settings, centers),
                                 run("kind = allreduce\n" + settings, centers)) < 2e-6);
  CHECK(
      test::largest_difference(
          run("kind = cser\nblocks = 0\nreset_period = 5\nreset_blocks = 1\n" + settings, centers),
          run("kind = local_sgd\nperiod = 5\nmomentum_policy = keep\n" + settings, centers)) <
      2e-6);
}

TEST_CASE("CSER follows its recursion, and models less their errors are one model") {
  for (const int period : {1, 4, 7}) {
    const Recorder recorder =
        run("kind = cser\nblocks = 4\nreset_blocks = 2\nmomentum = 0\n"
            "reset_period = " +
                std::to_string(period) + "\n",
            {"workload.centers=index"});
    const auto x = reference(period);
    for (NodeId i = 0; i < 4; ++i) {
      for (std::size_t k = 0; k < 8; ++k)
        CHECK(test::model(recorder, i, k) ==
              doctest::Approx(x[static_cast<std::size_t>(i)][k]).epsilon(1e-5));
    }
    CHECK_FALSE(test::nodes_agree(recorder));
  }
}

TEST_CASE("the mean model of CSER is that of allreduce SGD where gradients do not depend on it") {
  const std::vector<std::string> noise{"workload.curvature_min=0", "workload.curvature_max=0",
                                       "workload.noise=1"};
  const Recorder exact = run("kind = allreduce\nmomentum = 0.5\n", noise);
  for (const char* blocks : {"0", "4"}) {
    const Recorder bifurcated =
        run(std::string("kind = cser\nreset_period = 4\nmomentum = 0.5\nblocks = ") + blocks + "\n",
            noise);
    CHECK_FALSE(test::nodes_agree(bifurcated));
    for (std::size_t k = 0; k < 8; ++k)
      CHECK(std::abs(test::mean_model(bifurcated, k) - test::mean_model(exact, k)) < 1e-6);
  }
}

TEST_CASE("one block of CSER travels per step, and one per reset") {
  // Around a ring of 4 nodes, 2 * 3/4 of 16 of the 64 floats at each of 30 steps and of 32 floats at each of 6 resets.
  const Recorder recorder =
      test::run(test::quadratic_scenario(4, 30, "complete",
                                         "kind = cser\nblocks = 4\nreset_period = 5\nreset_blocks "
                                         "= 2\ncollective = ring\nlearning_rate = 0.05\n"),
                {"workload.dimension=64"});
  for (const NodeTotals& node : recorder.nodes) CHECK(node.bytes_sent == 30 * 96 + 6 * 192);
}

TEST_CASE("CSER of which nothing would travel is refused") {
  CHECK_THROWS_WITH_AS(
      run("kind = cser\nblocks = 0\nreset_period = 0\n"),
      doctest::Contains(
          "algorithm.reset_period must be at least 1 with blocks = 0: nothing would travel"),
      ScenarioError);
}

}  // namespace starling::test_cser
