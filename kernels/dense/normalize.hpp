// The vectorized layer norm and GELU. Sums over a row run in 16 lanes.
#pragma once

#include <cstddef>

#include "kernels/dense/dense.hpp"
#include "kernels/dense/elementwise.hpp"
#include "kernels/dense/lanes.hpp"
#include "kernels/dense/math.hpp"

namespace starling::dense {
namespace {

constexpr std::size_t sum_vectors = 16 / width;  // that hold the 16 lanes of a lane sum

/// Calls step(i, mask, g) for the elements from i on, `width` or what is left of `count`; g is the
/// vector of a lane sum that they go to.
template <class Step>
STARLING_INLINE void for_each_vector(std::size_t count, const Step& step) {
  for (std::size_t i = 0; i < count; i += 16) {
#pragma GCC unroll 2
    for (std::size_t g = 0; g < sum_vectors; ++g) {
      const std::size_t at = i + g * width;
      if (at < count) step(at, Lanes::first(at_most(width, count - at)), g);
    }
  }
}

STARLING_INLINE void clear(Vector (&sums)[sum_vectors]) {
#pragma GCC unroll 2
  for (std::size_t g = 0; g < sum_vectors; ++g) sums[g] = Lanes::zero();
}

void layer_norm(std::size_t rows, std::size_t columns, const float* x, std::size_t stride,
                const float* gain, float* y, float* moments) {
  const float share = 1.0f / static_cast<float>(columns);
  for (std::size_t r = 0; r < rows; ++r, x += stride, y += stride, moments += 2) {
    Vector sums[sum_vectors], squares[sum_vectors];
    clear(sums);
    clear(squares);
    for_each_vector(columns, [&](std::size_t o, Mask mask, std::size_t g) STARLING_INLINED {
      sums[g] = Lanes::add(sums[g], Lanes::load(x + o, mask));
    });
    moments[0] = Lanes::fold(sums) * share;
    const Vector mean = Lanes::all(moments[0]);
    for_each_vector(columns, [&](std::size_t o, Mask mask, std::size_t g) STARLING_INLINED {
      const Vector d = Lanes::keep(Lanes::subtract(Lanes::load(x + o, mask), mean), mask);
      squares[g] = Lanes::fma(d, d, squares[g]);
    });
    moments[1] = 1.0f / __builtin_sqrtf(Lanes::fold(squares) * share + norm_epsilon);
    const Vector scale = Lanes::all(moments[1]);
    for_each_vector(columns, [&](std::size_t o, Mask mask, std::size_t) STARLING_INLINED {
      const Vector n = Lanes::multiply(Lanes::subtract(Lanes::load(x + o, mask), mean), scale);
      Lanes::store(
          y + o, Lanes::fma(n, Lanes::load(gain + o, mask), Lanes::load(gain + columns + o, mask)),
          mask);
    });
  }
}

void layer_norm_gradient(std::size_t rows, std::size_t columns, const float* x, std::size_t stride,
                         const float* moments, const float* gain, const float* dy, float* dx,
                         float* gain_gradient) {
  const float share = 1.0f / static_cast<float>(columns);
  float* bias_gradient = gain_gradient + columns;
  for (std::size_t o = 0; o < 2 * columns; ++o) gain_gradient[o] = 0;
  for (std::size_t r = 0; r < rows; ++r, x += stride, dy += stride, dx += stride, moments += 2) {
    const Vector mean = Lanes::all(moments[0]), scale = Lanes::all(moments[1]);
    Vector sums[sum_vectors], along[sum_vectors];
    clear(sums);
    clear(along);
    const auto normal = [&](std::size_t o, Mask mask) STARLING_INLINED {
      return Lanes::keep(Lanes::multiply(Lanes::subtract(Lanes::load(x + o, mask), mean), scale),
                         mask);
    };
    for_each_vector(columns, [&](std::size_t o, Mask mask, std::size_t g) STARLING_INLINED {
      const Vector n = normal(o, mask), slope = Lanes::load(dy + o, mask);
      const Vector scaled = Lanes::multiply(slope, Lanes::load(gain + o, mask));
      sums[g] = Lanes::add(sums[g], scaled);
      along[g] = Lanes::fma(scaled, n, along[g]);
      Lanes::store(gain_gradient + o, Lanes::fma(slope, n, Lanes::load(gain_gradient + o, mask)),
                   mask);
      Lanes::store(bias_gradient + o, Lanes::add(Lanes::load(bias_gradient + o, mask), slope),
                   mask);
    });
    const Vector level = Lanes::all(Lanes::fold(sums) * share);
    const Vector slope = Lanes::all(Lanes::fold(along) * share);
    for_each_vector(columns, [&](std::size_t o, Mask mask, std::size_t) STARLING_INLINED {
      const Vector scaled = Lanes::multiply(Lanes::load(dy + o, mask), Lanes::load(gain + o, mask));
      const Vector change =
          Lanes::subtract(Lanes::subtract(scaled, level), Lanes::multiply(normal(o, mask), slope));
      Lanes::store(dx + o, Lanes::add(Lanes::load(dx + o, mask), Lanes::multiply(scale, change)),
                   mask);
    });
  }
}

/// 1 / (1 + exp z), the gate that GELU multiplies x by; z as in sequences.hpp.
STARLING_INLINE Vector gelu_gate(Vector x) {
  const Vector cube = Lanes::multiply(x, Lanes::multiply(x, x));
  const Vector z =
      Lanes::multiply(Lanes::all(-gelu_slope), Lanes::fma(Lanes::all(gelu_cubic), cube, x));
  const Vector one = Lanes::all(1.0f);
  return Lanes::divide(one, Lanes::add(one, exponential_of(z)));
}

void gelu(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; i += width) {
    const Mask mask = Lanes::first(at_most(width, count - i));
    const Vector value = Lanes::load(x + i, mask);
    Lanes::store(y + i, Lanes::multiply(value, gelu_gate(value)), mask);
  }
}

void gelu_gradient(const float* x, float* dy, std::size_t count) {
  const Vector one = Lanes::all(1.0f);
  for (std::size_t i = 0; i < count; i += width) {
    const Mask mask = Lanes::first(at_most(width, count - i));
    const Vector value = Lanes::load(x + i, mask), gate = gelu_gate(value);
    const Vector slope =
        Lanes::multiply(Lanes::all(gelu_slope),
                        Lanes::fma(Lanes::all(3 * gelu_cubic), Lanes::multiply(value, value), one));
    const Vector bend = Lanes::multiply(Lanes::multiply(value, gate), Lanes::subtract(one, gate));
    Lanes::store(dy + i, Lanes::multiply(Lanes::load(dy + i, mask), Lanes::fma(bend, slope, gate)),
                 mask);
  }
}

}  // namespace
}  // namespace starling::dense
