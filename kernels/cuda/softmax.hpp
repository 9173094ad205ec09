// exp, log and softmax with cross-entropy on a device, bit for bit those of kernels/dense/plain_math.hpp and
// kernels/dense/v1.cpp. The polynomials are those of kernels/dense/math.hpp, written again because a device cannot index
// the host's constants.
#pragma once

#include "kernels/cuda/block.hpp"
#include "kernels/dense/math.hpp"

namespace starling::cuda {

STARLING_DEVICE float exponential_of(float x) {
  x = dense::exp_highest < x ? dense::exp_highest : x;
  x = dense::exp_lowest > x ? dense::exp_lowest : x;
  const float shifted = fmaf(x, dense::log2_e, dense::rounding_shift);
  const float n = shifted - dense::rounding_shift;
  const float r = fmaf(n, -dense::ln2_low, fmaf(n, -dense::ln2_high, x));
  float q = 1.9875691500e-4F;
  q = fmaf(q, r, 1.3981999507e-3F);
  q = fmaf(q, r, 8.3334519073e-3F);
  q = fmaf(q, r, 4.1665795894e-2F);
  q = fmaf(q, r, 1.6666665459e-1F);
  q = fmaf(q, r, 5.0000001201e-1F);
  const float y = fmaf(q, r * r, r) + 1.0F;
  const std::uint32_t exponent = bits_of(shifted) - dense::rounding_shift_bits;
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  return y * float_of((half + 127U) << 23) * float_of((exponent - half + 127U) << 23);
}

STARLING_DEVICE float logarithm_of(float x) {
  const std::uint32_t offset = bits_of(x) - dense::sqrt_half_bits;
  const auto e = static_cast<float>(static_cast<std::int32_t>(offset) >> 23);
  const float f = float_of((offset & 0x007FFFFFU) + dense::sqrt_half_bits) - 1.0F;
  const float square = f * f;
  float p = 7.0376836292e-2F;
  p = fmaf(p, f, -1.1514610310e-1F);
  p = fmaf(p, f, 1.1676998740e-1F);
  p = fmaf(p, f, -1.2420140846e-1F);
  p = fmaf(p, f, 1.4249322787e-1F);
  p = fmaf(p, f, -1.6668057665e-1F);
  p = fmaf(p, f, 2.0000714765e-1F);
  p = fmaf(p, f, -2.4999993993e-1F);
  p = fmaf(p, f, 3.3333331174e-1F);
  float y = (p * square) * f;
  y = fmaf(e, dense::ln2_low, y);
  y = fmaf(-0.5F, square, y);
  y = fmaf(e, dense::ln2_high, f + y);
  return y + (x - x);  // NaN for infinity and NaN
}

STARLING_DEVICE float highest_of(const float* z, std::uint32_t classes) {
  float highest = z[0];
  for (std::uint32_t o = 1; o < classes; ++o) highest = z[o] > highest ? z[o] : highest;
  return highest;
}
/// Turns one sample's logits into the gradient of the mean loss over 1 / share samples; answers with the sample's loss.
STARLING_DEVICE double softmax_cross_entropy(float* z, std::uint32_t classes, std::int32_t label,
                                             float share) {
  const float highest = highest_of(z, classes);
  const double margin = static_cast<double>(z[label]) - static_cast<double>(highest);
  float sum = 0;
  for (std::uint32_t o = 0; o < classes; ++o) {
    z[o] = exponential_of(z[o] - highest);
    sum += z[o];
  }
  const float scale = share / sum;
  const float right = fmaf(z[label], scale, -share);
  for (std::uint32_t o = 0; o < classes; ++o) z[o] *= scale;
  z[label] = right;
  return static_cast<double>(logarithm_of(sum)) - margin;
}

/// The first of the largest entries.
STARLING_DEVICE std::int32_t largest_of(const float* z, std::uint32_t classes) {
  std::uint32_t at = 0;
  for (std::uint32_t o = 1; o < classes; ++o) at = z[at] < z[o] ? o : at;
  return static_cast<std::int32_t>(at);
}

}  // namespace starling::cuda
