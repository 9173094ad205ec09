#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/block_averaging.hpp"

using namespace starling;

namespace {

Recorder run(int steps, const std::string& algorithm, std::vector<std::string> overrides = {}) {
  overrides.emplace_back("workload.dimension=32");
  return test::run(
      test::quadratic_scenario(4, steps, "complete", algorithm + "\nlearning_rate = 0.05\n"),
      overrides);
}

}  // namespace

TEST_CASE("two phases without compression are allreduce SGD") {
  const std::string settings = "momentum = 0.8\nweight_decay = 0.01\n";
  const Recorder recorder = run(30, "kind = one_bit\ncompression = none\n" + settings);
  CHECK(test::largest_difference(recorder, run(30, "kind = allreduce\n" + settings)) < 2e-6);
  for (const auto& x : recorder.models) CHECK(x == recorder.models[0]);
}

TEST_CASE("before compression begins steps are exact, and cost as much") {
  // 10 steps: 6 messages of 8 floats each; then 6 of 9 bytes.
  const Recorder start = run(10, "kind = one_bit\nexact_steps = 10\n");
  CHECK(test::largest_difference(start, run(10, "kind = allreduce\n")) < 2e-6);
  const Recorder whole = run(30, "kind = one_bit\nexact_steps = 10\n");
  for (const NodeTotals& node : whole.nodes) {
    CHECK(node.bytes_sent == 10 * 6 * 32 + 20 * 6 * 9);
  }
  CHECK_THROWS_AS(run(1, "kind = one_bit\nexact_steps = -1\n"), ScenarioError);
}

TEST_CASE("one bit per entry is exact where all entries of a piece are equal") {
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3",
                                       "workload.curvature_min=1", "workload.curvature_max=1"};
  CHECK(test::largest_difference(run(30, "kind = one_bit\n", equal),
                                 run(30, "kind = allreduce\n", equal)) < 2e-6);
}

TEST_CASE("a node sends two bits per entry and four values per piece, less its own piece") {
  // 4 nodes own 8 entries each: a code is 8 + 1 bytes, three of either phase.
  const Recorder recorder = run(30, "kind = one_bit\n");
  for (const NodeTotals& node : recorder.nodes) {
    CHECK(node.bytes_sent == 30 * 6 * 9);
    CHECK(node.messages_sent == 30 * 6);
  }
  for (const auto& x : recorder.models) CHECK(x == recorder.models[0]);
}

TEST_CASE("nothing is lost in either phase") {
  // Gradients are noise; the learning rate vanishes after 20 steps. Of 8 entries of a piece 2 go per step: all
  // residuals have drained 4 steps after that in phase 1, 4 more in phase 2.
  const std::string settings = "schedule = step\ndecay_steps = 20\ndecay_factor = 1e-30\n";
  const std::vector<std::string> noise{"workload.curvature_min=0", "workload.curvature_max=0",
                                       "workload.noise=1"};
  const std::string top_k = "kind = one_bit\ncompression = top_k\nkeep = 0.25\n";
  const Recorder exact = run(40, "kind = allreduce\n" + settings, noise);
  CHECK(test::largest_difference(run(40, top_k + settings, noise), exact) < 2e-6);
  CHECK(test::largest_difference(run(20, top_k + settings, noise), exact) > 1e-2);
}

TEST_CASE("one bit SGD solves its problems although it rounds") {
  const std::vector<std::string> centers{"workload.centers=index", "workload.curvature_min=1",
                                         "workload.curvature_max=1"};
  // x* = mean of 0 .. 3.
  const Recorder recorder = run(400, "kind = one_bit\n", centers);
  for (std::size_t k = 0; k < 32; ++k)
    CHECK(test::model(recorder, 0, k) == doctest::Approx(1.5).epsilon(0.02));
}
