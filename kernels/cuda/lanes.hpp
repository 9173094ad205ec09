// Sums of many entries in double by a block: lane l of 16 adds the entries i with i mod 16 = l in order, then lanes fold
// in halves, as on the CPU (kernels/dense.hpp, kernels/transforms.hpp).
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

inline constexpr unsigned lane_threads = 256;
inline constexpr unsigned lane_count = 16;
/// Entries that the block fetches together before 16 threads add them up. The fetch is what all threads do side by
/// side; a lane's own additions wait for each other.
inline constexpr unsigned lane_tile = 2048;
inline constexpr std::uint32_t lane_shared_bytes = (lane_tile + lane_count) * sizeof(double);

/// Leaves the sum, add(.. add(0, entry(0)) ..) in lanes, where lane_result() finds it. Uses the first lane_shared_bytes
/// of shared memory.
template <class Entry, class Add>
STARLING_DEVICE void lane_sum(const Block& block, std::uint32_t count, const Entry& entry,
                              const Add& add) {
  double* lanes = reinterpret_cast<double*>(block.shared_memory);
  double* entries = lanes + lane_count;
  block.each([&](unsigned thread) {
    if (thread < lane_count) lanes[thread] = 0;
  });
  for (std::uint32_t begin = 0; begin < count; begin += lane_tile) {
    const std::uint32_t here = lesser(lane_tile, count - begin);
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < here; i += lane_threads) entries[i] = entry(begin + i);
    });
    block.each([&](unsigned thread) {
      if (thread >= lane_count) return;
      double sum = lanes[thread];
      for (std::uint32_t i = thread; i < here; i += lane_count) sum = add(sum, entries[i]);
      lanes[thread] = sum;
    });
  }
}

/// Lanes to their sum, in halves.
template <class T>
STARLING_DEVICE T fold_lanes(const T* lanes) {
  T folded[lane_count];
  STARLING_UNROLL
  for (unsigned l = 0; l < lane_count; ++l) folded[l] = lanes[l];
  STARLING_UNROLL
  for (unsigned half = lane_count / 2; half > 0; half /= 2) {
    STARLING_UNROLL
    for (unsigned l = 0; l < lane_count / 2; ++l) {
      if (l < half) folded[l] += folded[l + half];
    }
  }
  return folded[0];
}

/// The sum that lane_sum() left; any thread may ask, none changes it.
STARLING_DEVICE double lane_result(const Block& block) {
  return fold_lanes(reinterpret_cast<const double*>(block.shared_memory));
}

struct Plus {
  STARLING_DEVICE double operator()(double sum, double entry) const { return sum + entry; }
};

}  // namespace starling::cuda
