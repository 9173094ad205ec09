// The code kernels as plain loops over entries. Every build compiles this one source; the compiler vectorizes the loops,
// which changes no bit, because it may not reorder sums. Included by kernel builds only.
//
// As transforms had them, compiled once for all processors, a code took 4 to 15 ns an entry (docs/speed.md): branches that
// no processor foresees, fmod and nearbyint as calls, a word of randomness at a time. So there are no branches here, and
// modulo a power of two is a product and a floor, which is exact. Transforms cut vectors into pieces of 512 entries, whose
// fields lie in 32-bit words until they are packed: one more pass over the first-level cache. They are not compiled by
// each build themselves, since the linker would share their containers between builds. No intrinsics: GCC 12 makes vectors
// of plain loops once it may forget floating-point exceptions (-fno-trapping-math, for these builds alone; no value
// depends on it). Largest entries and hashes stay scalar.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dense/codes.hpp"

namespace starling::dense {
namespace {

// --- Bits -------------------------------------------------------------------------------------------------------

std::uint32_t word_of(float v) {
  std::uint32_t word;
  __builtin_memcpy(&word, &v, sizeof word);
  return word;
}

float float_of(std::uint32_t word) {
  float v;
  __builtin_memcpy(&v, &word, sizeof v);
  return v;
}

/// Fields whose width divides that of Part, 8 or 16 bits, fill such parts; words are stored lowest part first.
template <class Part>
void pack_parts(const std::uint32_t* fields, std::size_t count, std::uint32_t bits, float* words) {
  const std::size_t in_part = 8 * sizeof(Part) / bits;
  const std::size_t in_word = 32 / bits;
  auto* to = reinterpret_cast<char*>(words);
  const std::size_t whole = count / in_part;
  for (std::size_t p = 0; p < whole; ++p, fields += in_part) {
    std::uint32_t joined = 0;
    for (std::size_t f = 0; f < in_part; ++f)
      joined |= fields[f] << (static_cast<std::uint32_t>(f) * bits);
    const auto part = static_cast<Part>(joined);
    __builtin_memcpy(to + p * sizeof part, &part, sizeof part);
  }
  const std::size_t parts = (count + in_word - 1) / in_word * (4 / sizeof(Part));
  for (std::size_t p = whole; p < parts; ++p) {  // what is left, and the rest of the word
    std::uint32_t joined = 0;
    for (std::size_t f = 0; f < in_part && p * in_part + f < count; ++f)
      joined |= fields[(p - whole) * in_part + f] << (static_cast<std::uint32_t>(f) * bits);
    const auto part = static_cast<Part>(joined);
    __builtin_memcpy(to + p * sizeof part, &part, sizeof part);
  }
}

void pack(const std::uint32_t* fields, std::size_t count, std::uint32_t bits, float* words) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  switch (bits) {  // so that the inner loops have known lengths
    case 1:
      return pack_parts<std::uint8_t>(fields, count, 1, words);
    case 2:
      return pack_parts<std::uint8_t>(fields, count, 2, words);
    case 4:
      return pack_parts<std::uint8_t>(fields, count, 4, words);
    case 8:
      return pack_parts<std::uint8_t>(fields, count, 8, words);
    case 16:
      return pack_parts<std::uint16_t>(fields, count, 16, words);
    default:
      break;
  }
  std::uint64_t pending = 0;
  std::uint32_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    pending |= std::uint64_t{fields[i]} << used;
    used += bits;
    if (used < 32 && i + 1 < count) continue;
    const auto word = static_cast<std::uint32_t>(pending);
    __builtin_memcpy(words++, &word, sizeof word);
    pending >>= 32;
    used = used < 32 ? 0 : used - 32;
  }
  if (used == 0) return;
  const auto word = static_cast<std::uint32_t>(pending);
  __builtin_memcpy(words, &word, sizeof word);
}

