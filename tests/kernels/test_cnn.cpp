// Convolutional networks against finite differences in double, against PyTorch, against themselves on
// other builds, batches and threads, and on the shipped digits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <omp.h>

#include "kernels/cnn.hpp"
#include "kernels/registry.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace {

using namespace starling;
using Kind = CnnLayer::Kind;

Dataset noise(std::size_t samples, std::size_t features, int classes, std::uint64_t seed) {
  Random random(seed, "noise");
  Dataset data{.samples = samples, .features = features, .classes = classes};
  for (std::size_t i = 0; i < samples * features; ++i) {
    data.x.push_back(static_cast<float>(random.normal()));
  }
  for (std::size_t s = 0; s < samples; ++s) {
    data.y.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
  }
  return data;
}

/// Samples 0, nodes, 2 nodes, .. belong to node 0, and so on.
Cnn::Problem problem(const std::string& layers, Extent image, std::int64_t batch_size,
                     std::size_t nodes) {
  Cnn::Problem result;
  result.layers = parse_cnn_layers(layers);
  result.image = image;
  result.data.train = noise(31, image.size(), 4, 1);
  result.data.test = noise(40, image.size(), 4, 2);  // more than two blocks of 16
  result.data.description = "noise";
  result.batch_size = batch_size;
  result.parts.resize(nodes);
  for (std::int32_t s = 0; s < 31; ++s) {
    result.parts[static_cast<std::size_t>(s) % nodes].push_back(s);
  }
  result.seed = 5;
  return result;
}

// --- The network once more, in double and by the textbook -----------------------------------------

using Image = std::vector<double>;  // (height, width, channels)
using Images = std::vector<Image>;  // a mini-batch

/// Forward passes in double; the model is read from `x` in order.
struct Twin {
  const std::vector<double>& x;
  std::size_t at = 0;

  Images convolve(const Images& from, Extent& extent, const CnnLayer& layer) {
    const Extent in = extent;
    const std::size_t border_height = layer.same ? layer.kernel_height / 2 : 0;
    const std::size_t border_width = layer.same ? layer.kernel_width / 2 : 0;
    const std::size_t inputs = layer.kernel_height * layer.kernel_width * in.channels;
    extent = {(in.height + 2 * border_height - layer.kernel_height) / layer.stride + 1,
              (in.width + 2 * border_width - layer.kernel_width) / layer.stride + 1, layer.count};
    const std::size_t weights = at, bias = at + inputs * layer.count;
    at = bias + (layer.unbiased ? 0 : layer.count);
    Images to;
    for (const Image& image : from) {
      Image result(extent.size());
      for (std::size_t i = 0; i < extent.size(); ++i) {
        const std::size_t o = i % layer.count, pixel = i / layer.count;
        double sum = layer.unbiased ? 0 : x[bias + o];
        for (std::size_t k = 0; k < inputs; ++k) {
          const std::size_t c = k % in.channels, place = k / in.channels;
          const std::size_t row =
              pixel / extent.width * layer.stride + place / layer.kernel_width - border_height;
          const std::size_t column =
              pixel % extent.width * layer.stride + place % layer.kernel_width - border_width;
          if (row >= in.height || column >= in.width) continue;  // also if it wrapped below 0
          sum += image[(row * in.width + column) * in.channels + c] *
                 x[weights + dense::weight_index(inputs, layer.count, k, o)];
        }
        result[i] = sum;
      }
      to.push_back(std::move(result));
    }
    return to;
  }

  /// Over channels c with c / size equal, of samples first .. last.
  static void normalize_group(Images& images, std::size_t first, std::size_t last,
                              std::size_t channels, std::size_t size, std::size_t group) {
    std::vector<double*> members;
    for (std::size_t b = first; b <= last; ++b) {
      for (std::size_t i = 0; i < images[b].size(); ++i) {
        if (i % channels / size == group) members.push_back(&images[b][i]);
      }
    }
    const auto count = static_cast<double>(members.size());
    double mean = 0, variance = 0;
    for (const double* member : members) mean += *member / count;
    for (const double* member : members) variance += (*member - mean) * (*member - mean) / count;
    for (double* member : members) *member = (*member - mean) / std::sqrt(variance + 1e-5);
  }

