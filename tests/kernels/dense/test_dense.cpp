// Every dense kernel of every build this processor can run, against obvious loops written here, bit
// for bit.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/dense/dense.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/floats.hpp"

namespace starling::test_dense {
namespace {

using dense::Ahead;
using dense::Kernels;
using dense::row_stride;
using dense::runnable_kernels;
using dense::Shape;
using dense::weight_index;
using test::differences;
using test::random_floats;

/// Batch, inputs, outputs: ones, odd numbers, panel edges, more than one block of k (192), big and
/// small.
std::vector<Shape> shapes() {
  std::vector<Shape> all = {{1, 1, 1},    {1, 5, 3},     {2, 1, 33},    {16, 64, 32},
                            {16, 32, 10}, {7, 13, 17},   {32, 100, 64}, {9, 193, 31},
                            {3, 400, 47}, {200, 19, 29}, {5, 33, 205},  {12, 65, 400},
                            {13, 16, 16}, {8, 385, 100}, {6, 8, 8},     {400, 3, 2}};
  Random random(7, "shapes");
  for (int i = 0; i < 40; ++i) {
    all.push_back({1 + random.below(40), 1 + random.below(90), 1 + random.below(90)});
  }
  return all;
}

TEST_CASE("every build of x86-64 up to this processor's level is tested here") {
  std::string names;
  for (const Kernels* kernels : runnable_kernels()) names += std::string(" ") + kernels->name;
  if (names != " v1 v3 v4") MESSAGE("SKIPPED some builds: this processor runs only" << names);
  CHECK(names.starts_with(" v1"));
}

TEST_CASE(
    "panels tile the weights: every index is used once, columns of a panel lie side by side") {
  for (const Shape& shape : shapes()) {
    std::vector<int> uses(shape.inputs * shape.outputs);
    for (std::size_t i = 0; i < shape.inputs; ++i) {
      for (std::size_t o = 0; o < shape.outputs; ++o) {
        ++uses.at(weight_index(shape.inputs, shape.outputs, i, o));
      }
    }
    CHECK(uses == std::vector<int>(uses.size(), 1));
  }
  // 3 x 40: the first panel has 3 * 32 weights; (1, 33) is in row 1, column 1 of the second, 8
  // wide.
  CHECK(weight_index(3, 40, 1, 33) == 96 + 8 + 1);
  CHECK(weight_index(3, 40, 2, 5) == 64 + 5);
}

TEST_CASE("a mini-batch is the rows that it names, and nothing beside them changes") {
  for (const std::size_t columns : {1, 7, 8, 16, 31, 64, 100}) {
    Random random(10, "gather");
    const std::size_t stride = columns + 3;
    const auto from = random_floats(random, 9 * columns);
    const std::vector<std::int32_t> rows = {8, 0, 3, 3, 7};
    std::vector<float> expected(rows.size() * stride, 77.0f);
    for (std::size_t b = 0; b < rows.size(); ++b) {
      const auto row = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows[b]) * columns);
      std::copy_n(from.begin() + row, columns,
                  expected.begin() + static_cast<std::ptrdiff_t>(b * stride));
    }
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      std::vector<float> to(expected.size(), 77.0f);
      kernels->gather(rows.size(), columns, from.data(), rows.data(), to.data(), stride);
      CHECK(differences(to, expected) == 0);
    }
  }
}

TEST_CASE("forward equals sequential fused multiply-adds that start from the bias") {
  for (const Shape& s : shapes()) {
    Random random(1, "forward");
    const std::size_t x_stride = row_stride(s.inputs), y_stride = s.outputs + 3;
    const auto x = random_floats(random, s.batch * x_stride);
    const auto w = random_floats(random, s.inputs * s.outputs);
    const auto bias = random_floats(random, s.outputs);
    for (const bool relu : {false, true}) {
      // What lies between the rows must survive.
      std::vector<float> expected(s.batch * y_stride, 77.0f);
      for (std::size_t b = 0; b < s.batch; ++b) {
        for (std::size_t o = 0; o < s.outputs; ++o) {
          float sum = bias[o];
          for (std::size_t k = 0; k < s.inputs; ++k) {
            sum = std::fmaf(x[b * x_stride + k], w[weight_index(s.inputs, s.outputs, k, o)], sum);
          }
          expected[b * y_stride + o] = relu && sum < 0 ? 0 : sum;
        }
      }
      for (const Kernels* kernels : runnable_kernels()) {
        CAPTURE(kernels->name);
        std::vector<float> y(s.batch * y_stride, 77.0f);
        kernels->forward(s, x.data(), x_stride, w.data(), bias.data(), relu, y.data(), y_stride,
                         nullptr);
        CHECK(differences(y, expected) == 0);
      }
    }
  }
}

