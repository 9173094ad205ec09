// Navigation: the grid world by hand, the gradient against finite differences of a twin in double
// with the experience held fixed and against PyTorch, returns by their definition, other builds,
// and what is learned.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/navigation.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/answers.hpp"
#include "tests/kernels/make_workload.hpp"

namespace starling::test_navigation {
namespace {

using test::check_every_build;
using test::initial_model;
using Model = std::vector<float>;
using Doubles = std::vector<double>;

TEST_CASE("an episode walks, sees and is scored as drawn") {
  // The map is   . # .      Draw until the episode goes from the upper left to the upper right.
  //              . . .
  //              # # #
  const GridMap map{.side = 3, .walls = {0, 1, 0, 0, 0, 0, 1, 1, 1}};
  Episode episode;
  std::vector<float> seen(Episode::features(1));
  REQUIRE(seen.size() == 8 + 2 + 4);
  for (Step draw = 0;; ++draw) {
    REQUIRE(draw < 1000);
    Random random(1, "test episode", 0, draw);
    episode = Episode(map, random);
    CHECK(episode.shortest() > 0);
    episode.observe(1, seen);
    const bool is_upper_left = seen[1] == 1 && seen[5] == 1 && episode.shortest() == 4;
    if (is_upper_left) break;
  }
  // Outside above and left, the wall to the right; the goal is 0 down and 2 of 3 to the right.
  const float third = 2.0f / 3.0f;
  CHECK(seen == std::vector<float>{1, 1, 1, 1, 1, 1, 0, 0, 0, third, 0, 0, 0, 0});
  CHECK(episode.path_score() == 0);
  CHECK(episode.move(1) == 0);  // right, against the wall
  CHECK(episode.distance() == 4);
  CHECK(episode.move(2) == 1);  // down
  episode.observe(1, seen);     // now below: free above, right and upper right is wall
  CHECK(seen == std::vector<float>{1, 0, 1, 1, 0, 1, 1, 1, -1.0f / 3.0f, third, 0, 0, 1, 0});
  CHECK(episode.move(0) == -1);  // and back up
  CHECK(episode.move(2) == 1);
  CHECK(episode.move(1) == 1);
  CHECK(episode.move(1) == 1);
  CHECK_FALSE(episode.is_at_goal());
  CHECK(episode.move(0) == 1);
  CHECK(episode.is_at_goal());
  CHECK(episode.steps() == 7);
  CHECK(episode.path_score() == 4.0 / 6);  // one was against the wall
}

TEST_CASE("maps have as many walls as asked for, and always room for an episode") {
  Random random(2, "test maps");
  int walls = 0;
  for (int i = 0; i < 100; ++i) {
    const GridMap map = make_grid_map(10, 0.3, random);
    for (const auto wall : map.walls) walls += wall;
  }
  CHECK(std::abs(walls - 3000) < 3 * 46);  // binomial: sqrt(10000 * 0.3 * 0.7) = 46
  for (int i = 0; i < 20; ++i) {
    const GridMap crowded = make_grid_map(4, 0.85, random);
    const Episode episode(crowded, random);
    CHECK(episode.shortest() > 0);
  }
}

TEST_CASE("on a map of many parts a draw that failed leaves nothing behind") {
  // Pairs of free cells with walls around: most draws put goal and start into different ones.
  GridMap map{.side = 8};
  for (int cell = 0; cell < 64; ++cell) {
    const int row = cell / 8, column = cell % 8;
    map.walls.push_back(row % 2 == 1 || column % 3 == 2);
  }
  Random random(4, "test parts");
  for (int i = 0; i < 200; ++i) {
    const Episode episode(map, random);
    CHECK(episode.shortest() == 1);
    int ways = 0;
    for (int direction = 0; direction < Episode::moves; ++direction) {
      Episode walker = episode;
      walker.move(direction);
      ways += walker.is_at_goal() ? 1 : 0;
    }
    CHECK(ways == 1);
  }
}

Navigation::Problem problem() {
  Navigation::Problem result;
  result.nodes = 2;
  result.side = 5;
  result.maps = 8;
  result.view = 1;
  result.hidden = {9, 6};
  result.environments = 3;
  result.rollout_steps = 20;
  result.horizon = 12;
  result.entropy_weight = 0.05;
  result.test_episodes = 60;  // more than two blocks of 25
  return result;
}

/// An initial model, all parameters moved a little.
Model some_model(const Workload& workload) {
  Model x = initial_model(workload);
  Random random(3, "test model");
  for (float& value : x) value += 0.2f * static_cast<float>(random.normal());
  return x;
}

/// The loss of the head of navigation.hpp, in double.
double reference_loss(const Navigation& navigation, const Navigation::Problem& setup,
                      const Navigation::Experience& experience, const Doubles& x) {
  const std::size_t moves = experience.directions.size();
  const std::size_t features = experience.seen.size() / moves;
  double loss = 0;
  for (std::size_t r = 0; r < moves; ++r) {
    const auto* row = experience.seen.data() + r * features;
    Doubles values(row, row + features);
    for (const auto& layer : navigation.layers()) {
      Doubles next(layer.outputs);
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        next[o] = x[layer.bias + o];
        for (std::size_t i = 0; i < layer.inputs; ++i) {
          next[o] +=
              values[i] * x[layer.weights + dense::weight_index(layer.inputs, layer.outputs, i, o)];
        }
        if (&layer != &navigation.layers().back()) next[o] = std::max(next[o], 0.0);
      }
      values = std::move(next);
    }
    double sum = 0, entropy = 0;
    for (int m = 0; m < 4; ++m) sum += std::exp(values[static_cast<std::size_t>(m)]);
    for (int m = 0; m < 4; ++m) {
      const double log_p = values[static_cast<std::size_t>(m)] - std::log(sum);
      entropy -= std::exp(log_p) * log_p;
    }
    const double chosen = values[static_cast<std::size_t>(experience.directions[r])];
    loss += -experience.advantages[r] * (chosen - std::log(sum)) +
            setup.value_weight / 2 * std::pow(values[4] - experience.returns[r], 2) -
            setup.entropy_weight * entropy;
  }
  return loss / static_cast<double>(moves);
}

TEST_CASE("a policy's loss and gradient are those of finite differences over fixed experience") {
  const auto setup = problem();
  const Navigation navigation(setup);
  const Model x = some_model(navigation);
  Model gradient(x.size(), 77.0f);
  GradientRequest request{.node = 1, .draw = 4, .x = x.data(), .gradient = gradient.data()};
  navigation.gradients({&request, 1});
  const auto experience = navigation.experience(1, 4, x.data());
  Doubles point(x.begin(), x.end());
  CHECK(request.loss ==
        doctest::Approx(reference_loss(navigation, setup, experience, point)).epsilon(1e-6));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    // As for the MLP: differences are off by about 1e-10, floats by some 1e-7.
    constexpr double h = 1e-6;
    point[i] = static_cast<double>(x[i]) + h;
    const double above = reference_loss(navigation, setup, experience, point);
    point[i] = static_cast<double>(x[i]) - h;
    const double below = reference_loss(navigation, setup, experience, point);
    point[i] = static_cast<double>(x[i]);
    worst = std::max(worst, std::abs((above - below) / (2 * h) - static_cast<double>(gradient[i])));
  }
  CHECK(worst < 5e-6);
}

