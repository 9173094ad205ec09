// The plain float exp and log, which the vectorized ones meet bit for bit; a part of v1.cpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/dense/math.hpp"

namespace starling::dense {
namespace {

inline float exponential_of(float x) {
  x = exp_highest < x ? exp_highest : x;
  x = exp_lowest > x ? exp_lowest : x;
  const float shifted = std::fmaf(x, log2_e, rounding_shift);
  const float n = shifted - rounding_shift;
  const float r = std::fmaf(n, -ln2_low, std::fmaf(n, -ln2_high, x));
  float q = exp_polynomial[0];
  for (int i = 1; i < 6; ++i) q = std::fmaf(q, r, exp_polynomial[i]);
  const float y = std::fmaf(q, r * r, r) + 1.0f;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) - rounding_shift_bits;
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  return y * std::bit_cast<float>((half + 127u) << 23) *
         std::bit_cast<float>((exponent - half + 127u) << 23);
}

inline float logarithm_of(float x) {
  const std::uint32_t offset = std::bit_cast<std::uint32_t>(x) - sqrt_half_bits;
  const auto e = static_cast<float>(static_cast<std::int32_t>(offset) >> 23);
  const float f = std::bit_cast<float>((offset & 0x007FFFFFu) + sqrt_half_bits) - 1.0f;
  const float square = f * f;
  float p = log_polynomial[0];
  for (int i = 1; i < 9; ++i) p = std::fmaf(p, f, log_polynomial[i]);
  float y = (p * square) * f;
  y = std::fmaf(e, ln2_low, y);
  y = std::fmaf(-0.5f, square, y);
  y = std::fmaf(e, ln2_high, f + y);
  return y + (x - x);  // NaN for infinity and NaN
}

}  // namespace
}  // namespace starling::dense
