// Diagonal quadratics: gradient, noise, global objective and optimum against their closed forms.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/make_workload.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_quadratic {
namespace {

/// The quadratic that a section with these keys makes.
Quadratic make(const test::Keys& keys, NodeId nodes, std::uint64_t seed = 1) {
  return dynamic_cast<Quadratic&>(*test::make_workload("quadratic", keys, nodes, seed));
}

struct Answer {
  std::vector<float> gradient;
  double loss;
};

Answer ask(const Quadratic& quadratic, NodeId node, Step draw, const std::vector<float>& x) {
  Answer answer{std::vector<float>(x.size()), 0};
  GradientRequest request{
      .node = node, .draw = draw, .x = x.data(), .gradient = answer.gradient.data()};
  quadratic.gradients({&request, 1});
  answer.loss = request.loss;
  return answer;
}

double objective(const Quadratic& quadratic, const std::vector<float>& x) {
  EvaluationRequest request{.x = x.data()};
  quadratic.evaluate({&request, 1});
  return request.loss;
}

/// Two nodes in two dimensions: a = (1, 2), (3, 0.5), b = (1, -1), (2, 4).
Quadratic small(double noise = 0) {
  return Quadratic({.nodes = 2,
                    .dimension = 2,
                    .curvature = {1, 2, 3, 0.5f},
                    .center = {1, -1, 2, 4},
                    .start = {5, 6},
                    .noise = noise,
                    .seed = 1});
}

}  // namespace

TEST_CASE("gradient and loss of a node are those of its quadratic") {
  // Node 1 at x = (4, 2): a (x - b) = (3 * 2, 0.5 * -2), loss (3 * 4 + 0.5 * 4) / 2 = 7. All exact
  // in float.
  const Answer answer = ask(small(), 1, 0, {4, 2});
  CHECK(answer.gradient == std::vector<float>{6, -1});
  CHECK(answer.loss == 7);
}

TEST_CASE("the optimum is the curvature-weighted mean of the centers") {
  // (1 * 1 + 3 * 2) / 4 = 1.75 and (2 * -1 + 0.5 * 4) / 2.5 = 0. There the gradients of the nodes
  // cancel, and f* = (1 * 0.75^2 + 2 * 1 + 3 * 0.25^2 + 0.5 * 16) / 2 / 2 = 10.75 / 4.
  const Quadratic quadratic = small();
  CHECK(quadratic.optimum()[0] == 1.75);
  CHECK(quadratic.optimum()[1] == 0);
  CHECK(quadratic.optimal_loss() == doctest::Approx(10.75 / 4).epsilon(1e-15));
  const std::vector<float> x = {1.75f, 0};
  for (std::size_t k = 0; k < 2; ++k) {
    CHECK(ask(quadratic, 0, 0, x).gradient[k] + ask(quadratic, 1, 0, x).gradient[k] == 0);
  }
  CHECK(objective(quadratic, x) == quadratic.optimal_loss());
}

TEST_CASE("the evaluated loss is the mean of the nodes' losses") {
  const Quadratic quadratic = make({{"dimension", "7"}}, 9);
  const std::vector<float> x = {0.3f, -1, 2, 0.25f, 5, -0.125f, 1};
  double sum = 0;
  for (NodeId i = 0; i < 9; ++i) sum += ask(quadratic, i, 0, x).loss;
  CHECK(objective(quadratic, x) ==
        doctest::Approx(sum / 9).epsilon(1e-6));  // float gradients in the losses
}

TEST_CASE("gradient descent on the mean of the gradients reaches the optimum") {
  const Quadratic quadratic = make({{"dimension", "5"}}, 8);
  std::vector<float> x(5);
  quadratic.initial_model(x);
  for (int step = 0; step < 100;
       ++step) {  // curvature 0.5 .. 2: the error shrinks by 1 - 0.5 * 0.5 or better
    std::vector<double> mean(5);
    for (NodeId i = 0; i < 8; ++i) {
      for (std::size_t k = 0; k < 5; ++k) mean[k] += ask(quadratic, i, step, x).gradient[k] / 8;
    }
    for (std::size_t k = 0; k < 5; ++k) x[k] -= static_cast<float>(0.5 * mean[k]);
  }
  for (std::size_t k = 0; k < 5; ++k)
    CHECK(x[k] == doctest::Approx(quadratic.optimum()[k]).epsilon(1e-5));
}