template <class Part>
void unpack_parts(const float* words, std::size_t count, std::uint32_t bits,
                  std::uint32_t* fields) {
  const std::size_t in_part = 8 * sizeof(Part) / bits;
  const std::uint32_t mask = (1u << bits) - 1;
  const auto* from = reinterpret_cast<const char*>(words);
  const std::size_t whole = count / in_part;
  for (std::size_t p = 0; p < whole; ++p) {
    Part part;
    __builtin_memcpy(&part, from + p * sizeof part, sizeof part);
    for (std::size_t f = 0; f < in_part; ++f)
      fields[p * in_part + f] =
          (std::uint32_t{part} >> (static_cast<std::uint32_t>(f) * bits)) & mask;
  }
  if (whole * in_part == count) return;
  Part part;
  __builtin_memcpy(&part, from + whole * sizeof part, sizeof part);
  for (std::size_t f = 0; whole * in_part + f < count; ++f)
    fields[whole * in_part + f] =
        (std::uint32_t{part} >> (static_cast<std::uint32_t>(f) * bits)) & mask;
}

void unpack(const float* words, std::size_t count, std::uint32_t bits, std::uint32_t* fields) {
  switch (bits) {
    case 1:
      return unpack_parts<std::uint8_t>(words, count, 1, fields);
    case 2:
      return unpack_parts<std::uint8_t>(words, count, 2, fields);
    case 4:
      return unpack_parts<std::uint8_t>(words, count, 4, fields);
    case 8:
      return unpack_parts<std::uint8_t>(words, count, 8, fields);
    case 16:
      return unpack_parts<std::uint16_t>(words, count, 16, fields);
    default:
      break;
  }
  const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
  std::uint64_t pending = 0;
  std::uint32_t left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (left < bits) {
      pending |= std::uint64_t{word_of(*words++)} << left;
      left += 32;
    }
    fields[i] = static_cast<std::uint32_t>(pending) & mask;
    pending >>= bits;
    left -= bits;
  }
}

std::uint32_t largest_magnitude(const float* v, std::size_t count) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<std::int32_t>(word_of(v[i]) & 0x7fff'ffffu);
    largest = magnitude > largest ? magnitude : largest;
  }
  return static_cast<std::uint32_t>(largest);
}

// --- Half precision -----------------------------------------------------------------------------------------------

/// A word without its lowest bits, rounded to nearest even. A carry into the exponent is right: it means the next power
/// of two, or infinity.
template <std::uint32_t dropped>
std::uint32_t rounded_upper(std::uint32_t word) {
  return (word + (1u << (dropped - 1)) - 1 + ((word >> dropped) & 1)) >> dropped;
}

void to_bfloat(const float* v, std::size_t count, std::uint32_t* fields) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = word_of(v[i]);
    const bool is_nan = (word & 0x7fff'ffffu) > 0x7f80'0000u;
    fields[i] = is_nan ? word >> 16 | 0x40u : rounded_upper<16>(word);
  }
}

void from_bfloat(const std::uint32_t* fields, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = float_of(fields[i] << 16);
}

// 5 bits of exponent (bias 15), 10 of mantissa.
void to_half(const float* v, std::size_t count, std::uint32_t* fields) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = word_of(v[i]);
    const std::uint32_t magnitude = word & 0x7fff'ffffu;
    // Below 2^-14: a multiple of 2^-24. What is larger is looked at as if it were 2^-14.
    const std::uint32_t small = magnitude < 0x3880'0000u ? magnitude : 0x3880'0000u;
    const auto multiple = static_cast<std::uint32_t>(
        static_cast<std::int32_t>(__builtin_nearbyintf(float_of(small) * 0x1p24F)));
    std::uint32_t half = rounded_upper<13>(magnitude - (112u << 23));
    half = magnitude < 0x3880'0000u ? multiple : half;
    half = magnitude >= 0x4780'0000u ? 0x7c00u : half;  // 2^16 and more
    half = magnitude > 0x7f80'0000u ? 0x7e00u : half;   // NaN
    fields[i] = (word >> 16 & 0x8000u) | half;
  }
}

void from_half(const std::uint32_t* fields, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t exponent = fields[i] >> 10 & 0x1fu;
    const std::uint32_t mantissa = fields[i] & 0x3ffu;
    const std::uint32_t small =
        word_of(static_cast<float>(static_cast<std::int32_t>(mantissa)) * 0x1p-24F);
    const std::uint32_t widened = exponent == 0x1f ? 0xffu : exponent + 112;
    const std::uint32_t magnitude = exponent == 0 ? small : widened << 23 | mantissa << 13;
    out[i] = float_of((fields[i] & 0x8000u) << 16 | magnitude);
  }
}

// --- Levels, floats of four bits, signs ---------------------------------------------------------------------------