  Images normalize(Images images, Extent extent, std::size_t groups, bool over_batch) {
    const std::size_t size = extent.channels / groups;
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t b = 0; b < (over_batch ? 1 : images.size()); ++b) {
        normalize_group(images, b, over_batch ? images.size() - 1 : b, extent.channels, size,
                        group);
      }
    }
    for (Image& image : images) {
      for (std::size_t i = 0; i < image.size(); ++i) {
        const std::size_t c = i % extent.channels;
        image[i] = image[i] * x[at + c] + x[at + extent.channels + c];
      }
    }
    at += 2 * extent.channels;
    return images;
  }

  static Images relu(Images images) {
    for (Image& image : images) {
      for (double& value : image) value = std::max(value, 0.0);
    }
    return images;
  }

  static Images pool(const Images& from, Extent& extent, std::size_t window) {
    const Extent in = extent;
    extent = {in.height / window, in.width / window, in.channels};
    Images to(from.size(), Image(extent.size(), -1e300));
    for (std::size_t b = 0; b < from.size(); ++b) {
      for (std::size_t row = 0; row < extent.height * window; ++row) {
        for (std::size_t column = 0; column < extent.width * window; ++column) {
          for (std::size_t c = 0; c < in.channels; ++c) {
            double& highest =
                to[b][(row / window * extent.width + column / window) * in.channels + c];
            highest = std::max(highest, from[b][(row * in.width + column) * in.channels + c]);
          }
        }
      }
    }
    return to;
  }

  static Images average(const Images& from, Extent& extent) {
    Images to(from.size(), Image(extent.channels));
    for (std::size_t b = 0; b < from.size(); ++b) {
      for (std::size_t i = 0; i < from[b].size(); ++i) {
        to[b][i % extent.channels] += from[b][i] / static_cast<double>(extent.pixels());
      }
    }
    extent = {1, 1, extent.channels};
    return to;
  }

  Images dense(const Images& from, Extent& extent, std::size_t outputs) {
    CnnLayer layer{.kind = Kind::conv, .count = outputs};  // a kernel as large as the image
    layer.kernel_height = extent.height;
    layer.kernel_width = extent.width;
    return convolve(from, extent, layer);
  }

  Images residual(const Images& from, Extent& extent, const CnnLayer& layer) {
    CnnLayer conv{.kind = Kind::conv,
                  .count = layer.count,
                  .kernel_height = 3,
                  .kernel_width = 3,
                  .stride = layer.stride,
                  .same = true,
                  .unbiased = true};
    const Extent before = extent;
    Images branch = convolve(from, extent, conv);
    branch = normalize(branch, extent, layer.groups, false);
    conv.stride = 1;
    branch = convolve(relu(branch), extent, conv);
    branch = normalize(branch, extent, layer.groups, false);
    Images shortcut = from;
    if (!(before == extent)) {
      conv.kernel_height = conv.kernel_width = 1;
      conv.stride = layer.stride;
      Extent projected = before;
      shortcut = convolve(from, projected, conv);
      shortcut = normalize(shortcut, projected, layer.groups, false);
    }
    for (std::size_t b = 0; b < branch.size(); ++b) {
      for (std::size_t i = 0; i < branch[b].size(); ++i) branch[b][i] += shortcut[b][i];
    }
    return relu(branch);
  }
};

/// Mean loss of the mini-batch at the model x in double.
double reference_loss(const Cnn::Problem& setup, std::span<const std::int32_t> samples,
                      const std::vector<double>& x, NodeId node, Step draw) {
  Twin twin{x};
  Images images;
  for (const std::int32_t sample : samples) {
    const auto row = setup.data.train.row(static_cast<std::size_t>(sample));
    images.emplace_back(row.begin(), row.end());
  }
  Extent extent = setup.image;
  for (std::size_t l = 0; l < setup.layers.size(); ++l) {
    const CnnLayer& layer = setup.layers[l];
    if (layer.kind == Kind::conv) images = twin.convolve(images, extent, layer);
    if (layer.kind == Kind::relu) images = Twin::relu(images);
    if (layer.kind == Kind::pool) images = Twin::pool(images, extent, layer.count);
    if (layer.kind == Kind::average) images = Twin::average(images, extent);
    if (layer.kind == Kind::batchnorm) {
      images = twin.normalize(images, extent, extent.channels, true);
    }
    if (layer.kind == Kind::groupnorm) images = twin.normalize(images, extent, layer.groups, false);
    if (layer.kind == Kind::dense) images = twin.dense(images, extent, layer.count);
    if (layer.kind == Kind::residual) images = twin.residual(images, extent, layer);
    if (layer.kind == Kind::dropout) {  // two numbers from each word of the sample's stream
      for (std::size_t b = 0; b < images.size(); ++b) {
        Random random(setup.seed, fmt::format("dropout in layer {}, sample {}", l + 1, b), node,
                      draw);
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < images[b].size(); ++i) {
          word = i % 2 == 0 ? random() : word >> 16;
          const bool is_dropped = static_cast<double>(word % 65536) < layer.rate * 65536;
          images[b][i] *= is_dropped ? 0 : 1 / (1 - layer.rate);
        }
      }
    }
  }
  images = twin.dense(images, extent, 4);
  REQUIRE(twin.at == x.size());
  double loss = 0;
  for (std::size_t b = 0; b < images.size(); ++b) {
    double sum = 0;
    for (const double z : images[b]) sum += std::exp(z);
    const auto label = setup.data.train.y[static_cast<std::size_t>(samples[b])];
    loss += std::log(sum) - images[b][static_cast<std::size_t>(label)];
  }
  return loss / static_cast<double>(samples.size());
}

