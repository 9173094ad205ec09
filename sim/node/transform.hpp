// Transforms: the functions of vectors that are not linear combinations: what compression, adaptive step sizes and
// clipping are made of. Each is a small value that says what to compute, in formulas; a backend computes it
// (kernels/transform_*.cpp), later and in batches, as the compute graph decides.
//
// A code is a vector whose floats are 32-bit words of a wire format, moved bit by bit, never calculated with.
// Packed fields fill words from the lowest bit; a field may cross into the next word.
//
// Sums of many entries run in double in the lane order of squared_distance() (kernels/dense/dense.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace starling::transforms {

// --- Selecting entries ---------------------------------------------------------------------------------------

/// v (d) -> code (2 count): positions, ascending, then the values there, of the `count` <= d entries that are largest
/// in magnitude; of equal ones those with the higher position. Positions are counted from `first` on: v may be part of a
/// larger vector.
struct KeepLargest {
  std::uint32_t count;
  std::uint32_t first = 0;
  bool operator==(const KeepLargest&) const = default;
};

/// v (d) -> v where |v_i| >= threshold, 0 elsewhere.
struct KeepAbove {
  float threshold;
  bool operator==(const KeepAbove&) const = default;
};

/// v (d) -> v where v_i > 0, or with `is_negative` where v_i < 0; 0 elsewhere.
struct KeepSide {
  bool is_negative;
  bool operator==(const KeepSide&) const = default;
};

/// code (2 count) of KeepLargest -> code (count): words of a position (31 bits) and, in the lowest bit, whether the value
/// there is negative. Strom, "Scalable distributed DNN training using commodity GPU cloud computing", Interspeech 2015.
struct SignedPositions {
  bool operator==(const SignedPositions&) const = default;
};

/// code of SignedPositions -> dense (size): +-magnitude at the positions, 0 elsewhere. With magnitude 0 the code, unless
/// empty, begins with two floats: the magnitudes of positive and of negative entries.
struct ScatterSigns {
  std::uint32_t size;
  float magnitude;
  bool operator==(const ScatterSigns&) const = default;
};

/// code (2 count) -> dense (size): the values at their positions, 0 elsewhere.
struct Scatter {
  std::uint32_t size;
  bool operator==(const Scatter&) const = default;
};

/// v (d) -> (count): the entries at `count` distinct positions, ascending, drawn from `random`.
struct GatherRandom {
  std::uint32_t count;
  Random random;
  bool operator==(const GatherRandom&) const = default;
};

/// (count) -> dense (size): the values, times `factor`, at the positions that GatherRandom draws from `random`.
struct ScatterRandom {
  std::uint32_t size;
  float factor;
  Random random;
  bool operator==(const ScatterRandom&) const = default;
};

/// (v (d), mask (d)) -> v where the mask is zero, 0 elsewhere.
struct ClearWhere {
  bool operator==(const ClearWhere&) const = default;
};

// --- Quantizing ----------------------------------------------------------------------------------------------

/// v (d) -> code: 16-bit floats, rounded to nearest even: IEEE half precision (overflow becomes infinity), or bfloat16.
struct ToHalf {
  bool is_bfloat;
  bool operator==(const ToHalf&) const = default;
};

/// code -> dense (size)
struct FromHalf {
  bool is_bfloat;
  std::uint32_t size;
  bool operator==(const FromHalf&) const = default;
};

/// v (d) -> code: per bucket of `bucket` entries its norm N (largest magnitude, or Euclidean), then for every entry
/// the field (level << 1 | is_negative) of 1 + ceil(log2(levels + 1)) bits, level = floor(levels |v_i| / N + u_i),
/// u_i uniform in [0, 1) out of `random`, one word each. Alistarh et al., "QSGD", NIPS 2017, section 3.1; with one
/// level and the largest magnitude it is TernGrad without a shared scale (Wen et al., NIPS 2017).
struct ToLevels {
  std::uint32_t levels;
  std::uint32_t bucket;
  bool is_max_norm;
  Random random;
  bool operator==(const ToLevels&) const = default;
};

/// code -> dense (size): +-N level / levels, times `factor`.
struct FromLevels {
  std::uint32_t levels;
  std::uint32_t bucket;
  float factor;
  std::uint32_t size;
  bool operator==(const FromLevels&) const = default;
};

/// v (d) -> code: per bucket of `bucket` entries its largest magnitude M, then for every entry a field of 4 bits
/// (exponent e, then the sign as the highest bit): the nearest of 0 (e = 0) and +-M 2^(e - 7), e = 1 .. 7, in ratio to M;
/// halfway, the larger. This is a float without mantissa, E3M0 (Douillard et al., "Streaming DiLoCo", 2025).
struct ToFloat4 {
  std::uint32_t bucket;
  bool operator==(const ToFloat4&) const = default;
};

/// code -> dense (size)
struct FromFloat4 {
  std::uint32_t bucket;
  std::uint32_t size;
  bool operator==(const FromFloat4&) const = default;
};