TEST_CASE(
    "forward fetches rows that are used soon, those first that fit its time, and leaves the "
    "others") {
  Random random(1, "ahead");
  const std::vector<float> rows = random_floats(random, 5000);
  for (const Shape& s : shapes()) {
    CAPTURE(s.batch);
    CAPTURE(s.inputs);
    CAPTURE(s.outputs);
    const auto x = random_floats(random, s.batch * s.inputs);
    const auto w = random_floats(random, s.inputs * s.outputs);
    const auto bias = random_floats(random, s.outputs);
    std::vector<float> expected(s.batch * s.outputs), y(s.batch * s.outputs);
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      const auto left = [&](std::size_t count, std::size_t floats) {
        const std::vector<const float*> soon(count, rows.data());
        Ahead ahead{.rows = count, .row = soon.data(), .floats = floats};
        kernels->forward(s, x.data(), s.inputs, w.data(), bias.data(), false, y.data(), s.outputs,
                         &ahead);
        CHECK(differences(y, expected) == 0);
        CHECK(ahead.floats == floats);
        CHECK(ahead.row + ahead.rows == soon.data() + count);  // from the front
        return ahead.rows;
      };
      kernels->forward(s, x.data(), s.inputs, w.data(), bias.data(), false, expected.data(),
                       s.outputs, nullptr);
      const bool fetches = std::string(kernels->name) != "v1";
      CHECK(left(0, 5000) == 0);
      CHECK(left(1, 5000) == (fetches ? 0 : 1));
      CHECK(left(100, 5000) >= (fetches ? 80 : 100));  // at most one per tile
      CHECK(left(100, 16) <= left(100, 5000));
    }
  }
}

TEST_CASE("parameter gradients sum over samples in order") {
  for (const Shape& s : shapes()) {
    Random random(2, "parameter gradient");
    const std::size_t x_stride = s.inputs + 1, dy_stride = row_stride(s.outputs);
    const auto x = random_floats(random, s.batch * x_stride);
    const auto dy = random_floats(random, s.batch * dy_stride);
    std::vector<float> expected((s.inputs + 1) * s.outputs);  // weights, then bias
    for (std::size_t o = 0; o < s.outputs; ++o) {
      for (std::size_t b = 0; b < s.batch; ++b) {
        const float d = dy[b * dy_stride + o];
        for (std::size_t k = 0; k < s.inputs; ++k) {
          float& sum = expected[weight_index(s.inputs, s.outputs, k, o)];
          sum = std::fmaf(x[b * x_stride + k], d, sum);
        }
        expected[s.inputs * s.outputs + o] += d;
      }
    }
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      std::vector<float> gradient(expected.size(), 77.0f);
      kernels->parameter_gradient(s, x.data(), x_stride, dy.data(), dy_stride, gradient.data(),
                                  gradient.data() + s.inputs * s.outputs);
      CHECK(differences(gradient, expected) == 0);
    }
  }
}