/// A number in -0.5 .. 0.5 for each index; the same in reference/navigation_torch.py.
double pattern(std::uint64_t index) {
  return static_cast<double>((index * 2654435761u % (std::uint64_t{1} << 32)) >> 16) / 65536 - 0.5;
}

TEST_CASE("a policy's loss and the gradient of every tensor are PyTorch's") {
  Navigation::Problem setup;
  setup.side = 3;
  setup.maps = 2;
  setup.view = 1;
  setup.hidden = {4};
  setup.environments = 2;
  setup.rollout_steps = 4;
  const Navigation navigation(setup);
  Model x(navigation.facts().parameters), gradient(x.size());
  std::vector<std::vector<std::size_t>> tensors;  // places in the order of the script
  std::uint64_t index = 0;
  for (const auto& layer : navigation.layers()) {
    tensors.resize(tensors.size() + 2);
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        tensors.end()[-2].push_back(layer.weights +
                                    dense::weight_index(layer.inputs, layer.outputs, i, o));
      }
    }
    for (std::size_t o = 0; o < layer.outputs; ++o) tensors.back().push_back(layer.bias + o);
    for (const auto* tensor : {&tensors.end()[-2], &tensors.back()}) {
      for (const std::size_t place : *tensor) x[place] = static_cast<float>(2 * pattern(index++));
    }
  }
  GradientRequest request{.node = 0, .draw = 0, .x = x.data(), .gradient = gradient.data()};
  navigation.gradients({&request, 1});

  // tests/kernels/reference/navigation_torch.py (PyTorch 1.13 in double precision), which has a copy
  // of this rollout
  constexpr double loss = -0.400851159;
  constexpr double norms[] = {0.702654714, 0.232615911, 0.331024012, 0.184649874};
  constexpr double projections[] = {0.001798317, -0.095618318, -0.023743093, 0.040928338};
  CHECK(std::abs(request.loss - loss) < 1e-6);
  index = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    double squares = 0, projection = 0;
    for (const std::size_t place : tensors[t]) {
      const auto g = static_cast<double>(gradient[place]);
      squares += g * g;
      projection += g * pattern(5 * index++ + 1);
    }
    CHECK(std::abs(std::sqrt(squares) - norms[t]) < 1e-6);
    CHECK(std::abs(projection - projections[t]) < 1e-6);
  }
}

