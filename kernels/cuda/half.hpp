// 16-bit floats, rounded to nearest even, as kernels/transform_quantize.cpp defines them.
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

STARLING_DEVICE std::uint32_t rounded_upper(std::uint32_t word, int dropped) {
  const std::uint32_t half = std::uint32_t{1} << (dropped - 1);
  return (word + half - 1 + ((word >> dropped) & 1)) >> dropped;
}

STARLING_DEVICE std::uint32_t to_bfloat(float v) {
  return isnan(v) ? (bits_of(v) >> 16) | 0x40 : rounded_upper(bits_of(v), 16);
}
STARLING_DEVICE float from_bfloat(std::uint32_t field) { return float_of(field << 16); }

STARLING_DEVICE std::uint32_t to_half(float v) {
  const std::uint32_t sign = (bits_of(v) >> 16) & 0x8000;
  const std::uint32_t magnitude = bits_of(v) & 0x7fff'ffff;
  if (isnan(v)) return sign | 0x7e00;
  if (magnitude >= 0x4780'0000) return sign | 0x7c00;  // 2^16 and more
  if (magnitude < 0x3880'0000)                         // below 2^-14: a multiple of 2^-24
    return sign | static_cast<std::uint32_t>(nearbyint(double{float_of(magnitude) * 0x1p24F}));
  return sign | rounded_upper(magnitude - ((127 - 15) << 23), 13);
}

STARLING_DEVICE float from_half(std::uint32_t field) {
  const std::uint32_t sign = (field & 0x8000) << 16;
  const std::uint32_t exponent = (field >> 10) & 0x1f;
  const std::uint32_t mantissa = field & 0x3ff;
  if (exponent == 0) return float_of(bits_of(static_cast<float>(mantissa) * 0x1p-24F) | sign);
  const std::uint32_t widened = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return float_of(sign | (widened << 23) | (mantissa << 13));
}

}  // namespace starling::cuda