TEST_CASE("sums computed with the parameter gradient equal those computed after it") {
  for (const Shape& s : shapes()) {
    Random random(8, "parameter sums");
    const std::size_t x_stride = s.inputs + 1, dy_stride = row_stride(s.outputs);
    const std::size_t weights = 3, bias = weights + s.inputs * s.outputs + 2;
    const std::size_t floats = bias + s.outputs + 1;
    const auto x = random_floats(random, s.batch * x_stride);
    const auto dy = random_floats(random, s.batch * dy_stride);
    const auto model = random_floats(random, floats), other = random_floats(random, floats);
    const auto momentum = random_floats(random, floats);
    // m <- 0.9 m + g in place; then the model is 0.5 other + 0.5 model - 0.1 m + 2 g, in place of
    // `other`; seven more terms make the sum too long for one pass.
    std::vector<float> g(floats), expected = other, expected_momentum = momentum;
    starling::dense::kernels_v1().parameter_gradient(s, x.data(), x_stride, dy.data(), dy_stride,
                                                     &g[weights], &g[bias]);
    const auto step = [&](std::size_t i) {
      const float m = std::fmaf(1.0f, g[i], 0.9f * momentum[i]);
      float sum = std::fmaf(-0.1f, m, std::fmaf(0.5f, model[i], 0.5f * other[i]));
      sum = std::fmaf(2.0f, g[i], sum);
      for (int t = 0; t < 7; ++t) sum = std::fmaf(0.125f, model[i], sum);
      expected[i] = sum;
      expected_momentum[i] = m;
    };
    for (std::size_t i = 0; i < s.inputs * s.outputs; ++i) step(weights + i);
    for (std::size_t i = 0; i < s.outputs; ++i) step(bias + i);
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      std::vector<float> out = other, m = momentum;
      std::vector<LinearTerm> terms = {{m.data(), 0.9f},     {nullptr, 1.0f},   {out.data(), 0.5f},
                                       {model.data(), 0.5f}, {m.data(), -0.1f}, {nullptr, 2.0f}};
      terms.resize(13, {model.data(), 0.125f});
      const auto length = static_cast<std::uint32_t>(floats);
      const LinearJob sums[] = {{m.data(), length, 0, 2}, {out.data(), length, 2, 11}};
      kernels->parameter_sums(s, x.data(), x_stride, dy.data(), dy_stride,
                              {.sums = sums,
                               .sum_count = 2,
                               .terms = terms.data(),
                               .weights = weights,
                               .bias = bias,
                               .is_far = true});
      CHECK(differences(out, expected) == 0);
      CHECK(differences(m, expected_momentum) == 0);
    }
  }
}

TEST_CASE("a sum that goes past the cache is the same, and leaves what lies beside it alone") {
  for (const Shape& s : shapes()) {
    Random random(9, "far sums");
    const std::size_t x_stride = s.inputs, dy_stride = row_stride(s.outputs);
    const std::size_t bias = s.inputs * s.outputs, floats = bias + s.outputs;
    const auto x = random_floats(random, s.batch * x_stride);
    const auto dy = random_floats(random, s.batch * dy_stride);
    const auto model = random_floats(random, floats);
    for (std::uint32_t count : {1U, 2U, 5U, 6U}) {
      std::vector<LinearTerm> terms(count, {model.data(), 0.25f});
      terms.back() = {nullptr, -0.5f};
      for (const Kernels* kernels : runnable_kernels()) {
        CAPTURE(kernels->name);
        const auto sum = [&](bool is_far, std::size_t shift) {
          std::vector<float> room(floats + 64, 77.0f);
          float* out = room.data();
          while (reinterpret_cast<std::uintptr_t>(out) % 64 != 0) ++out;
          const LinearJob job{out + shift, static_cast<std::uint32_t>(floats), 0, count};
          kernels->parameter_sums(s, x.data(), x_stride, dy.data(), dy_stride,
                                  {.sums = &job,
                                   .sum_count = 1,
                                   .terms = terms.data(),
                                   .weights = 0,
                                   .bias = bias,
                                   .is_far = is_far});
          const auto beside = std::count(room.begin(), room.end(), 77.0f);
          CHECK(beside == std::ssize(room) - static_cast<std::ptrdiff_t>(floats));
          return std::vector<float>(out + shift, out + shift + floats);
        };
        const std::vector<float> near = sum(false, 0);
        CHECK(differences(sum(true, 0), near) == 0);
        CHECK(differences(sum(true, 5), near) == 0);
      }
    }
  }
}

