// Gradients of convolutional networks against finite differences of a second implementation, in double
// and by the textbook, and against PyTorch.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/kernels/cnn_problems.hpp"

namespace starling::test_cnn_gradients {
namespace {

using namespace test;
using Kind = CnnLayer::Kind;

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

TEST_CASE("loss and gradient are those of finite differences in double") {
  for (const auto& network : networks) {
    CAPTURE(network.first);
    const auto& [layers, image] = network;
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

}  // namespace
}  // namespace starling::test_cnn_gradients
