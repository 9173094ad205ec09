// The image kernels that are no products, as plain loops with additions and multiplications only.
// Every build compiles this one source; the compiler vectorizes the loops over channels, which
// changes no bit, because it may not reorder sums. Included by kernel builds only.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/dense/images.hpp"

namespace starling::dense {
namespace {

void relu(float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = x[i] < 0 ? 0 : x[i];
}

void relu_gradient(const float* y, float* dy, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
}

void add(const float* a, const float* b, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

void max_pool(std::size_t height, std::size_t width, std::size_t channels, std::size_t window,
              const float* x, float* y) {
  for (std::size_t row = 0; row < height / window; ++row) {
    for (std::size_t column = 0; column < width / window; ++column, y += channels) {
      const float* corner = x + (row * width + column) * window * channels;
      for (std::size_t c = 0; c < channels; ++c) y[c] = corner[c];
      for (std::size_t place = 1; place < window * window; ++place) {
        const float* from = corner + (place / window * width + place % window) * channels;
        for (std::size_t c = 0; c < channels; ++c) {
          y[c] = from[c] > y[c] || from[c] != from[c] ? from[c] : y[c];
        }
      }
    }
  }
}

/// As many floats as a register holds: arithmetic, comparison and ?: work lane by lane. Where it stands, the compiler
/// would not vectorize a loop.
#if defined(__AVX512F__)
constexpr std::size_t strip = 16;
#elif defined(__AVX__)
constexpr std::size_t strip = 8;
#else
constexpr std::size_t strip = 4;
#endif
using Strip = float __attribute__((vector_size(strip * sizeof(float))));
using HalfStrip = float __attribute__((vector_size(strip / 2 * sizeof(float))));

/// A float or a strip, anywhere in memory.
template <class Value>
Value load(const float* from) {
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class Value>
void store(float* to, const Value& value) {
  std::memcpy(to, &value, sizeof value);
}

/// Calls body(Value(), first channel) for strips of channels, and for those left. A loop over pixels in it has what belongs
/// to its channels in registers.
template <class Body>
void for_channels(std::size_t channels, const Body& body) {
  std::size_t c = 0;
  for (; c + strip <= channels; c += strip) body(Strip{}, c);
  for (; c + strip / 2 <= channels; c += strip / 2) body(HalfStrip{}, c);
  for (; c < channels; ++c) body(0.0f, c);
}

/// max_pool_gradient of a square whose first pixel is at x: of one channel, or of a strip or half of one.
template <class Value>
void max_pool_gradient_of_square(std::size_t width, std::size_t channels, std::size_t window,
                                 const float* x, const float* dy, float* dx) {
  auto highest = load<Value>(x);
  for (std::size_t row = 0; row < window; ++row) {
    for (std::size_t column = 0; column < window; ++column) {
      const auto value = load<Value>(x + (row * width + column) * channels);
      highest = value > highest ? value : highest;
    }
  }
  auto rest = load<Value>(dy);  // the gradient, until a pixel has taken it
  const Value zero{};
  for (std::size_t row = 0; row < window; ++row) {
    for (std::size_t column = 0; column < window; ++column) {
      const std::size_t at = (row * width + column) * channels;
      const auto is_highest = load<Value>(x + at) == highest;
      store<Value>(dx + at, is_highest ? rest : zero);
      rest = is_highest ? zero : rest;
    }
  }
}

void max_pool_gradient(std::size_t height, std::size_t width, std::size_t channels,
                       std::size_t window, const float* x, const float* dy, float* dx) {
  if (height % window != 0 || width % window != 0) {
    for (std::size_t i = 0; i < height * width * channels; ++i) dx[i] = 0;
  }
  for (std::size_t row = 0; row < height / window; ++row) {
    for (std::size_t column = 0; column < width / window; ++column, dy += channels) {
      const std::size_t corner = (row * width + column) * window * channels;
      for_channels(channels, [&]<class Value>(Value, std::size_t c) {
        max_pool_gradient_of_square<Value>(width, channels, window, x + corner + c, dy + c,
                                           dx + corner + c);
      });
    }
  }
}

void average(std::size_t pixels, std::size_t channels, const float* x, float* y) {
  for (std::size_t c = 0; c < channels; ++c) y[c] = 0;
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) y[c] += x[p * channels + c];
  }
  for (std::size_t c = 0; c < channels; ++c) y[c] /= static_cast<float>(pixels);
}

void average_gradient(std::size_t pixels, std::size_t channels, const float* dy, float* dx) {
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) {
      dx[p * channels + c] = dy[c] / static_cast<float>(pixels);
    }
  }
}

/// Mean of sums[c], each a sum over pixels, over the channels first .. first + count - 1.
double group_mean(const Normalization& shape, const double* sums, std::size_t first,
                  std::size_t count) {
  double sum = 0;
  for (std::size_t c = first; c < first + count; ++c) sum += sums[c];
  return sum / (static_cast<double>(shape.pixels) * static_cast<double>(count));
}

using WideHalf = double __attribute__((vector_size(strip / 2 * sizeof(double))));

