// Lanes: the few vector instructions that the kernels need, for AVX-512 or AVX2 with FMA, whichever
// this translation unit is compiled for. Everything has internal linkage: an inline function that
// two builds shared could end up, by the linker's choice, with instructions that the processor
// lacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#define STARLING_INLINE static inline __attribute__((always_inline))
#define STARLING_INLINED __attribute__((always_inline))  // for lambdas

namespace starling::dense {
namespace {

/// Eight lanes folded in halves: l + 4, l + 2, l + 1 is added to l.
STARLING_INLINE float fold_eight(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#if defined(__AVX512F__)

struct Lanes {
  using Vector = __m512;
  using Integers = __m512i;
  using Mask = __mmask16;  // of the first lanes
  using Doubles = __m512d;
  static constexpr const char* build_name = "v4";
  static constexpr std::size_t width = 16;
  static constexpr std::size_t tile_rows = 8;    // 16 accumulators of the 32 registers
  static constexpr std::size_t sum_vectors = 8;  // beside them

  STARLING_INLINE Mask first(std::size_t count) { return static_cast<Mask>((1u << count) - 1u); }
  STARLING_INLINE Vector zero() { return _mm512_setzero_ps(); }
  STARLING_INLINE Vector all(float x) { return _mm512_set1_ps(x); }
  STARLING_INLINE Vector load(const float* p) { return _mm512_loadu_ps(p); }
  STARLING_INLINE Vector load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  STARLING_INLINE void store(float* p, Vector v) { _mm512_storeu_ps(p, v); }
  STARLING_INLINE void store(float* p, Vector v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
  /// Past the cache; `p` on a whole vector. Other threads see it after fence().
  STARLING_INLINE void stream(float* p, Vector v) { _mm512_stream_ps(p, v); }
  STARLING_INLINE void fence() { _mm_sfence(); }
  STARLING_INLINE Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  STARLING_INLINE Vector subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  STARLING_INLINE Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  STARLING_INLINE Vector divide(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  STARLING_INLINE Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  /// a > b ? a : b, so b if either is NaN.
  STARLING_INLINE Vector greater(Vector a, Vector b) { return _mm512_max_ps(a, b); }
  /// a < b ? a : b, so b if either is NaN.
  STARLING_INLINE Vector smaller(Vector a, Vector b) { return _mm512_min_ps(a, b); }
  /// Values where `condition` is positive, else +0.
  STARLING_INLINE Vector where_positive(Vector condition, Vector values) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(condition, _mm512_setzero_ps(), _CMP_GT_OQ),
                               values);
  }
  /// Values of the lanes in `m`, else +0.
  STARLING_INLINE Vector keep(Vector v, Mask m) { return _mm512_maskz_mov_ps(m, v); }
  /// Values of the lanes in `m`, else those of `other`.
  STARLING_INLINE Vector choose(Vector v, Vector other, Mask m) {
    return _mm512_mask_mov_ps(other, m, v);
  }
  /// Sixteen lanes folded in halves: l + 8, l + 4, l + 2, l + 1 is added to l.
  STARLING_INLINE float fold(const Vector (&v)[1]) {
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v[0]), 1));
    return fold_eight(_mm256_add_ps(_mm512_castps512_ps256(v[0]), upper));
  }

  STARLING_INLINE Integers integers(std::uint32_t x) {
    return _mm512_set1_epi32(static_cast<int>(x));
  }
  STARLING_INLINE Integers load(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  STARLING_INLINE Mask equal(Integers a, Integers b) { return _mm512_cmpeq_epi32_mask(a, b); }
  STARLING_INLINE Integers bits(Vector v) { return _mm512_castps_si512(v); }
  STARLING_INLINE Vector floats(Integers v) { return _mm512_castsi512_ps(v); }
  STARLING_INLINE Vector convert(Integers v) { return _mm512_cvtepi32_ps(v); }
  STARLING_INLINE Integers add(Integers a, Integers b) { return _mm512_add_epi32(a, b); }
  STARLING_INLINE Integers subtract(Integers a, Integers b) { return _mm512_sub_epi32(a, b); }
  STARLING_INLINE Integers both(Integers a, Integers b) { return _mm512_and_si512(a, b); }
  STARLING_INLINE Integers differ(Integers a, Integers b) { return _mm512_xor_si512(a, b); }
  STARLING_INLINE void store(std::uint32_t* p, Integers v) { _mm512_storeu_si512(p, v); }
  /// 0, 1, .. in lanes of 64 bits.
  STARLING_INLINE Integers wide_indices() { return _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0); }
  /// Of lanes of 64 bits: the product of the lower halves.
  STARLING_INLINE Integers multiply_wide(Integers a, Integers b) { return _mm512_mul_epu32(a, b); }
  /// Of lanes of 64 bits: the upper half, moved down.
  STARLING_INLINE Integers upper_half(Integers v) { return _mm512_srli_epi64(v, 32); }
  template <int bits>
  STARLING_INLINE Integers shift_right(Integers v) {
    return _mm512_srai_epi32(v, bits);
  }

