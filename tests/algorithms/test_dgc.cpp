// DGC beside momentum SGD and error feedback; the entries that it chooses, its warm-up and its clipping.
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_dgc {
namespace {

/// 4 nodes, 32 parameters, 10 steps.
Recorder run(const std::string& algorithm, const std::vector<std::string>& overrides = {}) {
  return test::run_complete(10, 32, algorithm + "\nlearning_rate = 0.0625\n", overrides);
}

/// 4 nodes learn digits with an MLP of tensors of 64 x 32, 32, 32 x 10 and 10 floats.
std::string digits(int steps, const std::string& algorithm) {
  return fmt::format(
      "[run]\nnodes = 4\nsteps = {}\n[topology]\nkind = complete\n[network]\nkind = constant\n"
      "latency = 10 us\n[compute]\ngradient = 1 ms\n[workload]\nkind = mlp\ndataset = digits\n"
      "hidden = 32\nbatch_size = 16\n[algorithm]\nlearning_rate = 0.0625\n{}\n",
      steps, algorithm);
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
  const std::string own = "kind = dgc\nkeep = 0.0625\nmomentum = 0\n";
  const std::string feedback = "kind = allreduce\ncompression = top_k\nkeep = 0.0625\n";
  const std::string falls = "schedule = step\ndecay_steps = 4, 7\ndecay_factor = 0.25\n";
  for (const std::string& schedule : {std::string(), falls}) {
    const Recorder dgc = run(own + schedule);
    CHECK(dgc.models == run(feedback + schedule).models);
    CHECK(dgc.nodes == run(feedback + schedule).nodes);
    CHECK(test::nodes_agree(dgc));
  }
  CHECK(run(own + falls + "rescale_residual = no\n").models != run(own + falls).models);
  // Every other step at a rate of 0, the others at half the rate: nothing that waits is lost.
  CHECK(
      run(own + "schedule = cyclic\ncycle_steps = 2\ncycle_floor = 0\n", {"run.steps=19"}).models ==
      run(own, {"algorithm.learning_rate=0.03125"}).models);
}

TEST_CASE("without momentum DGC of tensors is error feedback whose codes are of tensors") {
  const std::string keep = "keep = 0.01\n";
  const Recorder dgc = test::run(digits(5, "kind = dgc\nmomentum = 0\n" + keep));
  const std::string top_k = "kind = allreduce\ncompression = top_k\n" + keep;
  CHECK(dgc.models == test::run(digits(5, top_k + "unit = tensors")).models);
  CHECK(dgc.models != test::run(digits(5, top_k)).models);
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

TEST_CASE("DGC has momentum 0.9 unless told otherwise") {
  const std::string sparse = "kind = dgc\nkeep = 0.0625\n";
  CHECK(run(sparse).models == run(sparse + "momentum = 0.9\n").models);
  CHECK(run(sparse).models != run(sparse + "momentum = 0\n").models);
}

TEST_CASE("DGC chooses from each tensor, at least one entry, or from the whole model") {
  // A hundredth of 2048, 32, 320 and 10 entries: 20, 1 (of 0.32), 3, 1 (of 0.1); of all 2410: 24. Three messages per step.
  const Recorder tensors = test::run(digits(10, "kind = dgc\nkeep = 0.01"));
  const Recorder model = test::run(digits(10, "kind = dgc\nkeep = 0.01\nunit = model"));
  for (const NodeTotals& node : tensors.nodes) CHECK(node.bytes_sent == 10 * 3 * 8 * 25);
  for (const NodeTotals& node : model.nodes) CHECK(node.bytes_sent == 10 * 3 * 8 * 24);
  CHECK(test::nodes_agree(tensors));
  CHECK(test::nodes_agree(model));
  // All entries of each are all entries.
  CHECK(test::largest_difference(test::run(digits(10, "kind = dgc\nkeep = 1")),
                                 test::run(digits(10, "kind = dgc\nkeep = 1\nunit = model"))) == 0);
}

TEST_CASE("each tensor sends its own largest entries") {
  // After one step what moved are the entries that somebody sent: at most 4 nodes' 20, 1, 3 and 1, and at least 1 of each.
  const Recorder before = test::run(digits(1, "kind = dgc"), {"algorithm.learning_rate=1e-30"});
  const Recorder after = test::run(digits(1, "kind = dgc\nkeep = 0.01"));
  std::size_t begin = 0;
  const std::pair<std::size_t, int> tensors[] = {{2048, 20}, {32, 1}, {320, 3}, {10, 1}};
  for (const auto& [size, most] : tensors) {
    int moved = 0;
    for (std::size_t i = begin; i < begin + size; ++i)
      moved += test::model(before, 0, i) != test::model(after, 0, i) ? 1 : 0;
    CHECK((moved >= most && moved <= 4 * most));
    begin += size;
  }
}

TEST_CASE("each tensor is clipped by itself, or the model as one") {
  // One step of keep = 1 is lr * mean of clipped gradients. All four nodes' gradients are cut to norm 1e-6 / sqrt(4) per
  // tensor, so no tensor moves by more than 0.0625 * 5e-7; cut as one, all tensors together do.
  const Recorder before = test::run(digits(1, "kind = dgc"), {"algorithm.learning_rate=1e-30"});
  const auto moved = [&](const std::string& unit) {
    const Recorder after =
        test::run(digits(1, "kind = dgc\nkeep = 1\nclip_norm = 1\nunit = " + unit));
    std::vector<double> squares(4);
    std::size_t begin = 0;
    std::size_t t = 0;
    for (const std::size_t size : {2048UL, 32UL, 320UL, 10UL}) {
      for (std::size_t i = begin; i < begin + size; ++i) {
        const double d = test::model(before, 0, i) - test::model(after, 0, i);
        squares[t] += d * d;
      }
      begin += size;
      ++t;
    }
    return squares;
  };
  const double limit = 0.0625 * 0.5 * 0.0625 * 0.5;
  const std::vector<double> by_tensor = moved("tensors");
  const std::vector<double> as_one = moved("model");
  double all = 0;
  double all_by_tensor = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    CHECK(by_tensor[t] <= limit * 1.0001);
    all += as_one[t];
    all_by_tensor += by_tensor[t];
  }
  CHECK(all <= limit * 1.0001);
  CHECK(all_by_tensor > all);
}

TEST_CASE("DGC refuses shares that are none, and other optimizers") {
  CHECK_THROWS_WITH_AS(run("kind = dgc\nkeep = 0\n"),
                       doctest::Contains("algorithm.keep must be in (0, 1], got 0"), ScenarioError);
  CHECK_THROWS_WITH_AS(run("kind = dgc\nwarmup_keep = 0.5, 1.5\n"),
                       doctest::Contains("algorithm.warmup_keep must be in (0, 1], got 1.5"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(run("kind = dgc\nwarmup_period = 5\n"),
                       doctest::Contains("algorithm.warmup_period needs warmup_keep, which says"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(
      run("kind = dgc\noptimizer = adam\n"),
      doctest::Contains(
          "algorithm.optimizer must be sgd: momentum is applied before entries are chosen"),
      ScenarioError);
}

}  // namespace starling::test_dgc
