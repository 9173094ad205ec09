// The MLP against finite differences in double, against itself on other builds, batches and
// threads, and on the shipped digits.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/mlp.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/answers.hpp"
#include "tests/kernels/make_workload.hpp"

namespace starling::test_mlp {
namespace {

using test::check_every_build;
using test::gradient;
using test::initial_model;
using test::Result;

Dataset noise(std::size_t samples, std::size_t features, int classes, std::uint64_t seed) {
  Random random(seed, "noise");
  Dataset data;
  data.samples = samples;
  data.features = features;
  data.classes = classes;
  for (std::size_t i = 0; i < samples * features; ++i) {
    data.x.push_back(static_cast<float>(random.normal()));
  }
  for (std::size_t s = 0; s < samples; ++s) {
    data.y.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
  }
  return data;
}

/// Samples 0, nodes, 2 nodes, .. belong to node 0, and so on.
Mlp::Problem problem(std::vector<std::size_t> hidden, std::size_t features, int classes,
                     std::int64_t batch_size, std::size_t nodes) {
  Mlp::Problem result;
  result.hidden = std::move(hidden);
  result.data.train = noise(101, features, classes, 1);
  result.data.test = noise(150, features, classes, 2);  // more than two blocks of 64
  result.data.description = "noise";
  result.batch_size = batch_size;
  result.parts.resize(nodes);
  for (std::int32_t s = 0; s < 101; ++s) {
    result.parts[static_cast<std::size_t>(s) % nodes].push_back(s);
  }
  result.seed = 5;
  return result;
}

/// Mean loss of the samples at the model x in double, by the textbook.
double reference_loss(const Mlp& mlp, const Dataset& data, const std::vector<std::int32_t>& samples,
                      const std::vector<double>& x) {
  double loss = 0;
  for (const std::int32_t sample : samples) {
    const auto row = data.row(static_cast<std::size_t>(sample));
    std::vector<double> values(row.begin(), row.end());
    for (const auto& layer : mlp.layers()) {
      std::vector<double> next(layer.outputs);
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        next[o] = x[layer.bias + o];
        for (std::size_t i = 0; i < layer.inputs; ++i) {
          next[o] +=
              values[i] * x[layer.weights + dense::weight_index(layer.inputs, layer.outputs, i, o)];
        }
        if (&layer != &mlp.layers().back()) next[o] = std::max(next[o], 0.0);
      }
      values = std::move(next);
    }
    double sum = 0;
    for (const double z : values) sum += std::exp(z);
    loss +=
        std::log(sum) - values[static_cast<std::size_t>(data.y[static_cast<std::size_t>(sample)])];
  }
  return loss / static_cast<double>(samples.size());
}

TEST_CASE("loss and gradient are those of finite differences in double") {
  for (const auto& hidden :
       std::vector<std::vector<std::size_t>>{{}, {7}, {40, 9}, {1, 1}, {33, 18, 5}}) {
    for (const std::int64_t batch : {1, 6, 19}) {
      const Mlp mlp(problem(hidden, 6, 4, batch, 3));
      auto x = initial_model(mlp);
      Random random(9, "biases");
      for (float& value : x) value += 0.1f * static_cast<float>(random.normal());
      std::vector<std::int32_t> samples(static_cast<std::size_t>(batch));
      mlp.sampler().batch(1, 4, samples);

      const Result result = gradient(mlp, 1, 4, x);
      std::vector<double> point(x.begin(), x.end());
      CHECK(result.loss ==
            doctest::Approx(reference_loss(mlp, mlp.train(), samples, point)).epsilon(1e-6));
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        // Central differences are off by h^2 f'''/6 + 1e-16 f/h, about 1e-10; the float gradient by
        // some 1e-7.
        constexpr double h = 1e-6;
        point[i] = static_cast<double>(x[i]) + h;
        const double above = reference_loss(mlp, mlp.train(), samples, point);
        point[i] = static_cast<double>(x[i]) - h;
        const double below = reference_loss(mlp, mlp.train(), samples, point);
        point[i] = static_cast<double>(x[i]);
        worst = std::max(
            worst, std::abs((above - below) / (2 * h) - static_cast<double>(result.gradient[i])));
      }
      CHECK(worst < 5e-6);
    }
  }
}

