// Top-k of a row by a block: three histograms over 11, 10 and 10 bits of the magnitudes (non-negative floats compare
// like their bits) find the smallest magnitude that stays; then every thread copies what stays of its own stretch of the
// row to the place that a count of the stretches before gives it. No sort.
#pragma once

#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

template <unsigned threads>
struct LargestState {
  static constexpr std::uint32_t bins = 2048;
  std::uint32_t histogram[bins];
  std::uint32_t partial[threads];
  std::uint32_t greater[threads], equal[threads];  // in a thread's stretch, then before it
  std::uint32_t prefix;  // leading bits of the smallest magnitude that stays
  std::uint32_t left;    // to be taken among those with this prefix
  std::uint32_t equals;  // with this prefix
};

template <unsigned threads>
STARLING_DEVICE void find_smallest(const Block& block, const TransformTask& t,
                                   LargestState<threads>& s, std::uint32_t shift,
                                   std::uint32_t bits) {
  const std::uint32_t bins = std::uint32_t{1} << bits;
  block.each([&](unsigned thread) {
    for (std::uint32_t i = thread; i < bins; i += threads) s.histogram[i] = 0;
  });
  block.each([&](unsigned thread) {
    const std::uint32_t prefix = s.prefix;
    for (std::uint32_t i = thread; i < t.size[0]; i += threads) {
      const std::uint32_t magnitude = bits_of(t.in[0][i]) & 0x7fff'ffff;
      if (static_cast<std::uint64_t>(magnitude) >> (shift + bits) == prefix)
        add_atomically(s.histogram[(magnitude >> shift) & (bins - 1)], 1);
    }
  });
  const std::uint32_t width = bins / threads;  // bins of a thread
  block.each([&](unsigned thread) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < width; ++i) sum += s.histogram[thread * width + i];
    s.partial[thread] = sum;
  });
  block.each([&](unsigned thread) {
    if (thread != 0) return;
    std::uint32_t left = s.left, group = threads - 1;
    for (; s.partial[group] < left; --group) left -= s.partial[group];
    std::uint32_t bin = (group + 1) * width - 1;
    for (; s.histogram[bin] < left; --bin) left -= s.histogram[bin];
    s.left = left;
    s.equals = s.histogram[bin];
    s.prefix = s.prefix << bits | bin;
  });
}

/// v -> positions, counted from b, and values of the a largest in magnitude; of equal ones those further back.
template <unsigned threads>
STARLING_DEVICE void keep_largest(const Block& block, const TransformTask& t) {
  const std::uint32_t count = t.a, size = t.size[0];
  if (count == 0) return;
  auto& s = *reinterpret_cast<LargestState<threads>*>(block.shared_memory);
  block.each([&](unsigned thread) {
    if (thread != 0) return;
    s.prefix = 0;
    s.left = count;
  });
  find_smallest(block, t, s, 20, 11);
  find_smallest(block, t, s, 10, 10);
  find_smallest(block, t, s, 0, 10);

  const std::uint32_t stretch = (size - 1) / threads + 1;
  block.each([&](unsigned thread) {
    std::uint32_t greater = 0, equal = 0;
    const std::uint64_t begin = std::uint64_t{thread} * stretch;
    for (std::uint64_t i = begin; i < begin + stretch && i < size; ++i) {
      const std::uint32_t magnitude = bits_of(t.in[0][i]) & 0x7fff'ffff;
      greater += magnitude > s.prefix ? 1 : 0;
      equal += magnitude == s.prefix ? 1 : 0;
    }
    s.greater[thread] = greater;
    s.equal[thread] = equal;
  });
  block.each([&](unsigned thread) {
    if (thread != 0) return;
    std::uint32_t greater = 0, equal = 0;
    for (unsigned k = 0; k < threads; ++k) {
      const std::uint32_t g = s.greater[k], e = s.equal[k];
      s.greater[k] = greater;
      s.equal[k] = equal;
      greater += g;
      equal += e;
    }
  });
  block.each([&](unsigned thread) {
    const std::uint32_t passed_over = s.equals - s.left;  // of the equal ones, from the front
    std::uint32_t equal = s.equal[thread];
    std::uint32_t at = s.greater[thread] + (equal > passed_over ? equal - passed_over : 0);
    const std::uint64_t begin = std::uint64_t{thread} * stretch;
    for (std::uint64_t i = begin; i < begin + stretch && i < size; ++i) {
      const float v = t.in[0][i];
      const std::uint32_t magnitude = bits_of(v) & 0x7fff'ffff;
      const bool is_equal = magnitude == s.prefix;
      if (magnitude > s.prefix || (is_equal && equal >= passed_over)) {
        t.out[at] = float_of(t.b + static_cast<std::uint32_t>(i));
        t.out[count + at] = v;
        ++at;
      }
      equal += is_equal ? 1 : 0;
    }
  });
}

}  // namespace starling::cuda
