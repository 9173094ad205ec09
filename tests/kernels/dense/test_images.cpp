// Every image kernel of every build this processor can run, against obvious loops written here, bit
// for bit, and by numbers worked out by hand.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/dense/dense.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/floats.hpp"

namespace starling::test_images {
namespace {

using namespace dense;
using test::differences;
using test::Floats;
using test::random_floats;

/// Height, width, channels, kernel, stride, outputs: ones, odd numbers, panel edges, more than one
/// block of k (192), kernels as large as the image.
std::vector<Convolution> convolutions() {
  std::vector<Convolution> all = {
      {1, 1, 1, 1, 1, 1, 1},     {28, 28, 1, 3, 3, 1, 32}, {9, 8, 32, 3, 3, 1, 64},
      {7, 10, 3, 5, 5, 1, 16},   {8, 8, 16, 3, 3, 2, 32},  {6, 6, 16, 1, 1, 2, 33},
      {5, 4, 70, 3, 2, 1, 5},    {6, 19, 2, 2, 4, 3, 47},  {4, 6, 3, 4, 6, 1, 10},
      {12, 5, 100, 5, 3, 1, 40}, {30, 30, 2, 3, 3, 1, 9}};
  Random random(7, "convolutions");
  const auto draw = [&](std::size_t most) { return 1 + random.below(most); };
  for (int i = 0; i < 25; ++i) {
    Convolution s{draw(9), draw(9), draw(20), 1, 1, draw(3), draw(40)};
    s.kernel_height = draw(s.height);
    s.kernel_width = draw(s.width);
    all.push_back(s);
  }
  return all;
}

/// Calls visit(pixel, k, at) for every term: input k of an output pixel is x[at]. k is the inner loop.
template <class Visit>
void for_each_term(const Convolution& s, const Visit& visit) {
  for (std::size_t row = 0; row < s.out_height(); ++row) {
    for (std::size_t column = 0; column < s.out_width(); ++column) {
      std::size_t k = 0;
      for (std::size_t line = 0; line < s.kernel_height; ++line) {
        for (std::size_t place = 0; place < s.kernel_width; ++place) {
          for (std::size_t c = 0; c < s.channels; ++c, ++k) {
            const std::size_t at =
                ((row * s.stride + line) * s.width + column * s.stride + place) * s.channels + c;
            visit(row * s.out_width() + column, k, at);
          }
        }
      }
    }
  }
}

TEST_CASE("a convolution of 3 x 3 pixels with a kernel of 2 x 2, by hand") {
  // x = 1 2 3   W = 1  10    y_00 = 1 + 20 + 400 + 5000 = 5421, and so on; the bias is 0.5.
  //     4 5 6       100 1000
  //     7 8 9
  const Convolution shape{3, 3, 1, 2, 2, 1, 1};
  const Floats x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w = {1, 10, 100, 1000}, bias = {0.5f};
  for (const Kernels* kernels : runnable_kernels()) {
    Floats y(4);
    kernels->images.convolve(shape, x.data(), w.data(), bias.data(), y.data());
    CHECK(y == Floats{5421.5f, 6532.5f, 8754.5f, 9865.5f});
    kernels->images.convolve(shape, x.data(), w.data(), nullptr, y.data());  // onto what is there
    CHECK(y == Floats{10842.5f, 13064.5f, 17508.5f, 19730.5f});
    // dW_k = sum over the four pixels of x: 1 + 2 * 2 + 4 * 3 + 5 * 4 = 37 for the first.
    const Floats dy = {1, 2, 3, 4};
    Floats dw = {1000, 0, 0, 0}, db = {7};
    kernels->images.convolution_gradient(shape, x.data(), dy.data(), dw.data(), db.data());
    CHECK(dw == Floats{1037, 47, 67, 77});
    CHECK(db == Floats{17});
  }
}

TEST_CASE("convolutions equal sequential fused multiply-adds, in every build") {
  for (const Convolution& s : convolutions()) {
    CAPTURE(s.height);
    CAPTURE(s.width);
    CAPTURE(s.kernel_height);
    CAPTURE(s.kernel_width);
    CAPTURE(s.channels);
    CAPTURE(s.outputs);
    Random random(1, "convolve");
    const std::size_t pixels = s.out_height() * s.out_width();
    const Floats x = random_floats(random, s.height * s.width * s.channels);
    const Floats w = random_floats(random, s.inputs() * s.outputs);
    const Floats bias = random_floats(random, s.outputs);
    const Floats before = random_floats(random, pixels * s.outputs);
    Floats from_bias(pixels * s.outputs), continued = before;
    for (std::size_t i = 0; i < from_bias.size(); ++i) from_bias[i] = bias[i % s.outputs];
    for_each_term(s, [&](std::size_t pixel, std::size_t k, std::size_t at) {
      for (std::size_t o = 0; o < s.outputs; ++o) {
        const float weight = w[weight_index(s.inputs(), s.outputs, k, o)];
        for (Floats* y : {&from_bias, &continued}) {
          float& sum = (*y)[pixel * s.outputs + o];
          sum = std::fmaf(x[at], weight, sum);
        }
      }
    });
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      Floats y = before;
      kernels->images.convolve(s, x.data(), w.data(), bias.data(), y.data());
      CHECK(differences(y, from_bias) == 0);
      y = before;
      kernels->images.convolve(s, x.data(), w.data(), nullptr, y.data());
      CHECK(differences(y, continued) == 0);
    }
  }
}

TEST_CASE("gradients of convolutions continue sums over pixels in order, in every build") {
  for (const Convolution& s : convolutions()) {
    Random random(2, "convolution gradient");
    const std::size_t pixels = s.out_height() * s.out_width();
    const Floats x = random_floats(random, s.height * s.width * s.channels);
    const Floats dy = random_floats(random, pixels * s.outputs);
    const Floats dw_before = random_floats(random, s.inputs() * s.outputs);
    const Floats db_before = random_floats(random, s.outputs);
    Floats dw = dw_before, db = db_before;
    for_each_term(s, [&](std::size_t pixel, std::size_t k, std::size_t at) {
      for (std::size_t o = 0; o < s.outputs; ++o) {
        float& sum = dw[weight_index(s.inputs(), s.outputs, k, o)];
        sum = std::fmaf(x[at], dy[pixel * s.outputs + o], sum);
        if (k == 0) db[o] += dy[pixel * s.outputs + o];
      }
    });
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      Floats weights = dw_before, bias = db_before;
      kernels->images.convolution_gradient(s, x.data(), dy.data(), weights.data(), bias.data());
      CHECK(differences(weights, dw) == 0);
      CHECK(differences(bias, db) == 0);
      weights = dw_before;
      kernels->images.convolution_gradient(s, x.data(), dy.data(), weights.data(), nullptr);
      CHECK(differences(weights, dw) == 0);
    }
  }
}

