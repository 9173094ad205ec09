// Running squares and directions by them, as plain loops. Every build compiles this one source; the compiler vectorizes the
// loops, which changes no bit. Included by kernel builds only.
#pragma once

#include <cstddef>

namespace starling::dense {
namespace {

void add_square(const float* sums, const float* g, std::size_t count, float keep, float share,
                float* out) {
  const double kept = keep;
  const double added = share;
  for (std::size_t i = 0; i < count; ++i) {
    const double square = static_cast<double>(g[i]) * static_cast<double>(g[i]);
    out[i] = static_cast<float>(kept * static_cast<double>(sums[i]) + added * square);
  }
}

void divide_by_root(const float* m, const float* squares, std::size_t count, float scale,
                    float spread, float epsilon, float* out) {
  const double factor = scale;
  const double widened = spread;
  const double least = epsilon;
  for (std::size_t i = 0; i < count; ++i) {
    const double root = __builtin_sqrt(widened * static_cast<double>(squares[i])) + least;
    const double step = factor * static_cast<double>(m[i]) / root;
    out[i] = static_cast<float>(root > 0 ? step : 0.0);
  }
}

}  // namespace
}  // namespace starling::dense
