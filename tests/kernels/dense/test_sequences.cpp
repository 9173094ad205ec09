// The transformer's kernels: every build against the plain loops, bit for bit, and the plain loops
// against the formulas in double.
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/dense/dense.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/floats.hpp"

namespace starling::test_sequences {
namespace {

using dense::attention_scratch;
using dense::AttentionShape;
using dense::Kernels;
using dense::kernels_v1;
using dense::row_stride;
using dense::runnable_kernels;
using test::differences;
using test::Floats;
using test::random_floats;

struct NormCase {
  std::size_t rows, columns;
  Floats x, gain, dy, before;
};

NormCase norm_case(std::size_t rows, std::size_t columns) {
  Random random(3, "norm", static_cast<int>(columns), static_cast<int>(rows));
  const std::size_t floats = rows * row_stride(columns);
  return {rows,
          columns,
          random_floats(random, floats),
          random_floats(random, 2 * columns),
          random_floats(random, floats),
          random_floats(random, floats)};
}

/// y, moments, dx and the gradient of gain and bias, one after the other.
Floats normalize(const Kernels& kernels, const NormCase& c) {
  const std::size_t stride = row_stride(c.columns);
  Floats y(c.x.size(), 7.0f), moments(2 * c.rows), dx = c.before, gain_gradient(2 * c.columns);
  kernels.sequences.layer_norm(c.rows, c.columns, c.x.data(), stride, c.gain.data(), y.data(),
                               moments.data());
  kernels.sequences.layer_norm_gradient(c.rows, c.columns, c.x.data(), stride, moments.data(),
                                        c.gain.data(), c.dy.data(), dx.data(),
                                        gain_gradient.data());
  for (const Floats* part : {&moments, &dx, &gain_gradient}) {
    y.insert(y.end(), part->begin(), part->end());
  }
  return y;
}

TEST_CASE("layer norm has the same bits in every build") {
  for (const std::size_t columns : {1, 5, 8, 15, 16, 17, 24, 31, 32, 40, 64, 100}) {
    for (const std::size_t rows : {1, 4}) {
      const NormCase c = norm_case(rows, columns);
      const Floats expected = normalize(kernels_v1(), c);
      for (const Kernels* kernels : runnable_kernels()) {
        CAPTURE(kernels->name);
        CAPTURE(columns);
        CHECK(differences(normalize(*kernels, c), expected) == 0);
      }
    }
  }
}

TEST_CASE("layer norm gives rows mean 0 and deviation 1, then gain and bias") {
  const NormCase c = norm_case(3, 37);
  const Floats y = normalize(kernels_v1(), c);
  const std::size_t stride = row_stride(37);
  for (std::size_t r = 0; r < c.rows; ++r) {
    double mean = 0, variance = 0;
    for (std::size_t o = 0; o < 37; ++o) mean += static_cast<double>(c.x[r * stride + o]) / 37;
    for (std::size_t o = 0; o < 37; ++o) {
      variance += std::pow(static_cast<double>(c.x[r * stride + o]) - mean, 2) / 37;
    }
    for (std::size_t o = 0; o < 37; ++o) {
      const double n =
          (static_cast<double>(c.x[r * stride + o]) - mean) / std::sqrt(variance + 1e-5);
      const double expected =
          n * static_cast<double>(c.gain[o]) + static_cast<double>(c.gain[37 + o]);
      CHECK(std::abs(static_cast<double>(y[r * stride + o]) - expected) < 2e-6);
    }
  }
}

TEST_CASE("GELU has the same bits in every build, and the values of its formula in double") {
  Floats x = {0.0f, -0.0f, 1e-30f, -1e-30f, 50.0f, -50.0f, 1e5f, -1e5f, NAN, 3.0f, -3.0f};
  Random random(4, "gelu");
  for (const float value : random_floats(random, 300, 3)) x.push_back(value);
  const Floats slopes = random_floats(random, x.size());
  Floats expected(x.size()), expected_gradient = slopes;
  kernels_v1().sequences.gelu(x.data(), expected.data(), x.size());
  kernels_v1().sequences.gelu_gradient(x.data(), expected_gradient.data(), x.size());
  for (const Kernels* kernels : runnable_kernels()) {
    for (const std::size_t count : {x.size(), std::size_t{1}, std::size_t{9}, std::size_t{23}}) {
      Floats y(count),
          gradient(slopes.begin(), slopes.begin() + static_cast<std::ptrdiff_t>(count));
      kernels->sequences.gelu(x.data(), y.data(), count);
      kernels->sequences.gelu_gradient(x.data(), gradient.data(), count);
      for (Floats* part : {&y, &gradient}) part->resize(x.size());
      Floats first = expected, first_gradient = expected_gradient;
      for (Floats* part : {&first, &first_gradient}) {
        part->resize(count);
        part->resize(x.size());
      }
      CHECK(differences(y, first) == 0);
      CHECK(differences(gradient, first_gradient) == 0);
    }
  }
  const auto gelu = [](double v) {
    return v / 2 *
           (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
  };
  for (std::size_t i = 9; i < x.size(); ++i) {
    const auto v = static_cast<double>(x[i]);
    CHECK(std::abs(static_cast<double>(expected[i]) - gelu(v)) < 1e-6);
    const double slope = (gelu(v + 1e-5) - gelu(v - 1e-5)) / 2e-5;
    CHECK(std::abs(static_cast<double>(expected_gradient[i]) -
                   slope * static_cast<double>(slopes[i])) < 1e-5);
  }
}

struct AttentionCase {
  AttentionShape shape;
  std::size_t stride, y_stride;
  Floats qkv, dy;
};

AttentionCase attention_case(std::size_t length, std::size_t width) {
  Random random(5, "attention", static_cast<int>(length), static_cast<int>(width));
  AttentionCase c{{length, width, 1.0f / std::sqrt(static_cast<float>(width))},
                  row_stride(3 * width),
                  row_stride(width),
                  {},
                  {}};
  c.qkv = random_floats(random, length * c.stride, 1.5);
  c.dy = random_floats(random, length * c.y_stride);
  return c;
}

/// y, then the gradient of q, k and v.
Floats attend(const Kernels& kernels, const AttentionCase& c) {
  const auto [length, width, scale] = c.shape;
  Floats y(length * c.y_stride, 7.0f), gradient(c.qkv.size(), 7.0f);
  Floats scratch(attention_scratch(length, width), NAN);
  const float* q = c.qkv.data();
  float* dq = gradient.data();
  kernels.sequences.attention(c.shape, q, q + width, q + 2 * width, c.stride, y.data(), c.y_stride,
                              scratch.data());
  kernels.sequences.attention_gradient(c.shape, q, q + width, q + 2 * width, c.stride, c.dy.data(),
                                       c.y_stride, dq, dq + width, dq + 2 * width, scratch.data());
  y.insert(y.end(), gradient.begin(), gradient.end());
  return y;
}

TEST_CASE("attention has the same bits in every build") {
  for (const std::size_t length : {1, 2, 7, 8, 9, 16, 17, 31, 33, 48, 65, 100}) {
    for (const std::size_t width : {1, 4, 8, 16, 20, 32, 40}) {
      const AttentionCase c = attention_case(length, width);
      const Floats expected = attend(kernels_v1(), c);
      for (const Kernels* kernels : runnable_kernels()) {
        CAPTURE(kernels->name);
        CAPTURE(length);
        CAPTURE(width);
        CHECK(differences(attend(*kernels, c), expected) == 0);
      }
    }
  }
}

TEST_CASE("attention is the mean of the values so far, by softmax of the products") {
  const AttentionCase c = attention_case(21, 6);
  const Floats y = attend(kernels_v1(), c);
  const auto at = [&](std::size_t i, std::size_t column) {
    return static_cast<double>(c.qkv[i * c.stride + column]);
  };
  for (std::size_t i = 0; i < 21; ++i) {
    std::vector<double> weights(i + 1);
    double sum = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (std::size_t o = 0; o < 6; ++o) product += at(i, o) * at(j, 6 + o);
      sum += weights[j] = std::exp(product / std::sqrt(6.0));
    }
    for (std::size_t o = 0; o < 6; ++o) {
      double expected = 0;
      for (std::size_t j = 0; j <= i; ++j) expected += weights[j] / sum * at(j, 12 + o);
      CHECK(std::abs(static_cast<double>(y[i * c.y_stride + o]) - expected) < 2e-6);
    }
  }
}

TEST_CASE("without an activation before it, the gradient of an input is not cut") {
  Random random(6, "input");
  const starling::dense::Shape shape{5, 37, 41};
  const std::size_t stride = row_stride(shape.inputs), dy_stride = row_stride(shape.outputs);
  const Floats dy = random_floats(random, shape.batch * dy_stride);
  const Floats weights = random_floats(random, shape.inputs * shape.outputs);
  Floats expected(shape.batch * stride);
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t k = 0; k < shape.inputs; ++k) {
      float sum = 0;
      for (std::size_t o = 0; o < shape.outputs; ++o) {
        sum = std::fmaf(dy[b * dy_stride + o],
                        weights[starling::dense::weight_index(shape.inputs, shape.outputs, k, o)],
                        sum);
      }
      expected[b * stride + k] = sum;
    }
  }
  for (const Kernels* kernels : runnable_kernels()) {
    Floats dx(expected.size());
    kernels->input_gradient(shape, {0, shape.inputs}, dy.data(), dy_stride, weights.data(), nullptr,
                            stride, dx.data());
    for (std::size_t b = 0; b < shape.batch; ++b) {
      for (std::size_t k = shape.inputs; k < stride; ++k) dx[b * stride + k] = 0;
    }
    CHECK(differences(dx, expected) == 0);
  }
}

}  // namespace

}  // namespace starling::test_sequences