TEST_CASE("loss and gradient of an MLP are PyTorch's on the same inputs") {
  // /usr/bin/python3 tests/kernels/reference/mlp_gradients.py, PyTorch 1.13; inputs are explained there.
  constexpr double loss = 2.342483255254;
  constexpr double sums[] = {-1.380217357979, 0.260808028535,  -0.109147583689,
                             0.101582352108,  -0.005873269485, -0.100475264453};
  Mlp::Problem setup;
  setup.hidden = {40, 7};
  Dataset& train = setup.data.train;
  train = {.samples = 9, .features = 6, .classes = 10};
  for (std::size_t i = 0; i < 9 * train.features; ++i) {
    const auto value = static_cast<double>(i);
    train.x.push_back(
        static_cast<float>(std::sin(0.37 * value + 0.1 * static_cast<double>(i * i % 11))));
  }
  setup.parts = {{}};
  for (std::int32_t s = 0; s < 9; ++s) {
    train.y.push_back(3 * s % 10);
    setup.parts[0].push_back(s);
  }
  setup.batch_size = 9;  // an epoch: all samples, in an order that matters to no mean
  const Mlp mlp(std::move(setup));
  std::vector<float> x(mlp.facts().parameters);
  /// Calls task(t, i, place) for number i of tensor t.
  const auto for_each_number = [&](const auto& task) {
    for (std::size_t l = 0; l < mlp.layers().size(); ++l) {
      const DenseLayer& layer = mlp.layers()[l];
      for (std::size_t i = 0; i < layer.inputs * layer.outputs; ++i) {
        task(2 * l, i,
             layer.weights + dense::weight_index(layer.inputs, layer.outputs, i / layer.outputs,
                                                 i % layer.outputs));
      }
      for (std::size_t o = 0; o < layer.outputs; ++o) task(2 * l + 1, o, layer.bias + o);
    }
  };
  for_each_number([&](std::size_t t, std::size_t i, std::size_t place) {
    x[place] = static_cast<float>(0.5 * std::sin(static_cast<double>(1 + i + 7 * t)));
  });
  const Result result = gradient(mlp, 0, 0, x);
  CHECK(result.loss == doctest::Approx(loss).epsilon(1e-6));
  double found[6] = {};
  for_each_number([&](std::size_t t, std::size_t i, std::size_t place) {
    found[t] += double{result.gradient[place]} * std::cos(0.3 * static_cast<double>(i));
  });
  for (std::size_t t = 0; t < 6; ++t) CHECK(std::abs(found[t] - sums[t]) < 1e-6);
}

TEST_CASE("every build gives the same bits for gradient, loss and evaluation") {
  for (const auto& hidden : std::vector<std::vector<std::size_t>>{{}, {32}, {65, 30}, {128, 64}}) {
    for (const std::int64_t batch : {1, 16, 35}) {
      const auto make = [&](const dense::Kernels& kernels) {
        return Mlp(problem(hidden, 50, 10, batch, 2), kernels);
      };
      check_every_build(make, initial_model(make(dense::kernels())));
    }
  }
}

TEST_CASE("a result depends on its own request only, not on the batch, nor on threads") {
  const Mlp mlp(problem({20}, 12, 5, 8, 10));
  std::vector<std::vector<float>> models;
  std::vector<Result> alone;
  for (NodeId n = 0; n < 10; ++n) {
    models.push_back(initial_model(mlp));
    for (float& value : models.back()) value *= 1.0f + 0.1f * static_cast<float>(n);
    alone.push_back(gradient(mlp, n, n + 7, models.back()));
  }
  EvaluationRequest first{.x = models[3].data()};
  mlp.evaluate({&first, 1});

  const int before = omp_get_max_threads();
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    std::vector<Result> together(10, {std::vector<float>(mlp.facts().parameters), 0});
    std::vector<GradientRequest> requests;
    std::vector<EvaluationRequest> evaluations;
    for (std::size_t n = 0; n < 10; ++n) {
      requests.push_back({.node = static_cast<NodeId>(n),
                          .draw = static_cast<Step>(n) + 7,
                          .x = models[n].data(),
                          .gradient = together[n].gradient.data()});
      evaluations.push_back({.x = models[n].data()});
    }
    mlp.gradients(requests);
    mlp.evaluate(evaluations);
    for (std::size_t n = 0; n < 10; ++n) {
      together[n].loss = requests[n].loss;
      CHECK(together[n] == alone[n]);
    }
    CHECK(evaluations[3].loss == first.loss);
    CHECK(evaluations[3].accuracy == first.accuracy);
  }
  omp_set_num_threads(before);
}

