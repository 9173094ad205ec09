// Means of blocks by codes of what models have moved, beside the rule in double precision; with settings that make all
// algorithms of blocks one and the same.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_block_mean {
namespace {

constexpr int steps = 24;
constexpr int period = 4;
constexpr double rate = 0.05;
constexpr double threshold = 0.02;

double slope(const Quadratic& problem, NodeId node, std::size_t k, double x) {
  return static_cast<double>(problem.curvature(node, k)) *
         (x - static_cast<double>(problem.center(node, k)));
}

/// start <- start + mean_i Q(p_i), p_i = x_i - start + e_i, where Q keeps the entries of at least `threshold`; by node.
std::vector<double> last_model(NodeId nodes, std::size_t coordinate, bool has_feedback) {
  const Assembly parts = assemble(Scenario::parse(
      test::quadratic_scenario(nodes, steps, "complete", "kind = allreduce\nlearning_rate = 0.1"),
      "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  double start = 0;
  std::vector<double> lost(static_cast<std::size_t>(nodes));
  for (int block = 0; block < steps / period; ++block) {
    double sum = 0;
    for (NodeId i = 0; i < nodes; ++i) {
      double x = start;
      for (int k = 0; k < period; ++k) x -= rate * slope(problem, i, coordinate, x);
      double& e = lost[static_cast<std::size_t>(i)];
      const double p = x - start + (has_feedback ? e : 0);
      const double q = std::abs(p) >= threshold ? p : 0;
      e = p - q;
      sum += q;
    }
    start += sum / nodes;
  }
  return std::vector<double>(static_cast<std::size_t>(nodes), start);
}

void check(const std::string& algorithm, NodeId nodes) {
  CAPTURE(algorithm);
  const std::string text =
      test::quadratic_scenario(nodes, steps, "complete",
                               algorithm + "\nlearning_rate = " + std::to_string(rate) +
                                   "\nkeep = 1\ncompression = threshold");
  for (const bool has_feedback : {true, false}) {
    const Recorder recorder = test::run(
        text, {"algorithm.threshold=" + std::to_string(threshold),
               has_feedback ? "algorithm.error_feedback=yes" : "algorithm.error_feedback=no"});
    double largest = 0;
    for (std::size_t k = 0; k < 5; ++k) {
      const std::vector<double> expected = last_model(nodes, k, has_feedback);
      for (NodeId i = 0; i < nodes; ++i) {
        const double difference =
            test::model(recorder, i, k) - expected[static_cast<std::size_t>(i)];
        largest = std::max(largest, std::abs(difference));
      }
    }
    CHECK(largest < 2e-6);
  }
}

}  // namespace

TEST_CASE("blocks averaged by codes follow the rule, with error feedback and without") {
  // Without momentum of blocks and with a whole step of the mean all are local SGD.
  check("kind = local_sgd\nperiod = 4", 4);
  check("kind = adaptive_period\nperiod = 4\nsampling_steps = 1000", 4);
  check("kind = bmuf\nperiod = 4\nblock_momentum = 0", 4);
  check("kind = slowmo\nperiod = 4\nslow_momentum = 0", 4);
  check("kind = diloco\nperiod = 4\nouter_learning_rate = 1\nouter_momentum = 0", 4);
  check("kind = coda\nperiod = 4\ngamma = 0", 4);
  check("kind = dasgd\nperiod = 4\ndelay = 0\nlocal_share = 0", 4);
  check(
      "kind = streaming_diloco\nperiod = 4\nfragments = 1\ndelay = 0\nlocal_share = 0\n"
      "outer_learning_rate = 1\nouter_momentum = 0",
      4);
}

TEST_CASE("progress sent to a server by codes follows the rule") {
  // One node: every block is applied before the next begins.
  check(
      "kind = async_diloco\nrule = vanilla\nperiod = 4\nweight = 1\nouter_learning_rate = 1\n"
      "outer_momentum = 0",
      1);
}

TEST_CASE("gradients pushed to servers by codes follow the rule, whatever the number of servers") {
  // One node, a push and a fetch per step: x <- x - rate Q(g + e). Codes of thresholds do not depend on pieces.
  const std::string text =
      test::quadratic_scenario(2, steps, "complete",
                               "kind = async_parameter_server\nlearning_rate = 0.05\ncompression = "
                               "threshold\nthreshold = 0.2\nkeep = 1");
  const Recorder one = test::run(text, {"run.nodes=1"});
  const Assembly parts = assemble(Scenario::parse(text, "test.ini", {"run.nodes=1"}));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < 5; ++k) {
    double x = 0;
    double e = 0;
    for (int step = 0; step < steps; ++step) {
      const double p = slope(problem, 0, k, x) + e;
      const double q = std::abs(p) >= 0.2 ? p : 0;
      e = p - q;
      x -= 0.05 * q;
    }
    CHECK(std::abs(test::model(one, 0, k) - x) < 2e-6);
  }
  // Node 1 is so late that it meets no other: servers then see the same order of messages.
  const std::vector<std::string> apart{"compute.slow_nodes=1", "compute.slowdown=1e4"};
  const Recorder shared = test::run(text, apart);
  std::vector<std::string> split = apart;
  split.emplace_back("algorithm.servers=2");
  CHECK(test::largest_difference(shared, test::run(text, split)) < 1e-5);
}

TEST_CASE("elastic averaging by codes keeps models, anchor and what codes owe together") {
  // The anchor is no node's model; an exact code sends all, so feedback changes nothing but roundings.
  const std::string text =
      test::quadratic_scenario(4, 40, "complete", "kind = easgd\nperiod = 2\nlearning_rate = 0.05");
  const Recorder exact = test::run(text);
  const Recorder coded = test::run(text, {"algorithm.compression=top_k", "algorithm.keep=1"});
  CHECK(test::largest_difference(exact, coded) < 1e-5);
  const Recorder coarse = test::run(text, {"algorithm.compression=top_k", "algorithm.keep=0.4"});
  CHECK(test::largest_difference(exact, coarse) > 1e-3);
  CHECK(test::largest_difference(exact, coarse) < 0.1);
}

TEST_CASE("post-local SGD has no codes for the gradients before its switch") {
  const std::string text = test::quadratic_scenario(
      4, 8, "complete", "kind = local_sgd\nperiod = 2\nlearning_rate = 0.05\ncompression = half");
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.switch_step=2"}),
                       "command line: algorithm.switch_step must be 0 with compression: codes are "
                       "of what models have moved, not of gradients",
                       ScenarioError);
  CHECK_NOTHROW(test::run(text));
}

}  // namespace starling::test_block_mean
