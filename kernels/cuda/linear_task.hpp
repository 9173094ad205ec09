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

}  // namespace starling::cuda