TEST_CASE("max pooling takes the first of equal maxima, row by row, and leaves out the rest") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t channels : {std::size_t{1}, std::size_t{19}}) {
    // 3 x 5 pixels, squares of 2: the last row and column are in none. All channels are alike.
    const Floats pixels = {1, 5, 2, 2, 9,  //
                           5, 0, 2, 2, 9,  //
                           9, 9, 9, 9, 9};
    const Floats slopes = {0, 7, 8, 0, 0,  //
                           0, 0, 0, 0, 0,  //
                           0, 0, 0, 0, 0};
    Floats x(15 * channels), expected(15 * channels);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = pixels[i / channels];
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = slopes[i / channels];
    Floats dy(2 * channels, 7);
    std::fill(dy.begin() + static_cast<std::ptrdiff_t>(channels), dy.end(), 8.0f);
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      Floats y(2 * channels), dx(15 * channels, 77);
      kernels->images.max_pool(3, 5, channels, 2, x.data(), y.data());
      for (std::size_t c = 0; c < channels; ++c) {
        CHECK(y[c] == 5);
        CHECK(y[channels + c] == 2);
      }
      kernels->images.max_pool_gradient(3, 5, channels, 2, x.data(), dy.data(), dx.data());
      CHECK(dx == expected);

      for (const std::size_t place : {std::size_t{0}, std::size_t{1}, std::size_t{6}}) {
        Floats bad = x;
        bad[place * channels] = nan;
        kernels->images.max_pool(3, 5, channels, 2, bad.data(), y.data());
        CHECK(std::isnan(y[0]));
      }
    }
  }
}

