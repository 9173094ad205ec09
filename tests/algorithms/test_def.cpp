// DEF and SAEF beside their recursions of blocks with error feedback, and what they send.
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/random.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_def {
namespace {

Recorder run(const std::string& algorithm, const std::vector<std::string>& overrides = {}) {
  return test::run_complete(30, 8, algorithm + "\nlearning_rate = 0.05\n", overrides);
}

/// The shared model, and what has not travelled yet of each node.
struct State {
  std::vector<double> x;
  std::vector<std::vector<double>> p;
};

/// The end of DEF on f_i = 1/2 |x - i|^2 in 8 dimensions, 4 blocks, 30 steps, in double; residuals are averaged after every
/// `residual_period`-th exchange, if any.
State reference(double lambda, int period, int residual_period = 0) {
  std::vector<double> x(8);
  std::vector<std::vector<double>> p(4, x), y(4, x);
  for (int k = 0; k < 30; ++k) {
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        const double step = 0.05 * (y[i][j] - static_cast<double>(i));
        y[i][j] -= step;
        p[i][j] += step;
      }
    }
    if ((k + 1) % period != 0 && k != 29) continue;
    const std::size_t block = Random(1, "block", shared_stream, k).below(4);
    for (std::size_t j = 2 * block; j < 2 * block + 2; ++j) {
      x[j] -= (p[0][j] + p[1][j] + p[2][j] + p[3][j]) / 4;
      for (auto& rest : p) rest[j] = 0;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 8; ++j) y[i][j] = x[j] - lambda * p[i][j];
    }
    const bool is_whole = (k + 1) % period == 0;
    if (residual_period == 0 || !is_whole || (k + 1) / period % residual_period != 0) continue;
    for (std::size_t j = 0; j < 8; ++j) {
      const double mean = (p[0][j] + p[1][j] + p[2][j] + p[3][j]) / 4;
      for (auto& rest : p) rest[j] = mean;
    }
  }
  return {x, p};
}

}  // namespace

TEST_CASE("DEF with one block is allreduce SGD, however far it looks ahead") {
  const std::string settings = "momentum = 0.8\nweight_decay = 0.01\n";
  CHECK(test::largest_difference(run("kind = def\nblocks = 1\nlambda = 0.7\n" + settings),
                                 run("kind = allreduce\n" + settings)) < 2e-6);
}

TEST_CASE("DEF follows its recursion: error feedback, halfway and all the way ahead, local steps") {
  for (const double lambda : {0.0, 0.3, 1.0}) {
    for (const int period : {1, 3}) {
      const Recorder recorder =
          run("kind = def\nblocks = 4\nmomentum = 0\nlambda = " + std::to_string(lambda) +
                  "\nperiod = " + std::to_string(period) + "\n",
              {"workload.centers=index"});
      const std::vector<double> x = reference(lambda, period).x;
      for (std::size_t k = 0; k < 8; ++k) {
        CHECK(test::model(recorder, 0, k) == doctest::Approx(x[k]).epsilon(1e-5));
      }
      CHECK(test::nodes_agree(recorder));
    }
  }
}

TEST_CASE("residuals that are averaged follow the recursion of SAEF, and travel whole") {
  // Averages after every fourth exchange, of 30 or 15. What each node has not sent shows in the model of DEF-A, x - p_i.
  for (const int period : {1, 2}) {
    const std::string algorithm =
        "kind = def\nblocks = 4\nmomentum = 0\nlambda = 1\nevaluate = averaged\ncollective = "
        "recursive_doubling\nperiod = " +
        std::to_string(period);
    const std::vector<std::string> centers{"workload.centers=index"};
    const Recorder plain = run(algorithm, centers);
    const Recorder averaged = run(algorithm + "\nresidual_period = 4", centers);
    const State end = reference(1, period, 4);
    for (NodeId i = 0; i < 4; ++i) {
      for (std::size_t k = 0; k < 8; ++k) {
        const double model = end.x[k] - end.p[static_cast<std::size_t>(i)][k];
        CHECK(test::model(averaged, i, k) == doctest::Approx(model).epsilon(1e-5));
      }
    }
    CHECK(test::largest_difference(plain, averaged) > 1e-3);
    // 7 or 3 averages of 8 floats, two messages each.
    const std::int64_t averages = period == 1 ? 7 : 3;
    CHECK(averaged.nodes[0].bytes_sent - plain.nodes[0].bytes_sent == averages * 2 * 32);
  }
}