TEST_CASE(
    "evaluation is the mean loss over all test samples and the fraction whose largest logit is "
    "right") {
  const auto setup = problem({9}, 6, 4, 4, 1);
  const Mlp mlp(setup);
  const auto x = initial_model(mlp);
  std::vector<std::int32_t> all(setup.data.test.samples);
  for (std::size_t s = 0; s < all.size(); ++s) all[s] = static_cast<std::int32_t>(s);
  const std::vector<double> point(x.begin(), x.end());
  EvaluationRequest request{.x = x.data()};
  mlp.evaluate({&request, 1});
  CHECK(request.loss ==
        doctest::Approx(reference_loss(mlp, setup.data.test, all, point)).epsilon(1e-6));

  // At the zero model all logits are equal: the loss is ln 4 and class 0 is guessed for every
  // sample.
  const std::vector<float> zero(x.size(), 0.0f);
  request.x = zero.data();
  mlp.evaluate({&request, 1});
  CHECK(request.loss == doctest::Approx(std::log(4.0)).epsilon(1e-6));
  const auto zeros = std::count(setup.data.test.y.begin(), setup.data.test.y.end(), 0);
  CHECK(request.accuracy == static_cast<double>(zeros) / 150.0);
}

TEST_CASE("the initial model is drawn input by input, whatever the layout, with zero biases") {
  const Mlp mlp(problem({40}, 6, 4, 4, 1));
  const auto x = initial_model(mlp);
  Random random(5, "initial model");
  // He: 2 / 6 where a ReLU follows; Glorot: 2 / (40 + 4) in the last layer.
  const double deviations[] = {std::sqrt(2.0 / 6), std::sqrt(2.0 / 44)};
  for (std::size_t l = 0; l < 2; ++l) {
    const auto& layer = mlp.layers()[l];
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        const float expected = static_cast<float>(deviations[l] * random.normal());
        CHECK(x[layer.weights + dense::weight_index(layer.inputs, layer.outputs, i, o)] ==
              expected);
      }
    }
    for (std::size_t o = 0; o < layer.outputs; ++o) CHECK(x[layer.bias + o] == 0.0f);
  }
  CHECK(mlp.facts().parameters == (6 + 1) * 40 + (40 + 1) * 4);
}

TEST_CASE(
    "the uniform initial model draws weights, then biases, within one over the root of inputs") {
  Mlp::Problem uniform = problem({40}, 6, 4, 4, 1);
  uniform.is_uniform = true;
  const Mlp mlp(std::move(uniform));
  const auto x = initial_model(mlp);
  Random random(5, "initial model");
  for (const auto& layer : mlp.layers()) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer.inputs));
    const auto draw = [&] { return static_cast<float>(bound * (2 * random.uniform() - 1)); };
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        CHECK(x[layer.weights + dense::weight_index(layer.inputs, layer.outputs, i, o)] == draw());
      }
    }
    for (std::size_t o = 0; o < layer.outputs; ++o) CHECK(x[layer.bias + o] == draw());
  }
}

TEST_CASE("a batch may be larger than what a node holds: samples then appear more than once") {
  const Mlp mlp(problem({}, 6, 4, 16, 50));  // 101 samples on 50 nodes: two or three each
  const auto x = initial_model(mlp);
  std::vector<std::int32_t> samples(16);
  mlp.sampler().batch(7, 0, samples);
  CHECK(gradient(mlp, 7, 0, x).loss ==
        doctest::Approx(reference_loss(mlp, mlp.train(), samples, {x.begin(), x.end()}))
            .epsilon(1e-6));
  CHECK(mlp.batch_cost(7, 0) == 16);
}

