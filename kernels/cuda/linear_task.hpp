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

/// Where a sum begins: without terms at 0, else at -0, to which the first product adds up as it is, -0 as well.
STARLING_DEVICE void begin_sum(std::uint32_t terms, float& sum) { sum = terms == 0 ? 0.0F : -0.0F; }
STARLING_DEVICE void begin_sum(std::uint32_t terms, Quad& sums) {
  float start;
  begin_sum(terms, start);
  sums = {start, start, start, start};
}

/// sum <- factor * value + sum, rounded once; of quads, four sums.
STARLING_DEVICE void add_term(float& sum, float factor, float value) {
  sum = fmaf(factor, value, sum);
}
STARLING_DEVICE void add_term(Quad& sums, float factor, const Quad& v) {
  sums = {fmaf(factor, v.x, sums.x), fmaf(factor, v.y, sums.y), fmaf(factor, v.z, sums.z),
          fmaf(factor, v.w, sums.w)};
}

}  // namespace starling::cuda
