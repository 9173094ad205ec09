// Codecs that say something of every entry, in few bits each; codec.hpp has the table of all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "algorithms/codec.hpp"

namespace starling::algorithms {

/// IEEE half precision, or bfloat16.
SharedCodec half_codec(bool is_bfloat);
/// Floats of 4 bits; here and below `bucket` entries share a number, all for 0.
SharedCodec float4_codec(std::uint32_t bucket);

/// How levels are written: in fields of one width, or by Elias's code, for which the bound of its mean length stands.
enum class LevelCoding { fixed, elias };

/// Stochastic levels in ratio to the norm of a bucket, or to its largest magnitude.
SharedCodec levels_codec(std::uint32_t levels, std::uint32_t bucket, bool is_max_norm,
                         bool is_contractive, LevelCoding coding = LevelCoding::fixed);
/// One bit per entry and one magnitude, if `is_symmetric`, or a value for either side.
SharedCodec signs_codec(bool is_symmetric);
/// A lattice with cells of side `cell`.
SharedCodec lattice_codec_of_cell(double cell, std::uint32_t bits, bool is_shifted);

/// Floats of a code with one number per bucket and so many bits per entry.
std::size_t bucket_words(std::size_t size, std::uint32_t bucket, std::size_t bits);

}  // namespace starling::algorithms