/// The numbers of a strip as doubles, in two registers: GCC 12 keeps a vector that is wider than one in memory.
struct WideStrip {
  WideHalf low, high;
};
inline WideStrip operator+(const WideStrip& a, const WideStrip& b) {
  return {a.low + b.low, a.high + b.high};
}
inline WideStrip operator-(const WideStrip& a, const WideStrip& b) {
  return {a.low - b.low, a.high - b.high};
}
inline WideStrip operator*(const WideStrip& a, const WideStrip& b) {
  return {a.low * b.low, a.high * b.high};
}

inline double widen(float value) { return value; }
inline WideHalf widen(HalfStrip value) { return __builtin_convertvector(value, WideHalf); }
inline WideStrip widen(const Strip& value) {
  HalfStrip halves[2];
  std::memcpy(halves, &value, sizeof value);
  return {widen(halves[0]), widen(halves[1])};
}
template <class Value>
using Wide = decltype(widen(Value()));

void moments(Normalization shape, const float* x, double* sums, float* mean, float* rate) {
  const std::size_t channels = shape.channels, size = channels / shape.groups;
  for_channels(channels, [&]<class Value>(Value, std::size_t c) {
    Wide<Value> sum{};
    for (std::size_t p = 0; p < shape.pixels; ++p)
      sum = sum + widen(load<Value>(x + p * channels + c));
    std::memcpy(sums + c, &sum, sizeof sum);
  });
  for (std::size_t first = 0; first < channels; first += size) {
    const auto value = static_cast<float>(group_mean(shape, sums, first, size));
    for (std::size_t c = first; c < first + size; ++c) mean[c] = value;
  }
  for_channels(channels, [&]<class Value>(Value, std::size_t c) {
    Wide<Value> sum{};
    const Wide<Value> middle = widen(load<Value>(mean + c));
    for (std::size_t p = 0; p < shape.pixels; ++p) {
      const Wide<Value> d = widen(load<Value>(x + p * channels + c)) - middle;
      sum = sum + d * d;
    }
    std::memcpy(sums + c, &sum, sizeof sum);
  });
  for (std::size_t first = 0; first < channels; first += size) {
    const double variance = group_mean(shape, sums, first, size);
    const auto value = static_cast<float>(1 / __builtin_sqrt(variance + normalization_epsilon));
    for (std::size_t c = first; c < first + size; ++c) rate[c] = value;
  }
}

void normalize(Normalization shape, const float* x, const float* mean, const float* rate,
               const float* scale, const float* shift, float* y) {
  for_channels(shape.channels, [&]<class Value>(Value, std::size_t c) {
    const auto m = load<Value>(mean + c), r = load<Value>(rate + c);
    const auto s = load<Value>(scale + c), b = load<Value>(shift + c);
    for (std::size_t i = c; i < shape.pixels * shape.channels; i += shape.channels) {
      store<Value>(y + i, (load<Value>(x + i) - m) * r * s + b);
    }
  });
}

void normalize_gradient(Normalization shape, const float* x, const float* mean, const float* rate,
                        const float* scale, const float* dy, double* sums, float* shares,
                        float* scale_gradient, float* shift_gradient, float* dx) {
  const std::size_t channels = shape.channels, size = channels / shape.groups;
  const std::size_t count = shape.pixels * channels;
  double* const products = sums + channels;
  for_channels(channels, [&]<class Value>(Value, std::size_t c) {
    const auto m = load<Value>(mean + c), r = load<Value>(rate + c);
    Wide<Value> sum{}, product{};
    for (std::size_t i = c; i < count; i += channels) {
      const auto slope = load<Value>(dy + i);
      const Value n = (load<Value>(x + i) - m) * r;
      sum = sum + widen(slope);
      product = product + widen(slope) * widen(n);
    }
    std::memcpy(sums + c, &sum, sizeof sum);
    std::memcpy(products + c, &product, sizeof product);
  });
  for (std::size_t c = 0; c < channels; ++c) {
    shift_gradient[c] += static_cast<float>(sums[c]);
    scale_gradient[c] += static_cast<float>(products[c]);
    sums[c] *= static_cast<double>(scale[c]);
    products[c] *= static_cast<double>(scale[c]);
  }
  for (std::size_t first = 0; first < channels; first += size) {
    const auto share = static_cast<float>(group_mean(shape, sums, first, size));
    const auto product = static_cast<float>(group_mean(shape, products, first, size));
    for (std::size_t c = first; c < first + size; ++c) {
      shares[c] = share;
      shares[channels + c] = product;
    }
  }
  for_channels(channels, [&]<class Value>(Value, std::size_t c) {
    const auto m = load<Value>(mean + c), r = load<Value>(rate + c), s = load<Value>(scale + c);
    const auto share = load<Value>(shares + c), product = load<Value>(shares + channels + c);
    for (std::size_t i = c; i < count; i += channels) {
      const Value n = (load<Value>(x + i) - m) * r;
      store<Value>(dx + i, r * (s * load<Value>(dy + i) - share - n * product));
    }
  });
}

}  // namespace
}  // namespace starling::dense
