// What the transforms of sim/node/transform.hpp look like to a device: one flat record each. Most give every float of
// the result by itself, or place every entry of a code (Map); some need the whole row first (Row) and run in one block per
// row. KeepLargest has a kernel of its own (largest_kernel.hpp), as have ToLevels and ToFloat4 (encode_kernel.hpp); the factors
// of ProjectStep come from another (project_kernel.hpp).
#pragma once

#include "kernels/cuda/philox.hpp"

namespace starling::cuda {

enum class Map : std::uint32_t {
  keep_above,
  keep_side,
  signed_positions,
  clear_where,
  gather,
  scatter,
  scatter_signs,
  scatter_at,
  to_half,
  from_half,
  from_levels,
  ternarize,
  to_integers,
  from_integers,
  from_signs,
  signs,
  from_float4,
  to_colors,
  from_colors,
  matrix_product,
  panels_to_rows,
  rows_to_panels,
  scale_by,
  larger,
  add_square,
  divide_by_root,
  shift_sides,
  project_step
};

enum class Row : std::uint32_t {
  to_levels,
  to_signs,
  to_float4,
  hash,
  rotate,
  orthonormalize,
  clip_norm,
  clip_deviations,
  largest_magnitude,
  side_means,
  count_nonzero,
  least_magnitude,
  largest_difference
};

struct TransformTask {
  const float* in[3];
  float* out;
  const std::uint32_t* positions;  // gather, scatter_at
  /// orthonormalize: (columns, rows); rotate: (size); project_step: ProjectKernel's sums; KeepLargest: a LargestRow and more
  double* scratch;
  double* number;         // measures: the result
  std::uint32_t size[3];  // of the inputs
  std::uint32_t out_size;
  std::uint32_t kind;     // Map or Row
  std::uint32_t a, b, c;  // whole-number settings
  std::uint32_t piece;    // numbers of a block (EncodeKernel)
  std::uint32_t flags;    // bit 0, bit 1: settings that are yes or no
  float f[4];
  double cell;
  Stream random;
};

/// Blocks (t * shares) .. are those of task t: what most kernels of transforms know.
struct SharedTasks {
  const TransformTask* tasks;
  std::uint32_t shares;

  STARLING_DEVICE const TransformTask& task_of(const Block& block) const {
    return tasks[block.index / shares];
  }
  STARLING_DEVICE std::uint32_t share_of(const Block& block) const { return block.index % shares; }
};

/// Of a code: a value and its place.
struct Placed {
  std::uint32_t position;
  float value;
};

/// The bits [i bits, (i + 1) bits) of packed words.
STARLING_DEVICE std::uint32_t field_of(const float* words, std::uint64_t i, std::uint32_t bits) {
  const std::uint64_t at = i * bits;
  const std::uint64_t word = at / 32;
  const auto shift = static_cast<std::uint32_t>(at % 32);
  std::uint64_t both = bits_of(words[word]);
  if (shift + bits > 32) both |= std::uint64_t{bits_of(words[word + 1])} << 32;
  return static_cast<std::uint32_t>((both >> shift) & ((std::uint64_t{1} << bits) - 1));
}

/// Word number `word` of `count` packed fields, field(i) being the i-th.
template <class Field>
STARLING_DEVICE float packed_word(std::uint64_t word, std::uint32_t count, std::uint32_t bits,
                                  const Field& field) {
  const std::uint64_t first_bit = word * 32;
  std::uint32_t packed = 0;
  for (std::uint64_t i = first_bit / bits; i < count && i * bits < first_bit + 32; ++i) {
    const std::uint64_t value = field(static_cast<std::uint32_t>(i));
    packed |= i * bits >= first_bit ? static_cast<std::uint32_t>(value << (i * bits - first_bit))
                                    : static_cast<std::uint32_t>(value >> (first_bit - i * bits));
  }
  return float_of(packed);
}

}  // namespace starling::cuda
