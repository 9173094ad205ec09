// Transforms on the CPU: one function per transform and measure, defined by plain loops in the order of
// sim/node/transform.hpp. Each job runs on one thread, so no result depends on the number of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/node/backend.hpp"

namespace starling::transforms {

void compute(const KeepLargest& t, const TransformJob& job);
void compute(const KeepAbove& t, const TransformJob& job);
void compute(const KeepSide& t, const TransformJob& job);
void compute(const SignedPositions& t, const TransformJob& job);
void compute(const ScatterSigns& t, const TransformJob& job);
void compute(const Scatter& t, const TransformJob& job);
void compute(const GatherRandom& t, const TransformJob& job);
void compute(const ScatterRandom& t, const TransformJob& job);
void compute(const ClearWhere& t, const TransformJob& job);

void compute(const ToHalf& t, const TransformJob& job);
void compute(const FromHalf& t, const TransformJob& job);
void compute(const ToLevels& t, const TransformJob& job);
void compute(const FromLevels& t, const TransformJob& job);
void compute(const Ternarize& t, const TransformJob& job);
void compute(const ToIntegers& t, const TransformJob& job);
void compute(const FromIntegers& t, const TransformJob& job);
void compute(const ToSigns& t, const TransformJob& job);
void compute(const FromSigns& t, const TransformJob& job);
void compute(const Signs& t, const TransformJob& job);
void compute(const ToFloat4& t, const TransformJob& job);
void compute(const FromFloat4& t, const TransformJob& job);
void compute(const ToColors& t, const TransformJob& job);
void compute(const FromColors& t, const TransformJob& job);

void compute(const Hash& t, const TransformJob& job);
void compute(const Rotate& t, const TransformJob& job);

void compute(const MatrixProduct& t, const TransformJob& job);
void compute(const Orthonormalize& t, const TransformJob& job);
void compute(const PanelsToRows& t, const TransformJob& job);
void compute(const RowsToPanels& t, const TransformJob& job);

void compute(const ClipNorm& t, const TransformJob& job);
void compute(const ClipDeviations& t, const TransformJob& job);
void compute(const ScaleBy& t, const TransformJob& job);
void compute(const LargestMagnitude& t, const TransformJob& job);
void compute(const Larger& t, const TransformJob& job);
void compute(const AddSquare& t, const TransformJob& job);
void compute(const DivideByRoot& t, const TransformJob& job);
void compute(const ProjectStep& t, const TransformJob& job);
void compute(const SideMeans& t, const TransformJob& job);
void compute(const ShiftSides& t, const TransformJob& job);

double value(const CountNonzero& measure, const MeasureJob& job);
double value(const LeastMagnitude& measure, const MeasureJob& job);
double value(const LargestDifference& measure, const MeasureJob& job);

/// max_i |v_i|; NaN if any entry is.
float largest_magnitude(std::span<const float> v);

/// The mean of `count` entries that add up to `sum`; 0 if there are none.
inline float mean_of(double sum, std::size_t count) {
  return count == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(count));
}

/// Entries that are encoded or decoded at once: the fields of a whole piece end with a word.
inline constexpr std::size_t piece_entries = 512;

/// The words of a stream, many at a time.
class RandomWords {
 public:
  explicit RandomWords(const Random& random) : state_(random.state()) {}
  void take(std::span<std::uint32_t> words);

 private:
  void blocks(std::size_t count, std::uint32_t* words);

  Random::State state_;
};

/// `count` distinct positions below `size`, ascending (Floyd's algorithm; Bentley and Floyd, CACM 30(9), 1987).
std::vector<std::uint32_t> random_positions(std::size_t count, std::size_t size, Random random);

inline constexpr std::size_t lane_count = 16;

/// The sum of all lanes, added in halves, as dense::Kernels::squared_distance does.
template <class Lane>
const Lane& fold(std::array<Lane, lane_count>& lanes) {
  for (std::size_t half = lane_count / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

/// sum_i term(i) in double: each lane sums the i that leave its number when divided by lane_count, in order.
template <class Term>
double lane_sum(std::size_t count, Term term) {
  std::array<double, lane_count> lanes{};
  std::size_t i = 0;
  for (; i + lane_count <= count; i += lane_count) {
    for (std::size_t l = 0; l < lane_count; ++l) lanes[l] += term(i + l);
  }
  for (std::size_t l = 0; i < count; ++i, ++l) lanes[l] += term(i);
  return fold(lanes);
}

}  // namespace starling::transforms
