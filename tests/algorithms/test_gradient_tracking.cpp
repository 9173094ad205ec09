// Gradient tracking in all its orders beside their recursions and at the optimum, and what it sends.
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_gradient_tracking {
namespace {

const std::string tracking = "kind = gradient_tracking\nlearning_rate = 0.05\norder = ";

}  // namespace

TEST_CASE("gradient tracking brings every node to the optimum of heterogeneous quadratics") {
  // mean(y) = mean(g) at all times, so where nothing moves y = 0 and sum_i grad f_i(x) = 0 with
  // equal x: no bias, where D-PSGD at the same learning rate stays away (the last check).
  for (const std::string order : {"adapt_then_combine", "dsgt", "combine_while_adapt"}) {
    for (const std::string topology : {"ring", "star", "one_peer_exponential"}) {
      const std::string text = test::quadratic_scenario(7, 1500, topology, tracking + order);
      CHECK(test::distance_from_optimum(text) < 1e-5);
    }
  }
  const std::string text =
      test::quadratic_scenario(7, 1500, "ring", "kind = dpsgd\nlearning_rate = 0.05");
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  CHECK(std::abs(test::model(test::run(text), 3, 0) - problem.optimum()[0]) > 1e-2);
}

TEST_CASE("the mean model of gradient tracking moves by the mean gradient in all orders") {
  // W is doubly stochastic: mean(x) <- mean(x) - lr mean(y), mean(y) = mean(g) = mean(x) - mean(c)
  // with curvature 1.
  for (const std::string order : {"adapt_then_combine", "dsgt", "combine_while_adapt"}) {
    const Recorder recorder = test::run(test::quadratic_scenario(6, 25, "ring", tracking + order),
                                        {"workload.centers=index"});
    CHECK(test::mean_model(recorder, 0) ==
          doctest::Approx(2.5 * (1 - std::pow(0.95, 25))).epsilon(1e-5));
  }
}

TEST_CASE("all orders of gradient tracking follow their recursions") {
  // n = 2 on a ring of two (W = 1/2 everywhere), f_i = 1/2 (x - c_i)^2, c = (0, 1), lr = 0.05, four
  // steps by hand.
  for (const std::string order : {"adapt_then_combine", "dsgt", "combine_while_adapt"}) {
    const bool mixes_differences = order == "adapt_then_combine";
    double x[2] = {0, 0};
    double g[2] = {0, -1};
    double y[2] = {0, -1};
    for (int k = 0; k < 4; ++k) {
      const double mean_x = (x[0] + x[1]) / 2;
      const double mean_y = (y[0] + y[1]) / 2;
      double next[2];
      for (int i = 0; i < 2; ++i)
        next[i] = mean_x - 0.05 * (order == "combine_while_adapt" ? y[i] : mean_y);
      double difference[2];
      for (int i = 0; i < 2; ++i) {
        difference[i] = next[i] - i - g[i];
        g[i] = next[i] - i;
        x[i] = next[i];
      }
      for (int i = 0; i < 2; ++i) {
        y[i] = mean_y + (mixes_differences ? (difference[0] + difference[1]) / 2 : difference[i]);
      }
    }
    const Recorder recorder = test::run(
        test::quadratic_scenario(2, 4, "complete", tracking + order), {"workload.centers=index"});
    for (NodeId i = 0; i < 2; ++i)
      CHECK(test::model(recorder, i, 0) == doctest::Approx(x[i]).epsilon(1e-6));
  }
}

TEST_CASE("with the step first, models and estimates are mixed with the weights of one step") {
  // Four nodes, of which i hears from i - 2^(k mod 2) at step k, both with weight 1/2; lr = 0.05.
  const std::string text =
      test::quadratic_scenario(4, 7, "one_peer_exponential", tracking + "adapt_then_combine");
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  const auto gradient = [&problem](std::size_t i, double x) {
    const auto node = static_cast<NodeId>(i);
    return double{problem.curvature(node, 0)} * (x - double{problem.center(node, 0)});
  };
  std::vector<float> start(problem.facts().parameters);
  problem.initial_model(start);
  std::array<double, 4> x{}, y{}, g{};
  x.fill(start[0]);
  for (std::size_t i = 0; i < 4; ++i) y[i] = g[i] = gradient(i, x[i]);
  for (int k = 0; k < 7; ++k) {
    const std::size_t hop = k % 2 == 0 ? 1 : 2;
    const auto mixed = [hop](const std::array<double, 4>& v) {
      std::array<double, 4> sum{};
      for (std::size_t i = 0; i < 4; ++i) sum[i] = (v[i] + v[(i + 4 - hop) % 4]) / 2;
      return sum;
    };
    for (std::size_t i = 0; i < 4; ++i) x[i] -= 0.05 * y[i];
    x = mixed(x);
    for (std::size_t i = 0; i < 4; ++i) {
      const double next = gradient(i, x[i]);
      y[i] += next - std::exchange(g[i], next);
    }
    y = mixed(y);
  }
  const Recorder recorder = test::run(text);
  for (NodeId i = 0; i < 4; ++i) {
    CHECK(test::model(recorder, i, 0) ==
          doctest::Approx(x[static_cast<std::size_t>(i)]).epsilon(1e-5));
  }
}

TEST_CASE("two orders of gradient tracking send one message of two vectors per neighbor and step") {
  const std::string text =
      test::quadratic_scenario(6, 10, "ring", tracking + "combine_while_adapt");
  for (const std::string order : {"combine_while_adapt", "dsgt"}) {
    const Recorder recorder = test::run(text, {"algorithm.order=" + order});
    CHECK(recorder.nodes[2].messages_sent == 10 * 2);
    CHECK(recorder.nodes[2].bytes_sent == 10 * 2 * 2 * 5 * 4);
  }
  // Step first: x at each of 10 steps, y at all but the first.
  const Recorder two = test::run(text, {"algorithm.order=adapt_then_combine"});
  CHECK(two.nodes[2].messages_sent == (10 + 9) * 2);
  CHECK(two.nodes[2].bytes_sent == (10 + 9) * 2 * 5 * 4);
}

TEST_CASE("gradient tracking refuses mixing weights that lose the mean") {
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(7, 3, "star\nmixing = uniform",
                                                          tracking + "adapt_then_combine")),
                       doctest::Contains("columns sum to one"), ScenarioError);
}

TEST_CASE("gradient tracking bears a smaller step the lower the smallest eigenvalue of W is") {
  // A ring of 8 with self weight 0.1: smallest eigenvalue -0.8. Steps of 0.05 diverge in both orders, 0.02 in one.
  std::string ring = "graph {\n";
  for (int i = 0; i < 8; ++i) ring += fmt::format("  {} -- {} [weight=0.45];\n", i, (i + 1) % 8);
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("ring.dot", ring + "}\n");
  const auto distance = [&](const std::string& order, const std::string& rate) {
    const std::string text =
        test::quadratic_scenario(8, 3000, "file\npath = " + path, tracking + order);
    const std::vector<std::string> overrides{"algorithm.learning_rate=" + rate,
                                             "run.on_divergence=mark"};
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
    const double x = test::model(test::run(text, overrides), 3, 0);
    return std::abs(x - problem.optimum()[0]);
  };
  for (const std::string order : {"adapt_then_combine", "combine_while_adapt"}) {
    CHECK(distance(order, "0.01") < 1e-4);
    CHECK(!(distance(order, "0.05") < 1));
  }
  CHECK(distance("adapt_then_combine", "0.02") < 1e-4);
  CHECK(!(distance("combine_while_adapt", "0.02") < 1));
}

}  // namespace starling::test_gradient_tracking