  /// y 2^n for whole n, rounded once.
  STARLING_INLINE Vector scale(Vector y, Vector n) { return _mm512_scalef_ps(y, n); }

  STARLING_INLINE Doubles zero_doubles() { return _mm512_setzero_pd(); }
  STARLING_INLINE Doubles differences(const float* a, const float* b) {
    return _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(a)), _mm512_cvtps_pd(_mm256_loadu_ps(b)));
  }
  STARLING_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
  STARLING_INLINE void store(double* p, Doubles v) { _mm512_storeu_pd(p, v); }

  /// Transposes the square matrix whose rows are r[0 .. width - 1].
  STARLING_INLINE void transpose(Vector (&r)[16]) {
    Vector t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 4) {
      const Vector a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
      const Vector c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]),
                   d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
      t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
      t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
      t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
      t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
    }
    // Quarter q of t[4g + j] now holds column 4q + j of rows 4g .. 4g + 3.
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Vector a = _mm512_shuffle_f32x4(t[j], t[j + 4], 0x44),
                   b = _mm512_shuffle_f32x4(t[j], t[j + 4], 0xEE);
      const Vector c = _mm512_shuffle_f32x4(t[j + 8], t[j + 12], 0x44);
      const Vector d = _mm512_shuffle_f32x4(t[j + 8], t[j + 12], 0xEE);
      r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
      r[j + 4] = _mm512_shuffle_f32x4(a, c, 0xDD);
      r[j + 8] = _mm512_shuffle_f32x4(b, d, 0x88);
      r[j + 12] = _mm512_shuffle_f32x4(b, d, 0xDD);
    }
  }
};

#elif defined(__AVX2__) && defined(__FMA__)

alignas(32) constexpr std::int32_t first_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                                      0,  0,  0,  0,  0,  0,  0,  0};

struct Lanes {
  using Vector = __m256;
  using Integers = __m256i;
  using Mask = __m256i;  // of the first lanes
  using Doubles = __m256d;
  static constexpr const char* build_name = "v3";
  static constexpr std::size_t width = 8;
  static constexpr std::size_t tile_rows = 6;     // 12 accumulators of the 16 registers
  static constexpr std::size_t sum_vectors = 12;  // for which they go to the first-level cache

