// A token that walks: incremental gradient descent around a ring, and how often a random walk comes by.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_token_walk {
namespace {

const std::string walk = "kind = token_walk\nlearning_rate = 0.1\nwalk = ";

}  // namespace

TEST_CASE("a cyclic token is incremental gradient descent") {
  // x <- x - lr a_i (x - b_i) for i = 0, 1, .., n-1, 0, ..; everybody ends with the last model.
  const std::string text = test::quadratic_scenario(5, 12, "ring", walk + "cyclic");
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < 5; ++k) {
    double x = 0;
    for (int visit = 0; visit < 60; ++visit) {
      const NodeId i = visit % 5;
      x -= 0.1 * static_cast<double>(problem.curvature(i, k)) *
           (x - static_cast<double>(problem.center(i, k)));
    }
    for (NodeId i = 0; i < 5; ++i)
      CHECK(test::model(recorder, i, k) == doctest::Approx(x).epsilon(1e-5));
  }
}

TEST_CASE("there is exactly one token") {
  // All computing happens one gradient of 1 ms at a time: n steps visits take n steps 1 ms and, for
  // the cyclic walk, as many messages less one, then n - 1 to tell the end.
  const Recorder recorder = test::run(test::quadratic_scenario(6, 10, "ring", walk + "cyclic"));
  std::int64_t messages = 0;
  double last = 0;
  for (const NodeTotals& node : recorder.nodes) {
    messages += node.messages_sent;
    CHECK(to_seconds(node.compute) == doctest::Approx(0.010));
    last = std::max(last, to_seconds(node.finished));
  }
  CHECK(last >= 0.060);
  CHECK(last < 0.062);
  CHECK(messages == 59 + 5);
}

TEST_CASE("the random walk visits all nodes equally often, whatever their degrees") {
  // Star of 6: without the Metropolis rule the center would be visited every other time. With it
  // the chain from a leaf moves with chance min(1, 1/5); it is at the center 1/6 of the time. 6000
  // visits: 1000 each. The number of visits varies more than independent draws would: leaves are
  // kept for 5 visits on average, so by a factor of about sqrt(2 x 5) of 29.
  const Recorder recorder = test::run(test::quadratic_scenario(6, 1000, "star", walk + "random"));
  double total = 0;
  for (const NodeTotals& node : recorder.nodes) {
    total += to_seconds(node.compute);
    CHECK(std::abs(to_seconds(node.compute) - 1.0) < 4 * 0.029 * std::sqrt(10.0));
    CHECK(node.steps == 1000);
  }
  CHECK(total == doctest::Approx(6.0));
}

TEST_CASE("a random walk solves heterogeneous quadratics up to the noise of its path") {
  // Centers 0 .. 7, curvature 1, learning rate falling to 0.0001: mean(i) = 3.5.
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    8, 900, "complete",
                    walk + "random\nschedule = step\ndecay_steps = 50, 300\ndecay_factor = 0.03"),
                {"workload.centers=index"});
  CHECK(test::model(recorder, 2, 0) == doctest::Approx(3.5).epsilon(0.05));
  CHECK(recorder.models[2] == recorder.models[5]);
}

TEST_CASE("the schedule of a random walk counts the visits of all nodes, wherever they fall") {
  // All nodes have f = 1/2 |x - 3|^2, so that it does not matter who is visited: 4 visits each at the rates 0.1 / (1 + k), k < 8. This
  // seed's walk does not visit all nodes equally often.
  double away = 3;
  for (int visit = 0; visit < 32; ++visit) away *= 1 - 0.1 / (1 + visit / 4);
  const Recorder recorder = test::run(test::quadratic_scenario(4, 8, "ring", walk + "random"),
                                      {"workload.centers=list", "workload.center_values=3",
                                       "algorithm.schedule=inverse", "algorithm.decay_offset=1"});
  for (NodeId i = 0; i < 4; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(3 - away).epsilon(1e-6));
}

TEST_CASE("a random walk refuses directed graphs on which it would favor some nodes") {
  // 2/7, 1/7 and 4/7 of the visits: to node 2 lead two ways, from it one.
  const test::TemporaryDirectory directory;
  const std::string uneven =
      "file\npath = " + directory.write("uneven.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 0; 0 -> 2 }");
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(3, 4, uneven, walk + "random")),
                       doctest::Contains("visits all nodes equally often"), ScenarioError);
  CHECK_NOTHROW(test::run(test::quadratic_scenario(3, 4, uneven, walk + "cyclic")));
  const std::string circle =
      "file\npath = " + directory.write("circle.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 0 }");
  for (const std::string& even : {circle, std::string("exponential"), std::string("star")})
    CHECK_NOTHROW(test::run(test::quadratic_scenario(3, 4, even, walk + "random")));
}

}  // namespace starling::test_token_walk
