// The same steps as in random.cpp and elementary.cpp, one after the other for all lanes, so that the compiler makes
// vector instructions of every loop; the bits are the same, tests/sim/base/test_random.cpp.
#include "sim/base/normal_block.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

#include "sim/base/elementary_cores.hpp"
#include "sim/base/target_clones.hpp"

namespace starling {
namespace {

constexpr std::uint64_t low_half = 0xffff'ffff;
using Words = std::uint64_t[block_lanes];  // of 32 bits

/// Philox4x32-10 (Salmon et al., SC 2011).
[[gnu::always_inline]] inline void encrypt(Words& a, Words& b, Words& c, Words& d,
                                           std::uint32_t key, std::uint32_t other_key) {
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (std::size_t i = 0; i < block_lanes; ++i) {
      const std::uint64_t p = 0xd2511f53u * a[i];
      const std::uint64_t q = 0xcd9e8d57u * c[i];
      a[i] = (q >> 32) ^ b[i] ^ key;
      b[i] = q & low_half;
      c[i] = (p >> 32) ^ d[i] ^ other_key;
      d[i] = p & low_half;
    }
    key += 0x9e3779b9u;
    other_key += 0xbb67ae85u;
  }
}

/// A number below 2^32 as a double, by its bits: there is no vector instruction for it everywhere.
[[gnu::always_inline]] inline double to_double(std::uint64_t word) {
  return std::bit_cast<double>(word | 0x4330'0000'0000'0000) - 0x1p52;
}

/// Uniform in [0, 1) out of two words, of the second its upper 21 bits.
[[gnu::always_inline]] inline double uniform(std::uint64_t upper, std::uint64_t lower) {
  return std::fma(to_double(upper), 0x1p21, to_double(lower >> 11)) * 0x1p-53;
}

}  // namespace

STARLING_VECTORIZED Block first_normals(const Random& stream, NodeId node, Step first, double scale,
                                        double shift) {
  const Random::State state = stream.at(node, first).state();
  Words a, b, c, d;
#pragma omp simd
  for (std::size_t i = 0; i < block_lanes; ++i) {
    a[i] = 0;
    b[i] = state.counter[1];
    c[i] = state.counter[2] + static_cast<std::uint32_t>(i);
    d[i] = state.counter[3];
  }
  encrypt(a, b, c, d, state.key[0], state.key[1]);
  Block normals;
#pragma omp simd
  for (std::size_t i = 0; i < block_lanes; ++i) {
    const double radius = std::sqrt(-2.0 * cores::log(1.0 - uniform(a[i], b[i])));
    const double turns = uniform(c[i], d[i]);
    const double quadrants = cores::floor(std::fma(turns, 4.0, 0.5));
    const double angle = std::fma(turns, 4.0, -quadrants);
    const auto quadrant = static_cast<std::uint64_t>(static_cast<int>(quadrants + 1));
    // A choice by masks: both values are there, and a branch would end the vectors.
    const std::uint64_t is_odd = -(quadrant & 1);
    const std::uint64_t value = (std::bit_cast<std::uint64_t>(cores::cosine(angle)) & is_odd) |
                                (std::bit_cast<std::uint64_t>(cores::sine(angle)) & ~is_odd);
    const double normal = radius * std::bit_cast<double>(value ^ (quadrant & 2) << 62);
    normals[i] = std::fma(scale, normal, shift);
  }
  return normals;
}

STARLING_VECTORIZED Block exact_exp(const Block& x) {
  Block y;
#pragma omp simd
  for (std::size_t i = 0; i < block_lanes; ++i) y[i] = cores::exp(x[i]);
  return y;
}

}  // namespace starling