TEST_CASE(
    "input gradients sum over outputs in order and vanish where the activation is not positive") {
  for (const Shape& s : shapes()) {
    Random random(3, "input gradient");
    const std::size_t x_stride = s.inputs + 5, dy_stride = row_stride(s.outputs);
    auto x = random_floats(random, s.batch * x_stride);
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0;
    const auto dy = random_floats(random, s.batch * dy_stride);
    const auto w = random_floats(random, s.inputs * s.outputs);
    std::vector<float> expected(s.batch * x_stride, 77.0f);
    for (std::size_t b = 0; b < s.batch; ++b) {
      for (std::size_t k = 0; k < s.inputs; ++k) {
        float sum = 0;
        for (std::size_t o = 0; o < s.outputs; ++o) {
          sum = std::fmaf(dy[b * dy_stride + o], w[weight_index(s.inputs, s.outputs, k, o)], sum);
        }
        expected[b * x_stride + k] = x[b * x_stride + k] > 0 ? sum : 0;
      }
    }
    for (const Kernels* kernels : runnable_kernels()) {
      CAPTURE(kernels->name);
      std::vector<float> dx(s.batch * x_stride, 77.0f);
      kernels->input_gradient(s, {0, s.inputs}, dy.data(), dy_stride, w.data(), x.data(), x_stride,
                              dx.data());
      CHECK(differences(dx, expected) == 0);
    }
  }
}

TEST_CASE("a sample's row does not depend on the batch it is in") {
  const Shape s{37, 50, 40};
  Random random(4, "batch");
  const auto x = random_floats(random, s.batch * s.inputs);
  const auto w = random_floats(random, s.inputs * s.outputs);
  const auto bias = random_floats(random, s.outputs);
  for (const Kernels* kernels : runnable_kernels()) {
    std::vector<float> together(s.batch * s.outputs), alone(s.batch * s.outputs);
    kernels->forward(s, x.data(), s.inputs, w.data(), bias.data(), true, together.data(), s.outputs,
                     nullptr);
    for (std::size_t b = 0; b < s.batch; ++b) {
      kernels->forward({1, s.inputs, s.outputs}, x.data() + b * s.inputs, s.inputs, w.data(),
                       bias.data(), true, alone.data() + b * s.outputs, s.outputs, nullptr);
    }
    CHECK(differences(together, alone) == 0);
  }
}

TEST_CASE(
    "softmax cross-entropy of every build equals the plain loops, which equal the formula in "
    "double") {
  Random random(5, "softmax");
  for (const std::size_t batch : {1, 3, 8, 16, 17, 40}) {
    for (const std::size_t classes : {1, 2, 7, 10, 16, 17, 33, 100}) {
      const std::size_t stride = classes + 2;
      auto logits = random_floats(random, batch * stride);
      for (float& z : logits) z *= 10;
      std::vector<std::int32_t> labels(batch);
      for (auto& label : labels) label = static_cast<std::int32_t>(random.below(classes));

      std::vector<float> plain = logits;
      std::vector<double> plain_losses(batch);
      runnable_kernels().front()->softmax_cross_entropy(batch, classes, plain.data(), stride,
                                                        labels.data(), plain_losses.data());
      for (std::size_t b = 0; b < batch; ++b) {
        const float* z = logits.data() + b * stride;
        double sum = 0;  // logits are below 50 in size, so exp needs no shift in double
        for (std::size_t o = 0; o < classes; ++o) sum += std::exp(static_cast<double>(z[o]));
        const auto label = static_cast<std::size_t>(labels[b]);
        CHECK(plain_losses[b] ==
              doctest::Approx(std::log(sum) - static_cast<double>(z[label])).epsilon(1e-5));
        for (std::size_t o = 0; o < classes; ++o) {
          const double p = std::exp(static_cast<double>(z[o])) / sum;
          const double expected = (p - (o == label ? 1 : 0)) / static_cast<double>(batch);
          CHECK(std::abs(static_cast<double>(plain[b * stride + o]) - expected) <
                1e-6 / static_cast<double>(batch));
        }
      }
      for (const Kernels* kernels : runnable_kernels()) {
        CAPTURE(kernels->name);
        std::vector<float> gradient = logits;
        std::vector<double> losses(batch);
        kernels->softmax_cross_entropy(batch, classes, gradient.data(), stride, labels.data(),
                                       losses.data());
        CHECK(differences(gradient, plain) == 0);
        CHECK(losses == plain_losses);
      }
    }
  }
}