/// v (d) -> code: per bucket of `bucket` entries a value for entries >= 0 and one for entries < 0, then for every entry of v
/// one bit, set where negative. The values are the means of either side (Seide et al., "1-bit SGD", Interspeech 2014), or,
/// symmetric, +-||v||_1 / d (Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019) and the first alone is kept.
struct ToSigns {
  bool is_symmetric;
  std::uint32_t bucket;
  bool operator==(const ToSigns&) const = default;
};

/// code -> dense (size)
struct FromSigns {
  bool is_symmetric;
  std::uint32_t bucket;
  std::uint32_t size;
  bool operator==(const FromSigns&) const = default;
};

/// v (d) -> 1 where v_i >= 0, -1 elsewhere.
struct Signs {
  bool operator==(const Signs&) const = default;
};

/// (v (d), scale (1)) -> sign(v_i) with probability |v_i| / scale, else 0: where |v_i| / scale > u_i, u_i uniform in
/// [0, 1) out of `random`, one word each. Wen et al., "TernGrad", NIPS 2017, equation 2.
struct Ternarize {
  Random random;
  bool operator==(const Ternarize&) const = default;
};

/// v (d), whole numbers in [-2^(bits - 1), 2^(bits - 1)) -> code: fields of `bits` bits, two's complement. What is not in
/// that range becomes the nearest that is; NaN becomes 0.
struct ToIntegers {
  std::uint32_t bits;
  bool operator==(const ToIntegers&) const = default;
};

/// code -> dense (size)
struct FromIntegers {
  std::uint32_t bits;
  std::uint32_t size;
  bool operator==(const FromIntegers&) const = default;
};

/// v (d) -> code: for every entry the field of `bits` bits round((v_i - o_i) / cell) mod 2^bits. The offset o_i is
/// uniform in [-cell/2, cell/2) out of `random`, one word per entry, or zero: shared by both sides it makes the result
/// unbiased. Davies et al., "New bounds for distributed mean estimation and variance reduction", ICLR 2021; Lu and
/// De Sa, "Moniqua", ICML 2020, with cell = B / 2^bits.
struct ToColors {
  double cell;
  std::uint32_t bits;
  bool is_shifted;
  Random random;
  bool operator==(const ToColors&) const = default;
};

/// (code, reference (d)) -> dense (d): of the points cell * (color + 2^bits m) + o_i, m an integer, the one nearest to
/// the reference. Right if |v_i - reference_i| < cell (2^bits - 1) / 2; a plausible wrong point otherwise.
struct FromColors {
  double cell;
  std::uint32_t bits;
  bool is_shifted;
  Random random;
  bool operator==(const FromColors&) const = default;
};

/// v (d) -> (1): a whole number below 2^24 that depends on every bit of v: equal vectors have equal ones, different ones
/// hardly ever (one in 16 million).
struct Hash {
  bool operator==(const Hash&) const = default;
};

/// v (d) -> (d): random signs s_i out of `random`, one word per entry, then the orthonormal Walsh-Hadamard transform of each
/// of the pieces, powers of two, the largest first, that d falls into: lengths stay, and what was large in few entries
/// is spread over all of a piece. `is_inverse` is the way back. Ailon and Chazelle, "The fast
/// Johnson-Lindenstrauss transform", SIAM J. Comput. 39(1), 2009. Sums are in double, each entry is rounded once.
struct Rotate {
  Random random;
  bool is_inverse;
  bool operator==(const Rotate&) const = default;
};

// --- Low rank ------------------------------------------------------------------------------------------------

/// (A, B) -> op(A) op(B), row-major, op(A) rows x inner, op(B) inner x columns; a transposed operand is stored as inner x
/// rows, or columns x inner. Each element sums over `inner` in order in double and is rounded once.
struct MatrixProduct {
  std::uint32_t rows, inner, columns;
  bool is_left_transposed = false;
  bool is_right_transposed = false;
  bool operator==(const MatrixProduct&) const = default;
};

/// A (rows x columns) -> orthonormal columns that span the same (Gram-Schmidt, modified, columns in order). A column
/// that depends on those before it becomes zero.
struct Orthonormalize {
  std::uint32_t rows, columns;
  bool operator==(const Orthonormalize&) const = default;
};

/// Between the panel-major storage of a (rows x columns) weight matrix (kernels/dense/dense.hpp) and row-major order.
struct PanelsToRows {
  std::uint32_t rows, columns;
  bool is_transposed = false;  // column-major order instead
  bool operator==(const PanelsToRows&) const = default;
};
struct RowsToPanels {
  std::uint32_t rows, columns;
  bool is_transposed = false;
  bool operator==(const RowsToPanels&) const = default;
};

// --- Step sizes ----------------------------------------------------------------------------------------------

/// v -> v min(1, limit / ||v||)
struct ClipNorm {
  float limit;
  bool operator==(const ClipNorm&) const = default;
};

