// The image kernels that are no products, as plain loops with additions and multiplications only.
// Every build compiles this one source; the compiler vectorizes the loops over channels, which
// changes no bit, because it may not reorder sums. Included by kernel builds only.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/dense_images.hpp"

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

/// max_pool_gradient of a square whose first pixel is at x: of one channel, or of a strip.
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
      std::size_t c = 0;
      for (; c + strip <= channels; c += strip) {
        max_pool_gradient_of_square<Strip>(width, channels, window, x + corner + c, dy + c,
                                           dx + corner + c);
      }
      for (; c < channels; ++c) {
        max_pool_gradient_of_square<float>(width, channels, window, x + corner + c, dy + c,
                                           dx + corner + c);
      }
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

void moments(Normalization shape, const float* x, double* sums, float* mean, float* rate) {
  const std::size_t channels = shape.channels, size = channels / shape.groups;
  for (std::size_t c = 0; c < channels; ++c) sums[c] = 0;
  for (std::size_t p = 0; p < shape.pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(x[p * channels + c]);
  }
  for (std::size_t first = 0; first < channels; first += size) {
    const auto value = static_cast<float>(group_mean(shape, sums, first, size));
    for (std::size_t c = first; c < first + size; ++c) mean[c] = value;
  }
  for (std::size_t c = 0; c < channels; ++c) sums[c] = 0;
  for (std::size_t p = 0; p < shape.pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) {
      const double d = static_cast<double>(x[p * channels + c]) - static_cast<double>(mean[c]);
      sums[c] += d * d;
    }
  }
  for (std::size_t first = 0; first < channels; first += size) {
    const double variance = group_mean(shape, sums, first, size);
    const auto value = static_cast<float>(1 / __builtin_sqrt(variance + normalization_epsilon));
    for (std::size_t c = first; c < first + size; ++c) rate[c] = value;
  }
}

void normalize(Normalization shape, const float* x, const float* mean, const float* rate,
               const float* scale, const float* shift, float* y) {
  for (std::size_t p = 0; p < shape.pixels; ++p, x += shape.channels, y += shape.channels) {
    for (std::size_t c = 0; c < shape.channels; ++c) {
      y[c] = (x[c] - mean[c]) * rate[c] * scale[c] + shift[c];
    }
  }
}

void normalize_gradient(Normalization shape, const float* x, const float* mean, const float* rate,
                        const float* scale, const float* dy, double* sums, float* shares,
                        float* scale_gradient, float* shift_gradient, float* dx) {
  const std::size_t channels = shape.channels, size = channels / shape.groups;
  double* const products = sums + channels;
  for (std::size_t c = 0; c < 2 * channels; ++c) sums[c] = 0;
  for (std::size_t p = 0; p < shape.pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float slope = dy[p * channels + c];
      const float n = (x[p * channels + c] - mean[c]) * rate[c];
      sums[c] += static_cast<double>(slope);
      products[c] += static_cast<double>(slope) * static_cast<double>(n);
    }
  }
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
  for (std::size_t p = 0; p < shape.pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t i = p * channels + c;
      const float n = (x[i] - mean[c]) * rate[c];
      dx[i] = rate[c] * (scale[c] * dy[i] - shares[c] - n * shares[channels + c]);
    }
  }
}

}  // namespace
}  // namespace starling::dense