TEST_CASE("a NaN anywhere in a sample's way makes its loss NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Kernels* kernels : runnable_kernels()) {
    CAPTURE(kernels->name);
    for (std::size_t at = 0; at < 5; ++at) {
      std::array<float, 5> logits = {1, 2, 3, 4, 5};
      logits[at] = nan;
      const std::int32_t label = 2;
      double loss = 0;
      kernels->softmax_cross_entropy(1, 5, logits.data(), 5, &label, &loss);
      CHECK(std::isnan(loss));
    }
    // ReLU must not turn NaN into 0.
    const float x = 1, bias = nan, weight = 1;
    float y = 0;
    kernels->forward({1, 1, 1}, &x, 1, &weight, &bias, true, &y, 1, nullptr);
    CHECK(std::isnan(y));
  }
}

/// Error of `value` in units of the last place of the float nearest to `exact`.
double ulps(float value, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double spacing = static_cast<double>(std::nextafter(std::abs(nearest), INFINITY)) -
                         static_cast<double>(std::abs(nearest));
  return std::abs(static_cast<double>(value) - exact) / spacing;
}

TEST_CASE("exp and log are within 1.1 ulp and the same bits in every build") {
  std::vector<float> x;
  for (int i = -104 * 512; i <= 89 * 512; ++i) {
    x.push_back(static_cast<float>(i) / 512.0f + 1.0f / 4096);
  }
  std::vector<float> reference(x.size());
  runnable_kernels().front()->exponential(x.data(), reference.data(), x.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    if (exact < static_cast<double>(std::numeric_limits<float>::max())) {
      worst = std::max(worst, ulps(reference[i], exact));
    }
  }
  CHECK(worst < 1.1);

  std::vector<float> positive;
  for (std::uint32_t bits = 0x00800000u; bits < 0x7F800000u; bits += 40009) {
    positive.push_back(std::bit_cast<float>(bits));
  }
  for (std::uint32_t bits = 0x3F000000u; bits < 0x40000000u; bits += 1009) {
    positive.push_back(std::bit_cast<float>(bits));
  }
  std::vector<float> logarithms(positive.size());
  runnable_kernels().front()->logarithm(positive.data(), logarithms.data(), positive.size());
  worst = 0;
  for (std::size_t i = 0; i < positive.size(); ++i) {
    worst = std::max(worst, ulps(logarithms[i], std::log(static_cast<double>(positive[i]))));
  }
  CHECK(worst < 1.1);

  for (const Kernels* kernels : runnable_kernels()) {
    CAPTURE(kernels->name);
    std::vector<float> y(x.size());
    kernels->exponential(x.data(), y.data(), x.size());
    CHECK(differences(y, reference) == 0);
    std::vector<float> l(positive.size());
    kernels->logarithm(positive.data(), l.data(), positive.size());
    CHECK(differences(l, logarithms) == 0);

    const float infinity = std::numeric_limits<float>::infinity();
    const std::array<float, 5> special = {0.0f, infinity, -infinity, 1000.0f, std::nanf("")};
    std::array<float, 5> e{};
    kernels->exponential(special.data(), e.data(), special.size());
    CHECK(e[0] == 1.0f);
    CHECK(e[1] == infinity);
    CHECK(e[2] == 0.0f);
    CHECK(e[3] == infinity);
    CHECK(std::isnan(e[4]));
    const float one = 1;
    float zero = 5;
    kernels->logarithm(&one, &zero, 1);
    CHECK(zero == 0.0f);
  }
}

}  // namespace

}  // namespace starling::test_dense