TEST_CASE("a diverged model has a loss that is not finite") {
  const Mlp mlp(problem({20}, 6, 4, 4, 1));
  auto x = initial_model(mlp);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(gradient(mlp, 0, 0, x).loss));
  std::fill(x.begin(), x.end(), 1e38f);
  CHECK_FALSE(std::isfinite(gradient(mlp, 0, 0, x).loss));
}

TEST_CASE("a gradient that is not finite makes the loss NaN, stored or summed") {
  // The hidden number is relu(0 x + 1) = 1, the logits 1e30 - 1e30 = 0 and 0: loss ln 2. The gradient of the first weight
  // is -1/2 * 1e30 * 1e30, beyond all floats.
  Mlp::Problem setup;
  setup.hidden = {1};
  setup.data.train = {.samples = 1, .features = 1, .classes = 2, .x = {1e30f}, .y = {0}};
  setup.parts = {{0}};
  setup.batch_size = 1;
  std::vector<float> x = {0, 1, 1e30f, 0, -1e30f, 0};  // weight, bias; weights, biases
  const LinearTerm terms[] = {{x.data(), 1}, {nullptr, -1e-44f}};
  std::vector<float> sum(x.size());
  const LinearJob job{sum.data(), static_cast<std::uint32_t>(x.size()), 0, 2};
  for (const dense::Kernels* kernels : dense::runnable_kernels()) {
    CAPTURE(kernels->name);
    const Mlp mlp(setup, *kernels);
    const Result whole = gradient(mlp, 0, 0, x);
    CHECK(std::isinf(whole.gradient[0]));
    CHECK(std::isnan(whole.loss));
    GradientRequest summed{.x = x.data(), .sums = {&job, 1}, .terms = terms};
    mlp.gradients({&summed, 1});
    CHECK(std::isnan(summed.loss));
    auto small = x;
    small[2] = 1, small[4] = -1;
    CHECK(gradient(mlp, 0, 0, small).loss == doctest::Approx(std::log(2.0)));
  }
}

double accuracy_after_training(const Workload& workload, int steps, float learning_rate) {
  auto x = initial_model(workload);
  for (int k = 0; k < steps; ++k) {
    const Result result = gradient(workload, 0, k, x);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= learning_rate * result.gradient[i];
  }
  EvaluationRequest request{.x = x.data()};
  workload.evaluate({&request, 1});
  return request.accuracy;
}

TEST_CASE("one node learns the digits: over 90 % of the test samples are right after 500 steps") {
  const auto mlp = test::make_workload("mlp", {{"dataset", "digits"}, {"hidden", "32"}});
  CHECK(mlp->facts().parameters == 64 * 32 + 32 + 32 * 10 + 10);
  CHECK(mlp->facts().has_accuracy);
  CHECK(accuracy_after_training(*mlp, 500, 0.1f) > 0.9);
  const auto softmax = test::make_workload("softmax", {{"dataset", "digits"}});
  CHECK(softmax->facts().parameters == 64 * 10 + 10);
  CHECK(accuracy_after_training(*softmax, 500, 0.1f) > 0.9);
}

TEST_CASE("wrong settings are errors at their place in the scenario") {
  CHECK_THROWS_WITH_AS(test::make_workload("mlp", {{"hidden", "32, 0"}}),
                       "test.ini:7: workload.hidden must be whole numbers from 1 to 1048576, got 0",
                       ScenarioError);
  CHECK_THROWS_WITH_AS(
      test::make_workload("mlp", {{"hidden", "2.5"}}),
      "test.ini:7: workload.hidden must be whole numbers from 1 to 1048576, got 2.5",
      ScenarioError);
  CHECK_THROWS_WITH_AS(test::make_workload("mlp", {{"batch_size", "0"}}),
                       "test.ini:7: workload.batch_size must be from 1 to 1048576, got 0",
                       ScenarioError);
  CHECK_THROWS_WITH_AS(test::make_workload("softmax", {{"hidden", "32"}}),
                       doctest::Contains("test.ini:7: workload.hidden is not a key here"),
                       ScenarioError);
}

}  // namespace
}  // namespace starling::test_mlp
