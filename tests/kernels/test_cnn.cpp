// Convolutional networks against themselves on other builds, batches and threads, and on the shipped
// digits. Their gradients are in test_cnn_gradients.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "sim/base/error.hpp"
#include "tests/kernels/cnn_problems.hpp"
#include "tests/kernels/make_workload.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_cnn {
namespace {

using namespace test;

TEST_CASE("every build gives the same bits for gradient, loss and evaluation") {
  for (const auto& network : networks) {
    CAPTURE(network.first);
    const auto& [layers, image] = network;
    const auto make = [&](const dense::Kernels& kernels) {
      return Cnn(problem(layers, image, 5, 2), kernels);
    };
    check_every_build(make, initial_model(make(dense::kernels())));
  }
}

TEST_CASE("a result depends on its own request only, not on the batch, nor on threads") {
  const int before = omp_get_max_threads();
  for (const auto& network : networks) {
    CAPTURE(network.first);
    const auto& [layers, image] = network;
    const Cnn cnn(problem(layers, image, 4, 6));
    std::vector<std::vector<float>> models;
    std::vector<Result> alone;
    for (NodeId n = 0; n < 6; ++n) {
      models.push_back(initial_model(cnn));
      for (float& value : models.back()) value *= 1.0f + 0.1f * static_cast<float>(n);
      alone.push_back(gradient(cnn, n, n + 7, models.back()));
    }
    EvaluationRequest third{.x = models[3].data()};
    cnn.evaluate({&third, 1});
    for (const int threads : {1, 3}) {
      omp_set_num_threads(threads);
      std::vector<Result> together(6, {std::vector<float>(cnn.facts().parameters), 0});
      std::vector<GradientRequest> requests;
      std::vector<EvaluationRequest> evaluations;
      for (std::size_t n = 0; n < 6; ++n) {
        requests.push_back({.node = static_cast<NodeId>(n),
                            .draw = static_cast<Step>(n) + 7,
                            .x = models[n].data(),
                            .gradient = together[n].gradient.data()});
        evaluations.push_back({.x = models[n].data()});
      }
      cnn.gradients(requests);
      cnn.evaluate(evaluations);
      for (std::size_t n = 0; n < 6; ++n) {
        together[n].loss = requests[n].loss;
        CHECK(together[n] == alone[n]);
      }
      CHECK(evaluations[3].loss == third.loss);
      CHECK(evaluations[3].accuracy == third.accuracy);
    }
    omp_set_num_threads(before);
  }
}

TEST_CASE(
    "dropout drops its part of the numbers, anew for every node and draw, and none in evaluation") {
  // The image is 1 everywhere; 10,000 numbers, each dropped with probability 1/4: 7,500 +- 43 stay.
  Cnn::Problem setup;
  setup.layers = parse_cnn_layers("dropout 0.25");
  setup.image = {100, 100, 1};
  setup.data.train = {
      .samples = 1, .features = 10000, .classes = 2, .x = Dataset::Floats(10000, 1), .y = {1}};
  setup.data.test = setup.data.train;
  setup.parts = {{0}, {0}};
  setup.batch_size = 1;
  const Cnn cnn(setup);
  std::vector<float> x(cnn.facts().parameters, 0);
  const auto survivors = [&](NodeId node, Step draw) {
    // At the zero model p = 1/2, so the gradient of the weights is x / 2, with x = 0 or 4/3.
    const Result result = gradient(cnn, node, draw, x);
    double sum = 0;
    for (std::size_t i = 0; i < 10000; ++i) {
      const float slope = result.gradient[dense::weight_index(10000, 2, i, 0)];
      CHECK((slope == 0 || slope == doctest::Approx(2.0 / 3)));
      sum += slope != 0;
    }
    return sum;
  };
  const double first = survivors(0, 0);
  CHECK(first > 7500 - 5 * 43);
  CHECK(first < 7500 + 5 * 43);
  CHECK(gradient(cnn, 0, 0, x) == gradient(cnn, 0, 0, x));
  CHECK_FALSE(gradient(cnn, 0, 0, x) == gradient(cnn, 0, 1, x));
  CHECK_FALSE(gradient(cnn, 0, 0, x) == gradient(cnn, 1, 0, x));

  for (std::size_t i = 0; i < 10000; ++i) x[dense::weight_index(10000, 2, i, 0)] = 1e-4f;
  EvaluationRequest request{.x = x.data()};
  cnn.evaluate({&request, 1});  // logits 1 and 0, the label is 1: log(e + 1)
  CHECK(request.loss == doctest::Approx(std::log(std::exp(1.0) + 1)).epsilon(1e-4));
}

TEST_CASE("batch normalization is evaluated with statistics of the training samples") {
  // One pixel, one channel, two training samples 1 and 3: mean 2, variance 1. The test sample 4 so
  // becomes 2 (all but 1e-5), and the logits 2 and 0 for label 0: log(1 + e^-2).
  Cnn::Problem setup;
  setup.layers = parse_cnn_layers("batchnorm");
  setup.image = {1, 1, 1};
  setup.data.train = {.samples = 2, .features = 1, .classes = 2, .x = {1, 3}, .y = {0, 1}};
  setup.data.test = {.samples = 1, .features = 1, .classes = 2, .x = {4}, .y = {0}};
  setup.parts = {{0, 1}};
  const Cnn cnn(setup);
  const std::vector<float> x = {1, 0, 1, 0, 0, 0};  // scale, shift, weights, biases
  EvaluationRequest request{.x = x.data()};
  cnn.evaluate({&request, 1});
  CHECK(request.loss == doctest::Approx(std::log(1 + std::exp(-2.0))).epsilon(1e-5));
  CHECK(request.accuracy == 1);
}

TEST_CASE("the initial model is drawn input by input, with zero biases and unit scales") {
  const Cnn cnn(problem("conv 3 2x2, groupnorm 3, relu, dense 5, relu", {3, 3, 2}, 4, 1));
  const auto x = initial_model(cnn);
  Random random(5, "initial model");
  // He: 2 / (2 * 2 * 2), then 2 / (2 * 2 * 3); Glorot: 2 / (5 + 4) in the last layer.
  const double deviations[] = {std::sqrt(2.0 / 8), std::sqrt(2.0 / 12), std::sqrt(2.0 / 9)};
  std::size_t matrix = 0;
  for_each_tensor(cnn.network(),
                  [&](std::size_t first, std::size_t inputs, std::size_t outputs, bool is_scale) {
                    for (std::size_t i = 0; i < std::max<std::size_t>(inputs, 1) * outputs; ++i) {
                      const float value = x[place_of(first, inputs, outputs, i)];
                      if (inputs == 0) {
                        CHECK(value == (is_scale ? 1 : 0));
                      } else {
                        CHECK(value == static_cast<float>(deviations[matrix] * random.normal()));
                      }
                    }
                    matrix += inputs > 0;
                  });
  CHECK(matrix == 3);
}

TEST_CASE("the uniform initial model has weights and biases within one over the root of inputs") {
  auto setup = problem("conv 3 2x2, groupnorm 3, relu, conv 4 2x1 unbiased", {3, 3, 2}, 4, 1);
  setup.is_uniform = true;
  const Cnn cnn(std::move(setup));
  const auto x = initial_model(cnn);
  Random random(5, "initial model");
  double bound = 0;  // of the last matrix
  std::size_t drawn = 0;
  for_each_tensor(cnn.network(), [&](std::size_t first, std::size_t inputs, std::size_t outputs,
                                     bool is_scale) {
    if (inputs > 0) bound = 1 / std::sqrt(static_cast<double>(inputs));
    const bool is_of_norm = is_scale || first == 3 * 8 + 3 + 3;  // behind weights, bias, scale
    for (std::size_t i = 0; i < std::max<std::size_t>(inputs, 1) * outputs; ++i) {
      const float value = x[place_of(first, inputs, outputs, i)];
      if (is_of_norm) {
        CHECK(value == (is_scale ? 1 : 0));
      } else {
        CHECK(value == static_cast<float>(bound * (2 * random.uniform() - 1)));
        ++drawn;
      }
    }
  });
  CHECK(drawn == 3 * 8 + 3 + 4 * 6 + (8 + 1) * 4);
}

TEST_CASE("a gradient that is not finite makes the loss NaN, even if the loss itself is finite") {
  // y = w x with w = 0 and logits (1e30 y, 0), both 0: loss ln 2. The gradient of w is
  // -1/2 * 1e30 * 1e30, beyond all floats.
  Cnn::Problem setup;
  setup.layers = parse_cnn_layers("conv 1 1x1");
  setup.image = {1, 1, 1};
  setup.data.train = {.samples = 1, .features = 1, .classes = 2, .x = {1e30f}, .y = {0}};
  setup.parts = {{0}};
  setup.batch_size = 1;
  const Cnn cnn(setup);
  std::vector<float> x = {0, 0, 1e30f, 0, 0, 0};  // w, bias, weights, biases
  const Result result = gradient(cnn, 0, 0, x);
  CHECK(std::isinf(result.gradient[0]));
  CHECK(std::isnan(result.loss));
  x[2] = 1;
  CHECK(gradient(cnn, 0, 0, x).loss == doctest::Approx(std::log(2.0)));
  x[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(gradient(cnn, 0, 0, x).loss));
}

// --- From a scenario ----------------------------------------------------------------------------------

std::string refusal(const std::string& key, const std::string& text) {
  return test::message_of<ScenarioError>([&] { test::make_workload("cnn", {{key, text}}); });
}

TEST_CASE("one node learns the digits: over 94 % of the test samples are right after 600 steps") {
  const auto cnn = test::make_workload("cnn", {{"dataset", "digits"}});
  CHECK(cnn->facts().has_accuracy);
  // 9 * 8 + 8, 9 * 8 * 16 + 16, 2 * 2 * 16 * 32 + 32, 32 * 10 + 10
  CHECK(cnn->facts().parameters == 80 + 1168 + 2080 + 330);
  auto x = initial_model(*cnn);
  for (int k = 0; k < 600; ++k) {
    const Result result = gradient(*cnn, 0, k, x);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= 0.1f * result.gradient[i];
  }
  EvaluationRequest request{.x = x.data()};
  cnn->evaluate({&request, 1});
  CHECK(request.accuracy > 0.94);
}

TEST_CASE("wrong settings are errors at their place in the scenario") {
  CHECK(refusal("layers", "conv 8 3x3, pol 2") ==
        "test.ini:7: workload.layers must be layers of conv, relu, pool, average, batchnorm, "
        "groupnorm, dropout, dense, residual, got `pol 2` as layer 2; did you mean pool?");
  CHECK(refusal("layers", "pool 4, conv 8 3x3") ==
        "test.ini:7: workload.layers must have kernels that fit into the image, got layer 2, `conv "
        "8 3x3`, on 2 x 2");
  CHECK(refusal("image", "8x9x1") ==
        "test.ini:7: workload.image must have as many numbers as a sample, 64, got 8x9x1");
  CHECK(refusal("image", "8x8") ==
        "test.ini:7: workload.image must be HEIGHTxWIDTHxCHANNELS or square, got 8x8");
  CHECK(refusal("image", "8x8x1x1").find("must be HEIGHT") != std::string::npos);
  CHECK(refusal("image", "0x8x1").find("must be HEIGHT") != std::string::npos);
  CHECK(refusal("image", "4x4x4") == "no error");
  CHECK(refusal("batch_size", "0").find("batch_size") != std::string::npos);
  const auto one_sample = [](const char* layers) {
    test::make_workload("cnn", {{"layers", layers}, {"batch_size", "1"}});
  };
  CHECK_THROWS_WITH_AS(one_sample("dense 8, batchnorm, relu"),
                       "test.ini:7: workload.batch_size must be above 1 with batchnorm of one "
                       "pixel: one number is 0 when normalized",
                       ScenarioError);
  CHECK_NOTHROW(one_sample("conv 4 3x3, batchnorm, relu"));
  CHECK(refusal("net", "zou_cifar").find("net must be one of") != std::string::npos);
  CHECK_THROWS_WITH_AS(test::make_workload("cnn", {{"net", "resnet8"}, {"layers", "relu"}}),
                       doctest::Contains("test.ini:7: workload.layers is not a key here"),
                       ScenarioError);
}

TEST_CASE("samples that are no square images need their shape said") {
  const test::Keys blobs = {{"dataset", "blobs"}, {"features", "60"}, {"layers", "conv 4 3x3"}};
  CHECK_THROWS_WITH_AS(
      test::make_workload("cnn", blobs),
      doctest::Contains("must have as many numbers as a sample, 60, got square; no square of 1 or "
                        "3 channels has so many: say HEIGHTxWIDTHxCHANNELS"),
      ScenarioError);
  auto shaped = blobs;
  shaped.emplace_back("image", "4x5x3");
  // 27 * 4 + 4, then 2 * 3 * 4 numbers to 10 classes
  CHECK(test::make_workload("cnn", shaped)->facts().parameters == 112 + 24 * 10 + 10);
}

}  // namespace
}  // namespace starling::test_cnn