TEST_CASE("without discount, decay and look ahead a return is the reward of its move") {
  auto setup = problem();
  setup.discount = setup.decay = 0;
  const Navigation navigation(setup);
  const auto experience = navigation.experience(0, 0, some_model(navigation).data());
  // 0.1 (nearer) - 0.01 + [goal], and only a move nearer can arrive.
  for (const double reward : experience.returns) {
    double distance = 1;
    for (const double known : {-0.11, -0.01, 0.09, 1.09}) {
      distance = std::min(distance, std::abs(reward - known));
    }
    CHECK(distance < 1e-12);
  }
}

TEST_CASE("without discount and decay of 1 a return is the sum of rewards to come") {
  auto setup = problem();
  setup.discount = setup.decay = 1;
  const Navigation navigation(setup);
  const Model x = some_model(navigation);
  const auto experience = navigation.experience(0, 0, x.data());
  // So from one move to the next it falls by a reward, but where an episode ends: there it is the
  // last reward itself, -0.11, -0.01, 0.09 or, at the goal, 1.09.
  const auto is_reward = [](double value) {
    return std::abs(value + 0.11) < 1e-9 || std::abs(value + 0.01) < 1e-9 ||
           std::abs(value - 0.09) < 1e-9 || std::abs(value - 1.09) < 1e-9;
  };
  std::size_t ends = 0;
  for (std::size_t e = 0; e < 3; ++e) {
    for (std::size_t t = 0; t + 1 < 20; ++t) {
      const double here = experience.returns[t * 3 + e], next = experience.returns[(t + 1) * 3 + e];
      if (is_reward(here - next)) continue;
      CHECK(is_reward(here));
      ++ends;
    }
  }
  // The end of an episode may fall on the last move, where this does not look.
  CHECK(ends <= experience.lengths.size());
  CHECK(ends + 3 >= experience.lengths.size());

  // Scaled advantages have mean 0 and deviation 1.
  double mean = 0, squares = 0;
  for (const double a : experience.advantages) mean += a / 60;
  for (const double a : experience.advantages) squares += a * a / 60;
  CHECK(std::abs(mean) < 1e-12);
  CHECK(squares == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("episodes have very uneven length, while every rollout has as many moves") {
  const Navigation navigation(Navigation::Problem{});
  const Model x = initial_model(navigation);
  std::set<int> lengths;
  int arrivals = 0;
  for (Step draw = 0; draw < 20; ++draw) {
    const auto experience = navigation.experience(0, draw, x.data());
    CHECK(experience.directions.size() == 8 * 32);
    CHECK(navigation.batch_cost(0, draw) == 8 * 32);
    lengths.insert(experience.lengths.begin(), experience.lengths.end());
    arrivals += experience.arrivals;
  }
  CHECK(lengths.size() > 15);
  CHECK(*lengths.begin() <= 2);
  CHECK(arrivals > 0);
}

TEST_CASE("a policy has the same bits in every build: gradient, loss and evaluation") {
  const auto make = [](const dense::Kernels& kernels) { return Navigation(problem(), kernels); };
  check_every_build(make, some_model(make(dense::kernels())));
}

TEST_CASE("one node learns to navigate maps that it has never seen: over 80 % arrive") {
  const Navigation navigation(Navigation::Problem{});
  Model x = initial_model(navigation), velocity(x.size()), gradient(x.size());
  EvaluationRequest before{.x = x.data()}, after{.x = x.data()};
  navigation.evaluate({&before, 1});
  for (int k = 0; k < 1000; ++k) {
    GradientRequest request{.node = 0, .draw = k, .x = x.data(), .gradient = gradient.data()};
    navigation.gradients({&request, 1});
    for (std::size_t i = 0; i < x.size(); ++i) {
      velocity[i] = 0.9f * velocity[i] + gradient[i];
      x[i] -= 0.03f * velocity[i];
    }
  }
  navigation.evaluate({&after, 1});
  CHECK(before.accuracy < 0.4);  // moves at random
  CHECK(before.loss > 0.85);
  CHECK(after.accuracy > 0.8);
  CHECK(after.loss < 0.6);  // SPL over 0.4
}

TEST_CASE("a diverged policy has a loss that is not finite") {
  const Navigation navigation(problem());
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), 1e38f}) {
    Model x(navigation.facts().parameters, value), gradient(x.size());
    GradientRequest request{.node = 0, .draw = 0, .x = x.data(), .gradient = gradient.data()};
    navigation.gradients({&request, 1});
    CHECK_FALSE(std::isfinite(request.loss));
  }
}

TEST_CASE("wrong settings of navigation are errors at their place in the scenario") {
  const auto wrong = [](const std::string& key, const std::string& value, const char* message) {
    CHECK_THROWS_WITH_AS(test::make_workload("navigation", {{key, value}}),
                         doctest::Contains(message), ScenarioError);
  };
  wrong("side", "1", "test.ini:7: workload.side must be from 2 to 256, got 1");
  wrong("obstacles", "0.95", "workload.obstacles must be from 0 to 0.9, got 0.95");
  wrong("discount", "1.5", "workload.discount must be from 0 to 1, got 1.5");
  wrong("hidden", "0", "workload.hidden must be whole numbers");
}

}  // namespace
}  // namespace starling::test_navigation
