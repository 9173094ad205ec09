// How a block reads a stretch of numbers from device memory: four at once where they lie at multiples of 16 bytes, with several
// such loads under way in every thread, which waits long for each.
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

/// v[i] .. v[i + 3], 0 where there are none: i a multiple of 4.
STARLING_DEVICE Quad quad_at(const float* v, std::uint32_t i, std::uint32_t count) {
  if (is_even(v) && i + 4 <= count) return *reinterpret_cast<const Quad*>(v + i);
  return {i < count ? v[i] : 0, i + 1 < count ? v[i + 1] : 0, i + 2 < count ? v[i + 2] : 0,
          i + 3 < count ? v[i + 3] : 0};
}

/// f(i, v[i]) for the thread's share of i < count.
template <unsigned threads, class F>
STARLING_DEVICE void for_numbers(const float* v, std::uint32_t count, unsigned thread, const F& f) {
  constexpr unsigned ahead = 4;
  const std::uint32_t quads_end = is_even(v) ? count / 4 * 4 : 0;
  for (std::uint32_t begin = 4 * thread; begin < quads_end; begin += 4 * threads * ahead) {
    Quad q[ahead];
    STARLING_UNROLL
    for (unsigned a = 0; a < ahead; ++a) {
      const std::uint32_t i = begin + 4 * threads * a;
      if (i < quads_end) q[a] = *reinterpret_cast<const Quad*>(v + i);
    }
    STARLING_UNROLL
    for (unsigned a = 0; a < ahead; ++a) {
      const std::uint32_t i = begin + 4 * threads * a;
      if (i >= quads_end) break;
      f(i, q[a].x);
      f(i + 1, q[a].y);
      f(i + 2, q[a].z);
      f(i + 3, q[a].w);
    }
  }
  STARLING_UNROLL_BY(4)
  for (std::uint32_t i = quads_end + thread; i < count; i += threads) f(i, v[i]);
}

/// Queues the thread's share of copying v[i], i < count, to to[place(i)], in one group; quads stay together. await_copies()
/// waits for it.
template <unsigned threads, class Place>
STARLING_DEVICE void copy_numbers_ahead(float* to, const float* v, std::uint32_t count,
                                        unsigned thread, const Place& place) {
  const std::uint32_t quads_end = is_even(v) ? count / 4 * 4 : 0;
  for (std::uint32_t i = 4 * thread; i < quads_end; i += 4 * threads)
    copy_quad_ahead(to + place(i), v + i);
  for (std::uint32_t i = quads_end + thread; i < count; i += threads)
    copy_float_ahead(to + place(i), v + i);
  end_copies_ahead();
}

/// a / b, b > 0, both floats: rounded as by a division, in three operations. What is added to the first guess is right to 2^-100
/// of the quotient, which, of two numbers of 24 bits, lies 2^-78 of itself away from where rounding changes.
STARLING_DEVICE double quotient_of(double a, double b, double one_over_b) {
  const double guess = a * one_over_b;
  return fma(fma(-guess, b, a), one_over_b, guess);
}

}  // namespace starling::cuda