TEST_CASE(
    "the averaged model of DEF-A has lost nothing: x - mean e is x_0 - sum learning_rate * mean "
    "g") {
  // Without curvature gradients are their noise, the same for both algorithms.
  const std::vector<std::string> noise{"workload.curvature_min=0", "workload.curvature_max=0",
                                       "workload.noise=1"};
  const Recorder averaged =
      run("kind = def\nblocks = 4\nevaluate = averaged\nmomentum = 0.5\n", noise);
  const Recorder shared = run("kind = def\nblocks = 4\nmomentum = 0.5\n", noise);
  const Recorder exact = run("kind = allreduce\nmomentum = 0.5\n", noise);
  double lag = 0;
  for (std::size_t k = 0; k < 8; ++k) {
    CHECK(std::abs(test::mean_model(averaged, k) - test::mean_model(exact, k)) < 1e-6);
    lag = std::fmax(lag, std::abs(test::mean_model(shared, k) - test::mean_model(exact, k)));
  }
  CHECK(lag > 1e-2);
}

TEST_CASE("one block travels per exchange, without positions") {
  // 64 floats in 4 blocks: 16 of them around a ring of 4 nodes, 2 * 3/4 of 64 bytes.
  const Recorder recorder =
      test::run(test::quadratic_scenario(4, 30, "complete",
                                         "kind = def\nblocks = 4\nperiod = 2\ncollective = "
                                         "ring\nlearning_rate = 0.05\n"),
                {"workload.dimension=64"});
  for (const NodeTotals& node : recorder.nodes) CHECK(node.bytes_sent == 15 * 96);
}

TEST_CASE("one block of each tensor travels, drawn for each, or one of the whole model") {
  // Tensors of 64 x 32, 32, 32 x 10 and 10 floats in 4 blocks; recursive doubling, four nodes: two messages per step.
  const auto digits = [](const std::string& algorithm) {
    return test::run(fmt::format(
        "[run]\nnodes = 4\nsteps = 12\n[topology]\nkind = complete\n[network]\nkind = "
        "constant\nlatency = 10 us\n[compute]\ngradient = 1 ms\n[workload]\nkind = mlp\ndataset "
        "= digits\nhidden = 32\nbatch_size = 16\n[algorithm]\nlearning_rate = 0.05\ncollective = "
        "recursive_doubling\n{}\n",
        algorithm));
  };
  std::int64_t floats = 0;
  std::int64_t of_model = 0;
  for (int k = 0; k < 12; ++k) {
    Random random(1, "block", shared_stream, k);
    for (const std::size_t size : {2048UL, 32UL, 320UL, 10UL}) {
      const std::size_t block = random.below(4);
      floats += static_cast<std::int64_t>((block + 1) * size / 4 - block * size / 4);
    }
    const std::size_t block = Random(1, "block", shared_stream, k).below(4);
    of_model += static_cast<std::int64_t>((block + 1) * 2410 / 4 - block * 2410 / 4);
  }
  CHECK(floats > 12 * (512 + 8 + 80 + 2));
  const Recorder tensors = digits("kind = def\nblocks = 4");
  const Recorder model = digits("kind = def\nblocks = 4\nunit = model");
  for (const NodeTotals& node : tensors.nodes) CHECK(node.bytes_sent == 2 * 4 * floats);
  for (const NodeTotals& node : model.nodes) CHECK(node.bytes_sent == 2 * 4 * of_model);
  CHECK(test::nodes_agree(tensors));
  CHECK(test::largest_difference(digits("kind = def\nblocks = 1"),
                                 digits("kind = allreduce\nmomentum = 0.9")) < 1e-5);
}

TEST_CASE("a tensor of DEF travels once all its blocks were drawn") {
  // Without curvature gradients are their noise: what has travelled of an entry is the sum of the steps up to the last time
  // its block was drawn, so x of DEF equals x of DEF-A exactly where the last step's block lies.
  const std::vector<std::string> noise{"workload.curvature_min=0", "workload.curvature_max=0",
                                       "workload.noise=1"};
  const Recorder averaged = run("kind = def\nblocks = 4\nevaluate = averaged\n", noise);
  const Recorder shared = run("kind = def\nblocks = 4\n", noise);
  const std::size_t block = Random(1, "block", shared_stream, 29).below(4);
  for (std::size_t k = 0; k < 8; ++k) {
    const double lag = std::abs(test::mean_model(averaged, k) - test::mean_model(shared, k));
    CHECK((lag < 1e-6) == (k / 2 == block));
  }
}

}  // namespace starling::test_def
