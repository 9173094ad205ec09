// Linear combinations as a device sees them.
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

/// LinearJob and LinearTerm of sim/node/backend.hpp, with pointers into device memory.
struct LinearTask {
  float* out;
  std::uint32_t length;
  std::uint32_t first_term;
  std::uint32_t terms;
  std::uint32_t is_aligned;  // every row begins at a multiple of 16 bytes
};
struct TermOnDevice {
  const float* values;
  float factor;
};

/// The first term of a sum, and one that joins it; of quads, four sums.
STARLING_DEVICE float first_term(float factor, float value) { return factor * value; }
STARLING_DEVICE float next_term(float factor, float value, float sum) {
  return fmaf(factor, value, sum);
}
STARLING_DEVICE Quad first_term(float factor, const Quad& v) {
  return {factor * v.x, factor * v.y, factor * v.z, factor * v.w};
}
STARLING_DEVICE Quad next_term(float factor, const Quad& v, const Quad& sum) {
  return {fmaf(factor, v.x, sum.x), fmaf(factor, v.y, sum.y), fmaf(factor, v.z, sum.z),
          fmaf(factor, v.w, sum.w)};
}

}  // namespace starling::cuda