TEST_CASE("normalization by hand: one group of two channels, two pixels") {
  // x = 1 3 5 7: mean 4, variance (9 + 1 + 1 + 9) / 4 = 5, n = (-3, -1, 1, 3) / sqrt(5 + 1e-5).
  const Normalization shape{2, 2, 1};
  const Floats x = {1, 3, 5, 7}, scale = {2, 10}, shift = {0.5f, 0};
  const double r = 1 / std::sqrt(5 + 1e-5);
  for (const Kernels* kernels : runnable_kernels()) {
    double sums[4];
    float mean[2], rate[2], shares[4];
    kernels->images.moments(shape, x.data(), sums, mean, rate);
    for (int c = 0; c < 2; ++c) {
      CHECK(mean[c] == 4);
      CHECK(rate[c] == static_cast<float>(r));
    }
    Floats y(4);
    kernels->images.normalize(shape, x.data(), mean, rate, scale.data(), shift.data(), y.data());
    const double expected[] = {-6 * r + 0.5, -10 * r, 2 * r + 0.5, 30 * r};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-6));
    }
    // dy = 1 0 0 0: dshift = (1, 0), dscale = (-3 r, 0); scale dy has mean S = 2 / 4, times n the
    // mean T = -6 r / 4; dx = r (scale dy - S - n T) = r (1.5 - 4.5 r^2, -0.5 - 1.5 r^2, ..).
    const Floats dy = {1, 0, 0, 0};
    Floats dscale = {100, 0}, dshift = {200, 0}, dx(4);
    kernels->images.normalize_gradient(shape, x.data(), mean, rate, scale.data(), dy.data(), sums,
                                       shares, dscale.data(), dshift.data(), dx.data());
    CHECK(dscale[0] == doctest::Approx(100 - 3 * r).epsilon(1e-6));
    CHECK(dscale[1] == 0);
    CHECK(dshift == Floats{201, 0});
    const double slopes[] = {1.5 - 4.5 * r * r, -0.5 - 1.5 * r * r, -0.5 + 1.5 * r * r,
                             -0.5 + 4.5 * r * r};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(dx[i] == doctest::Approx(r * slopes[i]).epsilon(1e-5));
    }
  }
}

/// Everything but the products, on the same random numbers.
std::vector<Floats> all_loops(const ImageKernels& images, std::size_t channels,
                              std::size_t groups) {
  Random random(5, "loops");
  constexpr std::size_t height = 7, width = 6, window = 3;
  const std::size_t count = height * width * channels;
  const Normalization shape{height * width, channels, groups};
  const Floats x = random_floats(random, count), dy = random_floats(random, count);
  const Floats scale = random_floats(random, channels), shift = random_floats(random, channels);
  std::vector<Floats> results;
  const auto result = [&](std::size_t size) { return Floats(size, 1); };
  Floats relu = x, relu_gradient = dy, sum = result(count), pooled = result(4 * channels);
  images.relu(relu.data(), count);
  images.relu_gradient(relu.data(), relu_gradient.data(), count);
  images.add(x.data(), dy.data(), sum.data(), count);
  images.max_pool(height, width, channels, window, x.data(), pooled.data());
  Floats pool_gradient = result(count), average = result(channels), spread = result(count);
  images.max_pool_gradient(height, width, channels, window, x.data(), dy.data(),
                           pool_gradient.data());
  images.average(height * width, channels, x.data(), average.data());
  images.average_gradient(height * width, channels, dy.data(), spread.data());
  std::vector<double> sums(2 * channels);
  Floats mean = result(channels), rate = result(channels), shares = result(2 * channels);
  Floats y = result(count), dscale = result(channels), dshift = result(channels),
         dx = result(count);
  images.moments(shape, x.data(), sums.data(), mean.data(), rate.data());
  images.normalize(shape, x.data(), mean.data(), rate.data(), scale.data(), shift.data(), y.data());
  images.normalize_gradient(shape, x.data(), mean.data(), rate.data(), scale.data(), dy.data(),
                            sums.data(), shares.data(), dscale.data(), dshift.data(), dx.data());
  return {relu, relu_gradient, sum, pooled, pool_gradient, average, spread,
          mean, rate,          y,   dscale, dshift,        dx};
}

TEST_CASE("relu, pooling, averages and normalization have the same bits in every build") {
  struct Case {
    std::size_t channels, groups;
  };
  for (const Case& which : {Case{1, 1}, Case{6, 3}, Case{16, 8}, Case{35, 5}, Case{64, 64}}) {
    const auto expected =
        all_loops(runnable_kernels().front()->images, which.channels, which.groups);
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      const auto results = all_loops(kernels->images, which.channels, which.groups);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK_MESSAGE(differences(results[i], expected[i]) == 0, "result ", i);
      }
    }
  }
}

TEST_CASE("relu keeps NaN, and its gradient stops where the output is 0") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Kernels* kernels : runnable_kernels()) {
    Floats y = {-1, 0, 2, nan}, dy = {5, 6, 7, 8};
    kernels->images.relu(y.data(), 4);
    CHECK(y[0] == 0);
    CHECK(y[2] == 2);
    CHECK(std::isnan(y[3]));
    kernels->images.relu_gradient(y.data(), dy.data(), 4);
    CHECK(dy == Floats{0, 0, 7, 0});
  }
}

}  // namespace

}  // namespace starling::test_images