  STARLING_INLINE Mask first(std::size_t count) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first_lanes + 8 - count));
  }
  STARLING_INLINE Vector zero() { return _mm256_setzero_ps(); }
  STARLING_INLINE Vector all(float x) { return _mm256_set1_ps(x); }
  STARLING_INLINE Vector load(const float* p) { return _mm256_loadu_ps(p); }
  STARLING_INLINE Vector load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  STARLING_INLINE void store(float* p, Vector v) { _mm256_storeu_ps(p, v); }
  /// In halves, as vmaskmovps is microcode on AMD's processors, and what it stores is not forwarded to loads.
  STARLING_INLINE void store(float* p, Vector v, Mask m) {
    int lanes = _mm256_movemask_ps(_mm256_castsi256_ps(m));
    if ((lanes & 0x80) != 0) return store(p, v);
    __m128 rest = _mm256_castps256_ps128(v);
    if ((lanes & 8) != 0) {
      _mm_storeu_ps(p, rest);
      rest = _mm256_extractf128_ps(v, 1);
      p += 4;
      lanes >>= 4;
    }
    if ((lanes & 2) != 0) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
      rest = _mm_movehl_ps(rest, rest);
      p += 2;
      lanes >>= 2;
    }
    if ((lanes & 1) != 0) _mm_store_ss(p, rest);
  }
  /// Past the cache; `p` on a whole vector. Other threads see it after fence().
  STARLING_INLINE void stream(float* p, Vector v) { _mm256_stream_ps(p, v); }
  STARLING_INLINE void fence() { _mm_sfence(); }
  STARLING_INLINE Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  STARLING_INLINE Vector subtract(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  STARLING_INLINE Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  STARLING_INLINE Vector divide(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  STARLING_INLINE Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  /// a > b ? a : b, so b if either is NaN.
  STARLING_INLINE Vector greater(Vector a, Vector b) { return _mm256_max_ps(a, b); }
  /// a < b ? a : b, so b if either is NaN.
  STARLING_INLINE Vector smaller(Vector a, Vector b) { return _mm256_min_ps(a, b); }
  /// Values where `condition` is positive, else +0.
  STARLING_INLINE Vector where_positive(Vector condition, Vector values) {
    return _mm256_and_ps(_mm256_cmp_ps(condition, _mm256_setzero_ps(), _CMP_GT_OQ), values);
  }
  /// Values of the lanes in `m`, else +0.
  STARLING_INLINE Vector keep(Vector v, Mask m) { return _mm256_and_ps(v, _mm256_castsi256_ps(m)); }
  /// Values of the lanes in `m`, else those of `other`.
  STARLING_INLINE Vector choose(Vector v, Vector other, Mask m) {
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(m));
  }
  /// Sixteen lanes folded in halves: l + 8, l + 4, l + 2, l + 1 is added to l.
  STARLING_INLINE float fold(const Vector (&v)[2]) { return fold_eight(_mm256_add_ps(v[0], v[1])); }

  STARLING_INLINE Integers integers(std::uint32_t x) {
    return _mm256_set1_epi32(static_cast<int>(x));
  }
  STARLING_INLINE Integers load(const std::int32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  STARLING_INLINE Mask equal(Integers a, Integers b) { return _mm256_cmpeq_epi32(a, b); }
  STARLING_INLINE Integers bits(Vector v) { return _mm256_castps_si256(v); }
  STARLING_INLINE Vector floats(Integers v) { return _mm256_castsi256_ps(v); }
  STARLING_INLINE Vector convert(Integers v) { return _mm256_cvtepi32_ps(v); }
  STARLING_INLINE Integers add(Integers a, Integers b) { return _mm256_add_epi32(a, b); }
  STARLING_INLINE Integers subtract(Integers a, Integers b) { return _mm256_sub_epi32(a, b); }
  STARLING_INLINE Integers both(Integers a, Integers b) { return _mm256_and_si256(a, b); }
  STARLING_INLINE Integers differ(Integers a, Integers b) { return _mm256_xor_si256(a, b); }
  STARLING_INLINE void store(std::uint32_t* p, Integers v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  }
  /// 0, 1, .. in lanes of 64 bits.
  STARLING_INLINE Integers wide_indices() { return _mm256_set_epi64x(3, 2, 1, 0); }
  /// Of lanes of 64 bits: the product of the lower halves.
  STARLING_INLINE Integers multiply_wide(Integers a, Integers b) { return _mm256_mul_epu32(a, b); }
  /// Of lanes of 64 bits: the upper half, moved down.
  STARLING_INLINE Integers upper_half(Integers v) { return _mm256_srli_epi64(v, 32); }
  template <int bits>
  STARLING_INLINE Integers shift_left(Integers v) {
    return _mm256_slli_epi32(v, bits);
  }
  template <int bits>
  STARLING_INLINE Integers shift_right(Integers v) {
    return _mm256_srai_epi32(v, bits);
  }

  /// y 2^n for whole n of -252 .. 254, rounded once: the first product is exact.
  STARLING_INLINE Vector scale(Vector y, Vector n) {
    const Integers exponent = _mm256_cvtps_epi32(n), half = shift_right<1>(exponent);
    const Integers bias = integers(127);
    const Integers first = shift_left<23>(add(half, bias));
    const Integers second = shift_left<23>(add(subtract(exponent, half), bias));
    return multiply(multiply(y, floats(first)), floats(second));
  }

  STARLING_INLINE Doubles zero_doubles() { return _mm256_setzero_pd(); }
  STARLING_INLINE Doubles differences(const float* a, const float* b) {
    return _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(a)), _mm256_cvtps_pd(_mm_loadu_ps(b)));
  }
  STARLING_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
  STARLING_INLINE void store(double* p, Doubles v) { _mm256_storeu_pd(p, v); }

  /// Transposes the square matrix whose rows are r[0 .. width - 1].
  STARLING_INLINE void transpose(Vector (&r)[8]) {
    Vector t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
      const Vector a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
      const Vector c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]),
                   d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
      t[i] = _mm256_shuffle_ps(a, c, 0x44);
      t[i + 1] = _mm256_shuffle_ps(a, c, 0xEE);
      t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
      t[i + 3] = _mm256_shuffle_ps(b, d, 0xEE);
    }
    // Half h of t[4g + j] now holds column 4h + j of rows 4g .. 4g + 3.
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Vector a = t[j], b = t[j + 4];
      r[j] = _mm256_permute2f128_ps(a, b, 0x20);
      r[j + 4] = _mm256_permute2f128_ps(a, b, 0x31);
    }
  }
};

#else
#error "this source needs at least x86-64-v3 (AVX2 and FMA)"
#endif

using Vector = Lanes::Vector;
using Mask = Lanes::Mask;

constexpr std::size_t width = Lanes::width;

STARLING_INLINE constexpr std::size_t at_most(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

/// Loads `rows` x `columns` floats, at most width each, and returns them transposed; the rest is 0.
STARLING_INLINE void load_transposed(const float* from, std::size_t stride, std::size_t rows,
                                     std::size_t columns, Vector (&block)[width]) {
  const Mask mask = Lanes::first(columns);
#pragma GCC unroll 16
  for (std::size_t r = 0; r < width; ++r) {
    block[r] = r < rows ? Lanes::load(from + r * stride, mask) : Lanes::zero();
  }
  Lanes::transpose(block);
}

}  // namespace
}  // namespace starling::dense
