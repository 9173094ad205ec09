// Elastic averaging at its fixed point, the sum that it conserves, and who waits in either order.
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_easgd {
namespace {

const char* const easgd = "kind = easgd\nlearning_rate = 0.1\nperiod = 3";

}  // namespace

TEST_CASE("elastic averaging conserves the sum of models and anchor") {
  // Gradients only in the first step, from 0 with centers i and curvature 1: the models are then
  // 0.1 i, their sum 1.5. Pulling conserves sum_i x_i + z and shrinks all differences, so 6 models
  // and the anchor end at 1.5 / 7. The last step ends no period: nobody waits for a pull more.
  for (const std::string order : {"synchronous", "asynchronous"}) {
    const Recorder recorder = test::run(
        test::quadratic_scenario(6, 601, "ring", easgd),
        test::gradients_until(1, {"algorithm.order=" + order, "workload.centers=index",
                                  "compute.distribution=lognormal", "compute.sigma=0.5"}));
    for (NodeId i = 0; i < 6; ++i)
      CHECK(test::model(recorder, i, 0) == doctest::Approx(1.5 / 7).epsilon(1e-5));
  }
}

TEST_CASE("elastic averaging ends where local steps and pulls balance") {
  // Per coordinate, with r_i = (1 - lr a_i)^3: after the local steps y_i = b_i + r_i (x_i - b_i);
  // then
  //   x_i = (1 - e) y_i + e z,   z = (1 - n e) z + e sum_i y_i, so z = mean_i y_i.
  const std::string text =
      test::quadratic_scenario(5, 1500, "ring", std::string(easgd) + "\nelasticity = 0.1");
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < 5; ++k) {
    std::vector<double> matrix(36);
    std::vector<double> right(6);
    matrix[35] = 1;
    for (std::size_t i = 0; i < 5; ++i) {
      const double b = static_cast<double>(problem.center(static_cast<NodeId>(i), k));
      const double r =
          std::pow(1 - 0.1 * static_cast<double>(problem.curvature(static_cast<NodeId>(i), k)), 3);
      matrix[i * 6 + i] = 1 - 0.9 * r;
      matrix[i * 6 + 5] = -0.1;
      right[i] = 0.9 * (1 - r) * b;
      matrix[30 + i] = -r / 5;
      right[5] += (1 - r) * b / 5;
    }
    const std::vector<double> x = test::solve(matrix, right);
    for (NodeId i = 0; i < 5; ++i) {
      CHECK(test::model(recorder, i, k) ==
            doctest::Approx(x[static_cast<std::size_t>(i)]).epsilon(1e-4));
    }
  }
}

TEST_CASE("one node and its anchor pull each other the same way in both orders") {
  const std::string text =
      test::quadratic_scenario(1, 30, "ring", std::string(easgd) + "\nelasticity = 0.3");
  CHECK(test::run(text, {"algorithm.order=synchronous"}).models ==
        test::run(text, {"algorithm.order=asynchronous"}).models);
}

TEST_CASE("nobody waits for a slow node in asynchronous elastic averaging") {
  const std::string text = test::quadratic_scenario(6, 60, "ring", easgd);
  const std::vector<std::string> slow{"compute.slow_nodes=1", "compute.slowdown=10"};
  std::vector<std::string> asynchronous = slow;
  asynchronous.emplace_back("algorithm.order=asynchronous");
  // 60 steps of 1 ms and 20 round trips of 20 us, against 60 steps of 10 ms on node 0.
  CHECK(to_seconds(test::run(text, asynchronous).nodes[3].finished) ==
        doctest::Approx(0.0604).epsilon(1e-6));
  CHECK(to_seconds(test::run(text, slow).nodes[3].finished) > 0.6);
}

TEST_CASE("how models are summed, which an anchor on a server does not do, is refused there") {
  const std::string text = test::quadratic_scenario(
      2, 4, "ring", "kind = easgd\nlearning_rate = 0.1\ncollective = ring");
  CHECK_NOTHROW(test::run(text));
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.order=asynchronous"}),
                       doctest::Contains("algorithm.collective is not a key here"), ScenarioError);
}

}  // namespace starling::test_easgd