// --- Gradients --------------------------------------------------------------------------------------

struct Result {
  std::vector<float> gradient;
  double loss;
  friend bool operator==(const Result& a, const Result& b) {
    return std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss) &&
           std::equal(a.gradient.begin(), a.gradient.end(), b.gradient.begin(), b.gradient.end(),
                      [](float p, float q) {
                        return std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
                      });
  }
};

Result gradient(const Workload& workload, NodeId node, Step draw, const std::vector<float>& x) {
  Result result{std::vector<float>(x.size(), 77.0f), 0};
  GradientRequest request{
      .node = node, .draw = draw, .x = x.data(), .gradient = result.gradient.data()};
  workload.gradients({&request, 1});
  result.loss = request.loss;
  return result;
}

std::vector<float> initial_model(const Workload& workload) {
  std::vector<float> x(workload.facts().parameters);
  workload.initial_model(x);
  return x;
}

/// One of each layer, in orders that meet each other's needs: pooling before relu and dropout, odd
/// sizes, strides, a projection and an identity as shortcut, normalization of the image itself.
const std::vector<std::pair<std::string, Extent>> networks = {
    {"conv 3 3x3, relu, pool 2, dense 5, relu", {7, 6, 1}},
    {"conv 4 3x2 /2, relu, conv 18 2x2 unbiased", {9, 8, 2}},
    {"conv 3 3x3 same /2, pool 2, relu, dropout 0.25, dense 6, dropout 0.5", {8, 9, 2}},
    {"conv 4 5x3 same, batchnorm, relu, pool 3, conv 3 1x1, batchnorm, relu", {6, 7, 1}},
    {"conv 4 3x3, groupnorm 2, relu, average", {5, 6, 3}},
    {"residual 4 2, residual 6 3 /2, average", {6, 5, 4}},
    {"relu, groupnorm 1, conv 2 3x3 same, dense 3, relu", {4, 4, 2}},
    {"conv 36 3x3 same, relu, residual 36 4 /3, pool 2", {5, 5, 1}},
    {"batchnorm, dense 7, batchnorm, relu", {3, 3, 2}},
};

TEST_CASE("loss and gradient are those of finite differences in double") {
  for (const auto& [layers, image] : networks) {
    CAPTURE(layers);
    const auto setup = problem(layers, image, 3, 2);
    const Cnn cnn(setup);
    auto x = initial_model(cnn);
    Random random(9, "moves");
    for (float& value : x) value += 0.1f * static_cast<float>(random.normal());
    std::vector<std::int32_t> samples(3);
    cnn.sampler().batch(1, 4, samples);

    const Result result = gradient(cnn, 1, 4, x);
    std::vector<double> point(x.begin(), x.end());
    CHECK(result.loss ==
          doctest::Approx(reference_loss(setup, samples, point, 1, 4)).epsilon(1e-5));
    double worst = 0, largest = 0;
    const std::size_t stride = x.size() / 400 + 1;  // of large models some parameters, all over
    for (std::size_t i = 0; i < x.size(); i += stride) {
      // Central differences are off by h^2 f'''/6 + 1e-16 f/h, about 1e-8 with normalization; the
      // float gradient by some 1e-6 of the largest.
      constexpr double h = 1e-5;
      point[i] = static_cast<double>(x[i]) + h;
      const double above = reference_loss(setup, samples, point, 1, 4);
      point[i] = static_cast<double>(x[i]) - h;
      const double below = reference_loss(setup, samples, point, 1, 4);
      point[i] = static_cast<double>(x[i]);
      const double slope = (above - below) / (2 * h);
      worst = std::max(worst, std::abs(slope - static_cast<double>(result.gradient[i])));
      largest = std::max(largest, std::abs(slope));
    }
    CHECK(largest > 0.01);
    CHECK(worst < 2e-5 * std::max(1.0, largest));
  }
}