/// v -> v_i cut to +-limit sigma, sigma the standard deviation of the entries of v around zero.
struct ClipDeviations {
  float limit;
  bool operator==(const ClipDeviations&) const = default;
};

/// (v, s (1)) -> factor s v_i
struct ScaleBy {
  float factor;
  bool operator==(const ScaleBy&) const = default;
};

/// v -> (1): max_i |v_i|
struct LargestMagnitude {
  bool operator==(const LargestMagnitude&) const = default;
};

/// (a, b) -> max(a_i, b_i)
struct Larger {
  bool operator==(const Larger&) const = default;
};

/// (s, g) -> keep s_i + share g_i^2: running second moments.
struct AddSquare {
  float keep;
  float share;
  bool operator==(const AddSquare&) const = default;
};

/// (m, s) -> scale m_i / (sqrt(spread s_i) + epsilon): Adam's and Adagrad's direction.
struct DivideByRoot {
  float scale;
  float spread;
  float epsilon;
  bool operator==(const DivideByRoot&) const = default;
};

/// (step p, gradient g, weights w), each of a (rows x columns) weight matrix, panel-major -> p + decay w; but where g is all
/// but orthogonal to w, as it is where the length of w changes nothing, p loses what would lengthen w:
///
///   p_i - w_i <p_u, w_u> / (||w_u|| + epsilon)^2 + projected_decay w_i,
///   where |<g_u, w_u>| / ((||g_u|| + epsilon) (||w_u|| + epsilon)) < delta / sqrt(entries of u)
///
/// for every u: a u is a column, the weights into one unit, if that holds of all columns, or else the whole matrix, whose
/// sums are those of its columns, added up in order. Each float is rounded once. Heo et al., "AdamP", ICLR 2021, Algorithm 2.
struct ProjectStep {
  std::uint32_t rows, columns;
  float delta;
  float epsilon;
  float decay;
  float projected_decay;
  bool operator==(const ProjectStep&) const = default;
};

// --- Two averages (A2SGD) ------------------------------------------------------------------------------------

/// g -> (2): the mean of the entries >= 0 and the mean magnitude of the others; 0 for an empty side.
struct SideMeans {
  bool operator==(const SideMeans&) const = default;
};

/// (g, own (2), new (2)) -> g_i + (new_0 - own_0) where g_i >= 0, g_i - (new_1 - own_1) elsewhere.
struct ShiftSides {
  bool operator==(const ShiftSides&) const = default;
};

// --- Measures: one number ------------------------------------------------------------------------------------

/// v -> the number of entries that are not zero.
struct CountNonzero {
  bool operator==(const CountNonzero&) const = default;
};

/// v -> min_i |v_i|; of no entries, infinity.
struct LeastMagnitude {
  bool operator==(const LeastMagnitude&) const = default;
};

/// (a, b) -> max_i |a_i - b_i|
struct LargestDifference {
  bool operator==(const LargestDifference&) const = default;
};

}  // namespace starling::transforms

namespace starling {

using Transform =
    std::variant<transforms::KeepLargest, transforms::KeepAbove, transforms::KeepSide,
                 transforms::SignedPositions, transforms::ScatterSigns, transforms::Scatter,
                 transforms::GatherRandom, transforms::ScatterRandom, transforms::ClearWhere,
                 transforms::ToHalf, transforms::FromHalf, transforms::ToLevels,
                 transforms::FromLevels, transforms::Ternarize, transforms::ToIntegers,
                 transforms::FromIntegers, transforms::ToSigns, transforms::FromSigns,
                 transforms::Signs, transforms::ToFloat4, transforms::FromFloat4,
                 transforms::ToColors, transforms::FromColors, transforms::Hash, transforms::Rotate,
                 transforms::MatrixProduct, transforms::Orthonormalize, transforms::PanelsToRows,
                 transforms::RowsToPanels, transforms::ClipNorm, transforms::ClipDeviations,
                 transforms::ScaleBy, transforms::LargestMagnitude, transforms::Larger,
                 transforms::AddSquare, transforms::DivideByRoot, transforms::ProjectStep,
                 transforms::SideMeans, transforms::ShiftSides>;

/// A transform whose result is a number.
using Measure = std::variant<transforms::CountNonzero, transforms::LeastMagnitude,
                             transforms::LargestDifference>;

/// Words that `fields` fields of `bits` bits fill.
constexpr std::size_t packed_words(std::size_t fields, std::size_t bits) {
  return (fields * bits + 31) / 32;
}

/// Bits of one field of ToLevels.
std::uint32_t level_bits(std::uint32_t levels);

/// Most inputs that a transform takes.
inline constexpr std::size_t most_inputs = 3;

/// Floats of the result for inputs of these sizes; ends in ensure() if their number or sizes do not fit.
std::size_t result_size(const Transform& transform, std::span<const std::size_t> inputs,
                        Where where = Where::current());

}  // namespace starling