TEST_CASE("the slope of the loss is the gradient, with noise too") {
  // A quadratic's central difference is exact, up to rounding.
  for (const char* noise : {"0", "0.7"}) {
    const Quadratic quadratic = make({{"dimension", "6"}, {"noise", noise}}, 3);
    const std::vector<float> x = {1, -0.5f, 2, 0, -3, 0.25f};
    const Answer answer = ask(quadratic, 2, 4, x);
    for (std::size_t k = 0; k < x.size(); ++k) {
      auto ahead = x, behind = x;
      ahead[k] += 0.125f;
      behind[k] -= 0.125f;
      const double slope =
          (ask(quadratic, 2, 4, ahead).loss - ask(quadratic, 2, 4, behind).loss) / 0.25;
      CHECK(slope == doctest::Approx(answer.gradient[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("noise is normal with the deviation asked for, named by node and draw") {
  // 20000 numbers: the mean is known to 0.5 / sqrt(20000) = 0.0035, the variance to sqrt(2 / 20000)
  // = 1 %.
  const Quadratic quadratic = small(0.5);
  const std::vector<float> x = {4, 2};
  double sum = 0, squares = 0;
  for (Step draw = 0; draw < 10000; ++draw) {
    const Answer answer = ask(quadratic, 1, draw, x);
    for (const double noise : {answer.gradient[0] - 6.0, answer.gradient[1] + 1.0}) {
      sum += noise;
      squares += noise * noise;
    }
  }
  CHECK(std::abs(sum / 20000) < 4 * 0.0035);
  CHECK(squares / 20000 == test::relative(0.25, 0.04));
  CHECK(ask(quadratic, 1, 3, x).gradient == ask(quadratic, 1, 3, x).gradient);
  CHECK(ask(quadratic, 1, 3, x).gradient != ask(quadratic, 1, 4, x).gradient);
  const float first = ask(quadratic, 0, 3, x).gradient[0] - 3,
              second = ask(quadratic, 1, 3, x).gradient[0] - 6;
  CHECK(first != second);  // node 0: a (x - b) = 3
}

TEST_CASE("centers = index puts node i's minimum at i, with curvature 1") {
  const Quadratic quadratic = make({{"centers", "index"}, {"dimension", "3"}}, 4);
  for (NodeId i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(quadratic.center(i, k) == static_cast<float>(i));
      CHECK(quadratic.curvature(i, k) == 1);
    }
  }
  CHECK(quadratic.optimum()[2] == 1.5);
}

TEST_CASE("three workers at 1, 5 and 10 have the least loss of Zou's counterexample") {
  // d = 100, f_a(x) = |x - a|^2 / 2: F* = 100 / 2 * variance of {1, 5, 10} = 50 * (42 - (16/3)^2) =
  // 6100 / 9.
  const Quadratic quadratic = make(
      {{"centers", "list"}, {"center_values", "1, 5, 10"}, {"dimension", "100"}, {"start", "20"}},
      3);
  CHECK(quadratic.optimal_loss() == doctest::Approx(6100.0 / 9).epsilon(1e-12));
  std::vector<float> x(100);
  quadratic.initial_model(x);
  CHECK(x == std::vector<float>(100, 20.0f));
}

TEST_CASE("zero curvature gives zero gradients: pure averaging") {
  const Quadratic quadratic =
      make({{"curvature_min", "0"}, {"curvature_max", "0"}, {"dimension", "2"}}, 3);
  CHECK(ask(quadratic, 2, 0, {7, -8}).gradient == std::vector<float>{0, 0});
  CHECK(objective(quadratic, {7, -8}) == 0);
}

TEST_CASE("equal curvature and no spread make all nodes the same") {
  const Quadratic quadratic =
      make({{"curvature_min", "2"}, {"curvature_max", "2"}, {"center_spread", "0"}}, 3);
  CHECK(quadratic.curvature(0, 3) == 2);
  CHECK(quadratic.center(2, 1) == 0);
  const std::vector<float> x(16, 1.5f);
  CHECK(ask(quadratic, 0, 0, x).gradient == ask(quadratic, 2, 0, x).gradient);
}

TEST_CASE("curvatures lie in their range, and problems are named by their seed") {
  const test::Keys keys = {{"dimension", "50"}, {"start_spread", "1"}};
  const Quadratic one = make(keys, 20, 1), again = make(keys, 20, 1), other = make(keys, 20, 2);
  float least = 9, most = 0;
  for (NodeId i = 0; i < 20; ++i) {
    for (std::size_t k = 0; k < 50; ++k) {
      least = std::min(least, one.curvature(i, k));
      most = std::max(most, one.curvature(i, k));
      CHECK(one.center(i, k) == again.center(i, k));
    }
  }
  CHECK(least >= 0.5f);
  CHECK(least <
        0.52f);  // of 1000 uniform numbers one is in the first 1 % except with probability 4e-5
  CHECK(most <= 2.0f);
  CHECK(most > 1.98f);
  CHECK(one.center(3, 4) != other.center(3, 4));
  std::vector<float> first(50), second(50);
  one.initial_model(first);
  other.initial_model(second);
  CHECK(first != second);
}

TEST_CASE("wrong settings of a quadratic are located in the scenario") {
  const auto wrong = [](const test::Keys& keys, const char* message) {
    CHECK_THROWS_WITH_AS(make(keys, 2), message, ScenarioError);
  };
  wrong({{"dimension", "0"}}, "test.ini:7: workload.dimension must be from 1 to 2147483647, got 0");
  wrong({{"noise", "-1"}}, "test.ini:7: workload.noise must be from 0 to 1e+30, got -1");
  wrong({{"curvature_min", "2"}, {"curvature_max", "1"}},
        "test.ini:7: workload.curvature_max must be at least curvature_min, 2, got 1");
  wrong({{"centers", "list"}, {"center_values", ""}},
        "test.ini:7: workload.center_values must name at least one number");
  wrong({{"wire_parameters", "-5"}},
        "test.ini:7: workload.wire_parameters must be from 0 to 10000000000000, got -5");
  // Bytes beyond the largest whole number ended in an internal error.
  wrong({{"wire_parameters", "9223372036854775807"}},
        "test.ini:7: workload.wire_parameters must be from 0 to 10000000000000, got "
        "9223372036854775807");
}

TEST_CASE("a quadratic may stand in for a large model") {
  const Quadratic quadratic = make({{"wire_parameters", "25559081"}}, 2);
  CHECK(quadratic.facts().parameters == 16);
  CHECK(quadratic.facts().wire_parameters == 25559081);
}

TEST_CASE("a start may come from a file, as many numbers as coordinates") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("start.txt");
  const std::string where = "test.ini:7: workload.start_file " + path;
  const auto write = [&path](const std::string& text) { std::ofstream(path) << text; };
  test::Keys keys = {{"dimension", "3"}, {"start", "20"}, {"start_file", path}};
  const auto start = [&keys] {
    std::vector<float> x(3);
    make(keys, 1).initial_model(x);
    return x;
  };
  write("# three\n1.5\n-2\n0.25\n");
  CHECK(start() == std::vector<float>{21.5f, 18, 20.25f});
  keys.emplace_back("start_spread", "2");
  CHECK(start() == std::vector<float>{23, 16, 20.5f});
  write("1\n2\n");
  CHECK_THROWS_WITH_AS(start(), (where + ": expected 3 numbers, found 2").c_str(), ScenarioError);
  write("1\ntwo\n3\n");
  CHECK_THROWS_WITH_AS(start(), (where + ": expected numbers, found 'two'").c_str(), ScenarioError);
  write("1 2 3 -\n");
  CHECK_THROWS_WITH_AS(start(), (where + ": expected numbers, found '1 2 3 -'").c_str(),
                       ScenarioError);
  write("1 2 1e400 3\n");
  CHECK_THROWS_WITH_AS(start(), (where + ": expected numbers, found '1 2 1e400 3'").c_str(),
                       ScenarioError);
  write("1 2  3 \r\n\n");
  CHECK(start() == std::vector<float>{22, 24, 26});
  std::filesystem::remove(path);
  CHECK_THROWS_WITH_AS(start(), (where + ": cannot open: No such file or directory").c_str(),
                       ScenarioError);
  std::filesystem::create_directory(path);
  CHECK_THROWS_WITH_AS(start(), (where + ": cannot read: Is a directory").c_str(), ScenarioError);
}

}  // namespace starling::test_quadratic
