// TernGrad: exact where it can be and right on average, its scales, and what it sends.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_terngrad {
namespace {

constexpr double rate = 0.05;
constexpr std::size_t dimension = 32;

Recorder run(int nodes, int steps, const std::string& keys,
             std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), "workload.dimension=32");
  return test::run(
      test::quadratic_scenario(nodes, steps, "complete", keys + "\nlearning_rate = 0.05\n"),
      overrides);
}

const Quadratic& problem_of(const Assembly& parts) {
  return dynamic_cast<const Quadratic&>(*parts.workload);
}

/// The problem that run() solves.
Assembly assembled(int nodes) {
  const std::string text =
      test::quadratic_scenario(nodes, 1, "complete", "kind = terngrad\nlearning_rate = 0.05\n");
  return assemble(Scenario::parse(text, "test.ini", {"workload.dimension=32"}));
}

/// The gradient at the initial model, which is zero.
double first_gradient(const Quadratic& problem, NodeId node, std::size_t k) {
  return -double{problem.curvature(node, k)} * problem.center(node, k);
}

}  // namespace

TEST_CASE("gradients that have three values already lose nothing") {
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3",
                                       "workload.curvature_min=1", "workload.curvature_max=1"};
  const std::string settings = "momentum = 0.8\nweight_decay = 0.01\n";
  CHECK(test::largest_difference(run(4, 30, "kind = terngrad\n" + settings, equal),
                                 run(4, 30, "kind = allreduce\n" + settings, equal)) < 2e-6);
}

TEST_CASE("a step is a whole number of n-ths of the scale that all share, the same on every node") {
  constexpr int nodes = 5;
  const Assembly parts = assembled(nodes);
  const Quadratic& problem = problem_of(parts);
  double scale = 0;
  for (NodeId i = 0; i < nodes; ++i) {
    for (std::size_t k = 0; k < dimension; ++k) {
      scale = std::max(scale, std::abs(first_gradient(problem, i, k)));
    }
  }
  const Recorder recorder = run(nodes, 1, "kind = terngrad\nclip_deviations = 0\n");
  std::set<int> numbers;
  for (std::size_t k = 0; k < dimension; ++k) {
    const double number = test::model(recorder, 0, k) / (rate * scale / nodes);
    CHECK(std::abs(number - std::round(number)) < 1e-5);
    CHECK(std::abs(number) < nodes + 0.5);
    numbers.insert(static_cast<int>(std::round(number)));
  }
  CHECK(numbers.size() > 2);
  CHECK(test::nodes_agree(recorder));
}

TEST_CASE("on average a step is the mean gradient") {
  // With a tiny learning rate the model stays where it is. An entry deviates by at most scale / 2 on each of 3 nodes
  // and 4,000 steps: 0.0046 scale on their mean; 5 sigma.
  constexpr int nodes = 3, steps = 4000;
  const Assembly parts = assembled(nodes);
  const Quadratic& problem = problem_of(parts);
  double scale = 0;
  std::vector<double> expected(dimension);
  for (NodeId i = 0; i < nodes; ++i) {
    for (std::size_t k = 0; k < dimension; ++k) {
      const double g = first_gradient(problem, i, k);
      scale = std::max(scale, std::abs(g));
      expected[k] += g / nodes;
    }
  }
  const Recorder recorder =
      run(nodes, steps, "kind = terngrad\nclip_deviations = 0\n", {"algorithm.learning_rate=1e-7"});
  for (std::size_t k = 0; k < dimension; ++k) {
    const double mean = -test::model(recorder, 0, k) / (1e-7 * steps);
    CHECK(std::abs(mean - expected[k]) < 0.023 * scale);
  }
}

TEST_CASE("entries beyond so many standard deviations are cut, so the shared scale is") {
  constexpr int nodes = 4;
  const Assembly parts = assembled(nodes);
  const Quadratic& problem = problem_of(parts);
  double scale = 0;
  for (NodeId i = 0; i < nodes; ++i) {
    double squares = 0;
    for (std::size_t k = 0; k < dimension; ++k) {
      const double g = first_gradient(problem, i, k);
      squares += g * g / dimension;
    }
    scale = std::max(scale, 0.5 * std::sqrt(squares));
  }
  const Recorder recorder = run(nodes, 1, "kind = terngrad\nclip_deviations = 0.5\n");
  double largest = 0;
  for (std::size_t k = 0; k < dimension; ++k) {
    const double number = test::model(recorder, 0, k) / (rate * scale / nodes);
    CHECK(std::abs(number - std::round(number)) < 1e-4);
    largest = std::max(largest, std::abs(number));
  }
  CHECK(largest < nodes + 0.5);
}

TEST_CASE("every tensor has a scale of its own") {
  // One node: a step moves each entry of a tensor by the same amount, up or down, or not at all.
  const std::string text =
      "[run]\nnodes = 1\nsteps = 1\n[topology]\nkind = complete\n[network]\nkind = "
      "constant\nlatency = 0 s\nbandwidth = 1 Gbit/s\n"
      "[compute]\ngradient = 1 ms\n[workload]\nkind = mlp\ndataset = blobs\nhidden = 6\n"
      "[algorithm]\nkind = terngrad\nlearning_rate = ";
  const Recorder before = test::run(text + "1e-30\n"), after = test::run(text + "0.5\n");
  const Assembly parts = assemble(Scenario::parse(text + "0.5\n", "test.ini"));
  std::set<double> scales;
  std::size_t k = 0;
  for (const std::size_t size : parts.workload->facts().tensors) {
    double scale = 0;
    for (std::size_t end = k + size; k < end; ++k) {
      const double moved = std::abs(test::model(after, 0, k) - test::model(before, 0, k));
      if (scale == 0) scale = moved;
      if (moved != 0) CHECK(moved == doctest::Approx(scale).epsilon(1e-3));
    }
    scales.insert(scale);
  }
  CHECK(scales.size() == 4);
  CHECK(scales.count(0) == 0);
}

