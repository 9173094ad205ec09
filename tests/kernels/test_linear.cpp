// Linear regression: gradient and loss against sums in double, the optimum against the weights that samples were made of and
// against the normal equations.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/data/made_regression.hpp"
#include "kernels/linear.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/make_workload.hpp"
#include "tests/support/relative.hpp"

namespace starling::test_linear {
namespace {

struct Answer {
  std::vector<float> gradient;
  double loss;
};

Answer ask(const Linear& linear, NodeId node, Step draw, const std::vector<float>& x) {
  Answer answer{std::vector<float>(x.size()), 0};
  GradientRequest request{
      .node = node, .draw = draw, .x = x.data(), .gradient = answer.gradient.data()};
  linear.gradients({&request, 1});
  answer.loss = request.loss;
  return answer;
}

double objective(const Linear& linear, const std::vector<float>& x) {
  EvaluationRequest request{.x = x.data()};
  linear.evaluate({&request, 1});
  return request.loss;
}

Linear made_linear(const MadeRegression& made, std::int64_t batch_size = 1) {
  Supervised problem{.data = make_samples(made), .parts = parts_of(made)};
  problem.batch_size = batch_size;
  problem.seed = made.seed;
  return Linear(std::move(problem));
}

/// w = u_i, and no bias.
std::vector<float> true_model(const MadeRegression& made, NodeId node) {
  std::vector<float> x;
  for (const double weight : true_weights(made, node)) x.push_back(static_cast<float>(weight));
  x.push_back(0);
  return x;
}

/// A step of gradient descent for node 0.
void descend(const Linear& linear, Step draw, std::vector<float>& x, float rate) {
  const Answer answer = ask(linear, 0, draw, x);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] -= rate * answer.gradient[k];
}

}  // namespace

TEST_CASE("a linear regression's gradient and loss are means over the samples of its node") {
  // 11 samples among 3 nodes: 4, 4 and 3. Batches of three are all of the last node's.
  const MadeRegression made{
      .nodes = 3, .features = 5, .samples = 11, .noise = 0.3, .node_spread = 1, .seed = 4};
  const Linear linear = made_linear(made, 3);
  const Dataset train = make_samples(made).train;
  CHECK(linear.facts().samples == std::vector<std::int64_t>{4, 4, 3});
  const std::vector<float> x{0.5F, -1, 2, 0.25F, -0.75F, 0.125F};
  std::vector<double> gradient(6);
  double loss = 0;
  for (std::size_t s = 8; s < 11; ++s) {
    const auto z = train.row(s);
    double d = double{x[5]} - train.target[s];
    for (std::size_t k = 0; k < 5; ++k) d += double{x[k]} * z[k];
    for (std::size_t k = 0; k < 5; ++k) gradient[k] += d * z[k] / 3;
    gradient[5] += d / 3;
    loss += d * d / 2 / 3;
  }
  for (const Step draw : {0, 1, 7}) {  // another order of the same samples
    const Answer answer = ask(linear, 2, draw, x);
    CHECK(answer.loss == doctest::Approx(loss).epsilon(1e-6));
    for (std::size_t k = 0; k < 6; ++k) {
      CHECK(answer.gradient[k] == doctest::Approx(gradient[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("without noise the true weights have no loss, and with it that of the noise") {
  MadeRegression made{.features = 7, .samples = 50, .test_samples = 20'000, .seed = 2};
  const std::vector<float> truth = true_model(made, 0);
  const Linear exact = made_linear(made, 50);
  const Answer there = ask(exact, 0, 0, truth);
  CHECK(there.loss < 1e-12);
  for (const float g : there.gradient) CHECK(std::abs(g) < 1e-6);
  CHECK(objective(exact, truth) < 1e-12);

  made.noise = 0.5;
  const Linear noisy = made_linear(made);
  CHECK(true_model(made, 0) == truth);
  CHECK(objective(noisy, truth) == test::relative(0.125, 0.05));
  // Away from it by (1, .., 1) and a bias of 2: (7 + 4 + 0.25) / 2.
  std::vector<float> away = truth;
  for (float& weight : away) weight += 1;
  away.back() += 1;
  CHECK(objective(noisy, away) == test::relative(11.25 / 2, 0.05));
}

TEST_CASE("nodes of a linear regression differ by node_spread, and the mean of all is best") {
  const NodeId nodes = 200;
  const MadeRegression made{.nodes = nodes,
                            .features = 10,
                            .samples = 400,
                            .test_samples = 20'000,
                            .node_spread = 0.5,
                            .seed = 3};
  const MadeRegression alike{.nodes = nodes, .features = 10, .samples = 400, .seed = 3};
  CHECK(true_weights(alike, 0) == true_weights(alike, 199));
  std::vector<float> mean(11);
  double spread = 0;
  for (NodeId i = 0; i < nodes; ++i) {
    for (std::size_t k = 0; k < 10; ++k) {
      const double own = true_weights(made, i)[k];
      const double away = own - true_weights(alike, 0)[k];
      mean[k] += static_cast<float>(own / nodes);
      spread += away * away / (10.0 * nodes);
    }
  }
  CHECK(std::sqrt(spread) == doctest::Approx(0.5).epsilon(0.05));
  // There the loss is that of the spread alone, 10 * 0.25 / 2, all of it the nodes' distance from the mean.
  CHECK(objective(made_linear(made), mean) == doctest::Approx(10 * spread / 2).epsilon(0.05));
}

TEST_CASE("gradient descent on a linear regression ends at the solution of the normal equations") {
  // One feature and the bias: w sum z^2 + c sum z = sum y z and w sum z + c n = sum y.
  const MadeRegression made{.features = 1, .samples = 9, .noise = 1, .seed = 5};
  const Linear linear = made_linear(made, 9);
  const Dataset train = make_samples(made).train;
  double zz = 0, z1 = 0, yz = 0, y1 = 0;
  for (std::size_t s = 0; s < 9; ++s) {
    const double z = train.row(s)[0], y = train.target[s];
    zz += z * z;
    z1 += z;
    yz += y * z;
    y1 += y;
  }
  const double determinant = 9 * zz - z1 * z1;
  std::vector<float> x(2);
  linear.initial_model(x);
  CHECK(x == std::vector<float>{0, 0});
  for (Step k = 0; k < 400; ++k) descend(linear, k, x, 0.5F);
  CHECK(x[0] == doctest::Approx((9 * yz - z1 * y1) / determinant).epsilon(1e-4));
  CHECK(x[1] == doctest::Approx((zz * y1 - z1 * yz) / determinant).epsilon(1e-4));
}

TEST_CASE("wrong settings of a linear regression are errors at their place in the scenario") {
  const auto refused = [](const char* key, const char* value, NodeId nodes, const char* message) {
    CHECK_THROWS_WITH_AS(test::make_workload("linear", {{key, value}}, nodes),
                         doctest::Contains(message), ScenarioError);
  };
  refused("features", "0", 2, "test.ini:7: workload.features must be from 1 to 1048576, got 0");
  refused("samples", "7", 8, "workload.samples must be at least the number of nodes, 8, got 7");
  refused("noise", "-1", 2, "workload.noise must be from 0 to 1e+30, got -1");
  refused("node_spread", "-0.5", 2, "workload.node_spread must not be negative, got -0.5");
  refused("sampling", "all", 2, "workload.sampling");
  refused("dataset", "digits", 2, "test.ini:7: workload.dataset");
}

}  // namespace starling::test_linear