/// Visits the tensors of the model in order: first(place in the model), count, input count, output
/// count (0 inputs if not a matrix), and whether it is a scale.
template <class Visit>
void for_each_tensor(const CnnNetwork& network, const Visit& visit) {
  for (const auto& place : network.operations()) {
    if (const auto* convolve = std::get_if<CnnNetwork::Convolve>(&place.operation)) {
      visit(convolve->weights, convolve->shape.inputs(), convolve->shape.outputs, false);
      if (convolve->is_biased) visit(convolve->bias, 0, convolve->shape.outputs, false);
    } else if (const auto* dense = std::get_if<CnnNetwork::Dense>(&place.operation)) {
      visit(dense->weights, dense->inputs, dense->outputs, false);
      visit(dense->bias, 0, dense->outputs, false);
    } else if (const auto* normalize = std::get_if<CnnNetwork::Normalize>(&place.operation)) {
      visit(normalize->scale, 0, place.from.channels, true);
      visit(normalize->shift, 0, place.from.channels, false);
    }
  }
}

/// Where number i of a tensor is in the model.
std::size_t place_of(std::size_t first, std::size_t inputs, std::size_t outputs, std::size_t i) {
  return first + (inputs == 0 ? i : dense::weight_index(inputs, outputs, i / outputs, i % outputs));
}

struct Reference {
  const char* layers;
  std::size_t channels;
  double loss;
  std::vector<double> sums;
};

TEST_CASE("loss and gradient are PyTorch's on the same inputs") {
  // /usr/bin/python3 tests/kernels/reference/cnn_gradients.py, PyTorch 1.13; inputs are explained
  // there.
  const std::vector<Reference> references = {
      {"conv 32 3x3, relu, conv 64 3x3, relu, pool 2, dense 128, relu",
       1,
       2.31854392,
       {0.05677475, 0.04643863, -0.07629524, -0.01133377, -0.002941916, -0.01139829, -0.0001033836,
        0.0183521}},
      {cnn_presets[1].layers,
       1,
       2.42772185,
       {-15.1554, -8.866443e-15, -0.5578553, -0.1560986, 14.35573, 5.156932e-16, -0.2082695,
        -0.03920836, -0.07840866, 0.0360206}},
      {cnn_presets[2].layers,
       3,
       2.30652134,
       {-2.628451,   0.06319722,   -0.1443855,   -2.795521,   -0.03408195, 0.01383175,
        -0.4411435,  0.007907308,  0.01237026,   0.0344789,   0.03531654,  0.03165796,
        0.008452339, -0.03050585,  -0.009147797, 0.01358524,  0.01560762,  -0.009147797,
        -0.00845375, 0.0005503585, -0.002742879, -0.3049329,  -0.03728754, -0.002547654,
        -0.1029182,  0.04942544,   -0.002547654, -0.01751691, 0.03246518}}};
  for (const Reference& reference : references) {
    CAPTURE(reference.layers);
    Cnn::Problem setup;
    setup.layers = parse_cnn_layers(reference.layers);
    setup.image = {8, 8, reference.channels};
    Dataset& train = setup.data.train;
    train = {.samples = 4, .features = setup.image.size(), .classes = 10};
    for (std::size_t i = 0; i < 4 * train.features; ++i) {
      const auto value = static_cast<double>(i);
      train.x.push_back(
          static_cast<float>(std::sin(0.37 * value + 0.1 * static_cast<double>(i * i % 11))));
    }
    train.y = {0, 3, 6, 9};
    setup.parts = {{0, 1, 2, 3}};
    setup.batch_size = 4;  // an epoch: all four samples, in an order that matters to no mean
    const Cnn cnn(setup);
    std::vector<float> x(cnn.facts().parameters);
    std::size_t t = 0;
    for_each_tensor(cnn.network(),
                    [&](std::size_t first, std::size_t inputs, std::size_t outputs, bool is_scale) {
                      for (std::size_t i = 0; i < std::max<std::size_t>(inputs, 1) * outputs; ++i) {
                        const double wave = std::sin(static_cast<double>(1 + i + 7 * t));
                        x[place_of(first, inputs, outputs, i)] =
                            static_cast<float>(is_scale ? 1 + 0.2 * wave : 0.1 * wave);
                      }
                      ++t;
                    });
    const Result result = gradient(cnn, 0, 0, x);
    CHECK(result.loss == doctest::Approx(reference.loss).epsilon(1e-6));
    REQUIRE(t == reference.sums.size());
    t = 0;
    for_each_tensor(cnn.network(), [&](std::size_t first, std::size_t inputs, std::size_t outputs,
                                       bool) {
      double sum = 0;
      for (std::size_t i = 0; i < std::max<std::size_t>(inputs, 1) * outputs; ++i) {
        sum += static_cast<double>(result.gradient[place_of(first, inputs, outputs, i)]) *
               std::cos(0.3 * static_cast<double>(i));
      }
      // Float rounding: 1e-5 of a sum, and 1e-5 where terms cancel.
      CHECK_MESSAGE(std::abs(sum - reference.sums[t]) < 1e-5 + 1e-5 * std::abs(reference.sums[t]),
                    "tensor ", t, ": ", sum, " expected ", reference.sums[t]);
      ++t;
    });
  }
}