void to_levels(const float* v, const std::uint32_t* random, std::size_t count, float norm,
               std::uint32_t levels, std::uint32_t* fields) {
  const double most = levels;
  // A norm that is not positive gives level 0 to all; whatever it is divided by instead.
  const double divisor = norm > 0 ? static_cast<double>(norm) : 1.0;
  const double factor = norm > 0 ? most : 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(__builtin_fabsf(v[i])) / divisor;
    double level = __builtin_floor(factor * share + random[i] * 0x1p-32);
    level = most < level ? most : level;
    // A norm that is not finite makes the bucket NaN on the other side, and its loss will tell.
    level = level >= 0 ? level : 0;
    fields[i] =
        static_cast<std::uint32_t>(static_cast<std::int32_t>(level)) << 1 | word_of(v[i]) >> 31;
  }
}

void from_levels(const std::uint32_t* fields, std::size_t count, float norm, std::uint32_t levels,
                 float factor, float* out) {
  const double whole = norm;
  const double most = levels;
  for (std::size_t i = 0; i < count; ++i) {
    const double level = static_cast<std::int32_t>(fields[i] >> 1);
    const double size = whole * (level / most);
    out[i] =
        static_cast<float>(static_cast<double>(factor) * ((fields[i] & 1) != 0 ? -size : size));
  }
}

void to_float4(const float* v, std::size_t count, float largest, std::uint32_t* fields) {
  const double divisor = largest > 0 ? static_cast<double>(largest) : 1.0;
  const double least = largest > 0 ? 0x1p-7 : __builtin_nan("");  // that is not 0
  for (std::size_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(__builtin_fabsf(v[i])) / divisor;
    // NaN is 0, too; a largest magnitude that is not finite will tell.
    std::uint32_t exponent = 1;
    exponent += share >= 0.75 * 0x1p-5 ? 1 : 0;
    exponent += share >= 0.75 * 0x1p-4 ? 1 : 0;
    exponent += share >= 0.75 * 0x1p-3 ? 1 : 0;
    exponent += share >= 0.75 * 0x1p-2 ? 1 : 0;
    exponent += share >= 0.75 * 0x1p-1 ? 1 : 0;
    exponent += share >= 0.75 ? 1 : 0;
    fields[i] = (share >= least ? exponent : 0) | word_of(v[i]) >> 31 << 3;
  }
}

void from_float4(const std::uint32_t* fields, std::size_t count, float largest, float* out) {
  float values[16];  // by field
  for (std::uint32_t field = 0; field < 16; ++field) {
    const std::uint32_t exponent = field & 7;
    const double share = exponent == 0 ? 0.0 : 1.0 / static_cast<double>(128U >> exponent);
    const double size = static_cast<double>(largest) * share;
    values[field] = static_cast<float>((field & 8) != 0 ? -size : size);
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = values[fields[i]];
}

/// Sums of both sides; is_lower(v) says which one it is. What the lower one sums is negated on demand.
template <bool is_negated, class IsLower>
SideSums sums_of_sides(const float* v, std::size_t count, const IsLower& is_lower) {
  constexpr std::size_t lanes = 16;
  constexpr std::uint32_t flipped = is_negated ? 0x8000'0000u : 0;
  double upper[lanes] = {}, lower[lanes] = {};
  std::size_t lower_count = 0;
  const auto add_lanes = [&](const float* from, std::size_t these) {
    std::uint32_t counted = 0;
    for (std::size_t l = 0; l < these; ++l) {
      const std::uint32_t word = word_of(from[l]);
      const bool is = is_lower(from[l]);
      const std::uint32_t lower_bits = is ? ~0u : 0u;
      upper[l] += static_cast<double>(float_of(word & ~lower_bits));
      lower[l] += static_cast<double>(float_of((word ^ flipped) & lower_bits));
      counted += is ? 1 : 0;
    }
    lower_count += counted;
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) add_lanes(v + i, lanes);
  add_lanes(v + i, count - i);
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) {
      upper[l] += upper[l + half];
      lower[l] += lower[l + half];
    }
  }
  return {upper[0], lower[0], lower_count};
}

