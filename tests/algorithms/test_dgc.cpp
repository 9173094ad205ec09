#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/block_averaging.hpp"

using namespace starling;

namespace {

/// 4 nodes, 32 parameters, 10 steps.
Recorder run(const std::string& algorithm, std::vector<std::string> overrides = {}) {
  overrides.emplace_back("workload.dimension=32");
  return test::run(
      test::quadratic_scenario(4, 10, "complete", algorithm + "\nlearning_rate = 0.0625\n"),
      overrides);
}

const std::string momentum = "momentum = 0.8\nweight_decay = 0.01\n";

}  // namespace

TEST_CASE("DGC that sends everything is momentum SGD without masking, plain SGD with it") {
  for (const std::string nesterov : {"no", "yes"}) {
    CHECK(test::largest_difference(
              run("kind = dgc\nkeep = 1\nmasking = no\nnesterov = " + nesterov + "\n" + momentum),
              run("kind = allreduce\nnesterov = " + nesterov + "\n" + momentum)) < 2e-6);
  }
  CHECK(test::largest_difference(run("kind = dgc\nkeep = 1\n" + momentum),
                                 run("kind = allreduce\nweight_decay = 0.01\n")) < 2e-6);
  CHECK(test::largest_difference(run("kind = dgc\nkeep = 1\n" + momentum),
                                 run("kind = allreduce\n" + momentum)) > 1e-2);
}

TEST_CASE(
    "without momentum DGC is error feedback: the learning rate, a power of two, may be in or out") {
  const Recorder dgc = run("kind = dgc\nkeep = 0.0625\n");
  CHECK(dgc.models == run("kind = allreduce\ncompression = top_k\nkeep = 0.0625\n").models);
  CHECK(dgc.nodes == run("kind = allreduce\ncompression = top_k\nkeep = 0.0625\n").nodes);
  for (const auto& x : dgc.models) CHECK(x == dgc.models[0]);
}

TEST_CASE("the warm-up sends the listed shares, each for its stretch") {
  // Of 32 entries 16 for two steps, 8 for two, then 2 for six, 8 bytes each, over three messages of the ring.
  const Recorder recorder = run(
      "kind = dgc\nkeep = 0.0625\nwarmup_keep = 0.5, 0.25\nwarmup_period = 2\nmomentum = 0.9\n");
  for (const NodeTotals& node : recorder.nodes) {
    CHECK(node.bytes_sent == 3 * 8 * (2 * 16 + 2 * 8 + 6 * 2));
  }
}

TEST_CASE("gradients are clipped to the root of n-th part of the norm that their sum may have") {
  // All gradients are -100 in each of 32 entries at first: clipped to norm 2 / sqrt(4) = 1, one step is 0.0625 long.
  const Recorder recorder = test::run(
      test::quadratic_scenario(4, 1, "complete",
                               "kind = dgc\nkeep = 1\nclip_norm = 2\nlearning_rate = 0.0625\n"),
      {"workload.dimension=32", "workload.centers=list", "workload.center_values=100"});
  for (std::size_t k = 0; k < 32; ++k)
    CHECK(test::model(recorder, 0, k) == doctest::Approx(0.0625 / std::sqrt(32)));
}

TEST_CASE("DGC refuses shares that are none, and other optimizers") {
  CHECK_THROWS_AS(run("kind = dgc\nkeep = 0\n"), ScenarioError);
  CHECK_THROWS_AS(run("kind = dgc\nwarmup_keep = 0.5, 1.5\n"), ScenarioError);
  CHECK_THROWS_AS(run("kind = dgc\noptimizer = adam\n"), ScenarioError);
}