TEST_CASE("every build gives the same bits for gradient, loss and evaluation") {
  for (const auto& [layers, image] : networks) {
    CAPTURE(layers);
    const Cnn plain(problem(layers, image, 5, 2), dense::kernels_v1());
    const auto x = initial_model(plain);
    const Result expected = gradient(plain, 1, 3, x);
    CHECK(std::isfinite(expected.loss));
    EvaluationRequest expected_score{.x = x.data()};
    plain.evaluate({&expected_score, 1});
    for (const dense::Kernels* kernels : dense::runnable_kernels()) {
      CAPTURE(kernels->name);
      const Cnn cnn(problem(layers, image, 5, 2), *kernels);
      CHECK(gradient(cnn, 1, 3, x) == expected);
      EvaluationRequest score{.x = x.data()};
      cnn.evaluate({&score, 1});
      CHECK(score.loss == expected_score.loss);
      CHECK(score.accuracy == expected_score.accuracy);
    }
  }
}

TEST_CASE("a result depends on its own request only, not on the batch, nor on threads") {
  const int before = omp_get_max_threads();
  for (const auto& [layers, image] : networks) {
    CAPTURE(layers);
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
      .samples = 1, .features = 10000, .classes = 2, .x = std::vector<float>(10000, 1), .y = {1}};
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

std::unique_ptr<Workload> make(std::vector<Setting> settings, NodeId nodes) {
  settings.push_back({"kind", "cnn", "test.ini:2"});
  const Section section("workload", "test.ini:1", std::move(settings));
  return workloads::find(section).make(section, nodes, 1);
}

std::string complaint(const std::string& key, const std::string& text) {
  try {
    make({{key, text, "test.ini:7"}}, 1);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("one node learns the digits: over 94 % of the test samples are right after 600 steps") {
  const auto cnn = make({{"dataset", "digits", "test.ini:3"}}, 1);
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
  CHECK(complaint("layers", "conv 8 3x3, pol 2") ==
        "test.ini:7: workload.layers must be layers of conv, relu, pool, average, batchnorm, "
        "groupnorm, dropout, dense, residual, got `pol 2` as layer 2; did you mean pool?");
  CHECK(complaint("layers", "pool 4, conv 8 3x3") ==
        "test.ini:7: workload.layers must have kernels that fit into the image, got layer 2, `conv "
        "8 3x3`, on 2 x 2");
  CHECK(complaint("image", "8x9x1") ==
        "test.ini:7: workload.image must have as many numbers as a sample, 64, got 8x9x1");
  CHECK(complaint("image", "8x8") ==
        "test.ini:7: workload.image must be HEIGHTxWIDTHxCHANNELS or square, got 8x8");
  CHECK(complaint("image", "8x8x1x1").find("must be HEIGHT") != std::string::npos);
  CHECK(complaint("image", "0x8x1").find("must be HEIGHT") != std::string::npos);
  CHECK(complaint("image", "4x4x4") == "no error");
  CHECK(complaint("batch_size", "0").find("batch_size") != std::string::npos);
  CHECK(complaint("net", "zou_cifar").find("net must be one of") != std::string::npos);
  CHECK_THROWS_AS(make({{"net", "resnet8", "test.ini:3"}, {"layers", "relu", "test.ini:4"}}, 1),
                  ScenarioError);
}

TEST_CASE("samples that are no square images need their shape said") {
  const std::vector<Setting> blobs = {{"dataset", "blobs", "test.ini:3"},
                                      {"features", "60", "test.ini:4"},
                                      {"layers", "conv 4 3x3", "test.ini:5"}};
  CHECK_THROWS_WITH_AS(make(blobs, 1),
                       doctest::Contains("must have as many numbers as a sample, 60"),
                       ScenarioError);
  auto shaped = blobs;
  shaped.push_back({"image", "4x5x3", "test.ini:6"});
  // 27 * 4 + 4, then 2 * 3 * 4 numbers to 10 classes
  CHECK(make(shaped, 1)->facts().parameters == 112 + 24 * 10 + 10);
}

}  // namespace