bool is_negative(float v) { return word_of(v) > 0x8000'0000u; }

SideSums sign_sums(const float* v, std::size_t count) {
  return sums_of_sides<false>(v, count, [](float x) { return is_negative(x); });
}

void to_signs(const float* v, std::size_t count, std::uint32_t* fields) {
  for (std::size_t i = 0; i < count; ++i) fields[i] = is_negative(v[i]) ? 1 : 0;
}

void from_signs(const std::uint32_t* fields, std::size_t count, float positive, float negative,
                float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = fields[i] != 0 ? negative : positive;
}

SideSums side_sums(const float* v, std::size_t count) {
  return sums_of_sides<true>(v, count, [](float x) { return !(x >= 0); });
}

void ternarize(const float* v, const std::uint32_t* random, std::size_t count, double scale,
               float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sign = v[i] < 0 ? -1.0F : 1.0F;
    const double share = static_cast<double>(__builtin_fabsf(v[i])) / scale;
    out[i] = share > random[i] * 0x1p-32 ? sign : 0.0F;
  }
}

// --- Colors of a lattice -----------------------------------------------------------------------------------------

template <bool is_shifted>
double offset_of(const std::uint32_t* random, std::size_t i, double cell) {
  return is_shifted ? (random[i] * 0x1p-32 - 0.5) * cell : 0.0;
}

template <bool is_shifted>
void colors_of(const float* v, const std::uint32_t* random, std::size_t count, double cell,
               std::uint32_t bits, std::uint32_t* fields) {
  const double colors = static_cast<double>(1u << bits);
  const double share = 1 / colors;
  for (std::size_t i = 0; i < count; ++i) {
    const double offset = offset_of<is_shifted>(random, i, cell);
    const double number = __builtin_nearbyint((static_cast<double>(v[i]) - offset) / cell);
    // Modulo a power of two, every step exact.
    const double color = number - colors * __builtin_floor(number * share);
    fields[i] = static_cast<std::uint32_t>(
        static_cast<std::int32_t>(color >= 0 && color < colors ? color : 0.0));
  }
}

void to_colors(const float* v, const std::uint32_t* random, std::size_t count, double cell,
               std::uint32_t bits, std::uint32_t* fields) {
  random != nullptr ? colors_of<true>(v, random, count, cell, bits, fields)
                    : colors_of<false>(v, random, count, cell, bits, fields);
}

template <bool is_shifted>
void points_of(const std::uint32_t* fields, const float* reference, const std::uint32_t* random,
               std::size_t count, double cell, std::uint32_t bits, float* out) {
  const double colors = static_cast<double>(1u << bits);
  const double share = 1 / colors;
  for (std::size_t i = 0; i < count; ++i) {
    const double offset = offset_of<is_shifted>(random, i, cell);
    const double color = static_cast<std::int32_t>(fields[i]);
    const double around = (static_cast<double>(reference[i]) - offset) / cell;
    const double turns = __builtin_nearbyint((around - color) * share);
    out[i] = static_cast<float>(cell * (colors * turns + color) + offset);
  }
}

void from_colors(const std::uint32_t* fields, const float* reference, const std::uint32_t* random,
                 std::size_t count, double cell, std::uint32_t bits, float* out) {
  random != nullptr ? points_of<true>(fields, reference, random, count, cell, bits, out)
                    : points_of<false>(fields, reference, random, count, cell, bits, out);
}

// --- Rotations ----------------------------------------------------------------------------------------------------

void hadamard(double* v, std::size_t size) {
  for (std::size_t half = 1; half < size; half *= 2) {
    for (std::size_t begin = 0; begin < size; begin += 2 * half) {
      double* const a = v + begin;
      double* const b = a + half;
      for (std::size_t i = 0; i < half; ++i) {
        const double sum = a[i] + b[i];
        b[i] = a[i] - b[i];
        a[i] = sum;
      }
    }
  }
}

/// All of them, with what each build has of its own.
constexpr CodeKernels code_kernels(decltype(CodeKernels::random_words) random_words) {
  return {.random_words = random_words,
          .pack = pack,
          .unpack = unpack,
          .largest_magnitude = largest_magnitude,
          .to_half = to_half,
          .from_half = from_half,
          .to_bfloat = to_bfloat,
          .from_bfloat = from_bfloat,
          .to_levels = to_levels,
          .from_levels = from_levels,
          .to_float4 = to_float4,
          .from_float4 = from_float4,
          .sign_sums = sign_sums,
          .to_signs = to_signs,
          .from_signs = from_signs,
          .to_colors = to_colors,
          .from_colors = from_colors,
          .ternarize = ternarize,
          .side_sums = side_sums,
          .hadamard = hadamard};
}

}  // namespace
}  // namespace starling::dense