TEST_CASE("every node and every tensor draws for itself") {
  // Gradients x - 3 are equal on all five nodes and differ by entry: had all drawn alike, five would send a value or none.
  const std::string keys = "kind = terngrad\nclip_deviations = 0\n";
  std::vector<std::string> equal{"workload.centers=list",     "workload.center_values=3",
                                 "workload.curvature_min=1",  "workload.curvature_max=1",
                                 "workload.start_spread=0.5", "algorithm.learning_rate=1"};
  const Recorder after = run(5, 1, keys, equal);
  equal.back() = "algorithm.learning_rate=1e-30";
  const Recorder before = run(5, 1, keys, equal);
  double scale = 0;
  for (std::size_t k = 0; k < dimension; ++k)
    scale = std::max(scale, std::abs(test::model(before, 0, k) - 3));
  int divided = 0;
  for (std::size_t k = 0; k < dimension; ++k) {
    const double moved = test::model(after, 0, k) - test::model(before, 0, k);
    const double senders = std::round(std::abs(moved) / scale * 5);
    divided += senders > 0 && senders < 5 ? 1 : 0;
  }
  CHECK(divided > 5);

  // Entry k of the two matrices, of |g| / scale = p and q: had both drawn alike, the larger of p and q would always be sent
  // where the smaller one is.
  const std::string text =
      "[run]\nnodes = 1\nsteps = 1\n[topology]\nkind = complete\n[network]\nkind = "
      "constant\nlatency = 0 s\n[compute]\ngradient = 1 ms\n[workload]\nkind = mlp\n"
      "dataset = blobs\nhidden = 40\n[algorithm]\n" +
      keys + "learning_rate = ";
  const Recorder moved = test::run(text + "1\n"), unmoved = test::run(text + "1e-30\n");
  const Assembly parts = assemble(Scenario::parse(text + "1\n", "test.ini"));
  const std::vector<std::size_t> tensors = parts.workload->facts().tensors;
  std::vector<float> x(parts.workload->facts().parameters), g(x.size());
  parts.workload->initial_model(x);
  GradientRequest request{.node = 0, .draw = 0, .x = x.data(), .gradient = g.data()};
  parts.workload->gradients({&request, 1});
  const auto largest_of = [&g](std::size_t begin, std::size_t size) {
    float largest = 0;
    for (std::size_t i = begin; i < begin + size; ++i) largest = std::max(largest, std::abs(g[i]));
    return largest;
  };
  const std::size_t second = tensors[0] + tensors[1];
  const float scales[] = {largest_of(0, tensors[0]), largest_of(second, tensors[2])};
  const auto is_sent = [&](std::size_t k) {
    return std::abs(test::model(moved, 0, k) - test::model(unmoved, 0, k)) > 1e-6;
  };
  int smaller_alone = 0;
  for (std::size_t k = 0; k < std::min(tensors[0], tensors[2]); ++k) {
    const bool is_first_larger = std::abs(g[k]) / scales[0] > std::abs(g[second + k]) / scales[1];
    const bool larger = is_sent(is_first_larger ? k : second + k);
    const bool smaller = is_sent(is_first_larger ? second + k : k);
    smaller_alone += smaller && !larger ? 1 : 0;
  }
  CHECK(smaller_alone > 0);
}

TEST_CASE("two bits per entry up, as many down as the sum has values, and the scales") {
  // 4 nodes: 9 values, 4 bits. What node 0 sends to itself is no traffic.
  const Recorder recorder = run(4, 30, "kind = terngrad\n");
  for (std::size_t i = 0; i < 4; ++i) {
    const bool is_server = i == 0;
    CHECK(recorder.nodes[i].bytes_sent == 30 * (is_server ? 3 * (4 + 16) : 4 + 8));
    CHECK(recorder.nodes[i].messages_sent == 30 * (is_server ? 6 : 2));
  }
}

TEST_CASE("three values are enough for the optimum, nearly") {
  const std::vector<std::string> centers{"workload.centers=index", "workload.curvature_min=1",
                                         "workload.curvature_max=1"};
  // x* = mean of 0 .. 3; the noise of ternaries remains.
  const Recorder recorder = run(4, 800, "kind = terngrad\nschedule = cosine\n", centers);
  for (std::size_t k = 0; k < dimension; ++k) {
    CHECK(test::mean_model(recorder, k) == doctest::Approx(1.5).epsilon(0.05));
  }
}

TEST_CASE("clipping at less than nothing is refused") {
  CHECK_THROWS_WITH_AS(run(2, 1, "kind = terngrad\nclip_deviations = -1"),
                       "test.ini:16: algorithm.clip_deviations must not be negative, got -1",
                       ScenarioError);
}

}  // namespace starling::test_terngrad
