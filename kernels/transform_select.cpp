// Which entries of a vector travel: the largest, those above a threshold, a random choice.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/transforms.hpp"

namespace starling::transforms {
namespace {

constexpr std::uint32_t magnitude_bits = 0x7fff'ffff;

/// Order of magnitude as an integer: non-negative floats compare like their bits.
std::uint32_t magnitude(float v) { return std::bit_cast<std::uint32_t>(v) & magnitude_bits; }

/// Positions of the `count` largest magnitudes, ascending. A histogram over the leading bits (exponent and four of
/// the mantissa) finds the range in which the smallest of them lies; only that range is sorted.
std::vector<std::uint32_t> largest(std::span<const float> v, std::size_t count) {
  constexpr int dropped_bits = 19;
  std::vector<std::uint32_t> histogram((magnitude_bits >> dropped_bits) + 1);
  for (const float x : v) ++histogram[magnitude(x) >> dropped_bits];
  std::size_t range = histogram.size();
  std::size_t above = 0;  // entries in ranges past `range`
  while (range > 0 && above + histogram[range - 1] < count) above += histogram[--range];
  if (range > 0) --range;

  std::vector<std::uint32_t> chosen;
  std::vector<std::uint32_t> candidates;
  chosen.reserve(count);
  for (std::uint32_t i = 0; i < v.size(); ++i) {
    const std::uint32_t at = magnitude(v[i]) >> dropped_bits;
    if (at > range) chosen.push_back(i);
    if (at == range) candidates.push_back(i);
  }
  const auto needed = static_cast<std::ptrdiff_t>(count - chosen.size());
  const auto is_before = [&v](std::uint32_t a, std::uint32_t b) {
    return magnitude(v[a]) != magnitude(v[b]) ? magnitude(v[a]) > magnitude(v[b]) : a > b;
  };
  std::nth_element(candidates.begin(), candidates.begin() + needed, candidates.end(), is_before);
  chosen.insert(chosen.end(), candidates.begin(), candidates.begin() + needed);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace

std::vector<std::uint32_t> random_positions(std::size_t count, std::size_t size, Random random) {
  std::vector<bool> is_in(size);
  std::vector<std::uint32_t> positions;
  positions.reserve(count);
  for (std::size_t last = size - count; last < size; ++last) {
    const auto drawn = static_cast<std::size_t>(random.below(last + 1));
    const std::size_t taken = is_in[drawn] ? last : drawn;
    is_in[taken] = true;
    positions.push_back(static_cast<std::uint32_t>(taken));
  }
  std::ranges::sort(positions);
  return positions;
}

void compute(const KeepLargest& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  if (t.count == 0) return;
  const std::vector<std::uint32_t> positions = largest(v, t.count);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    job.out[i] = std::bit_cast<float>(t.first + positions[i]);
    job.out[t.count + i] = v[positions[i]];
  }
}

void compute(const KeepAbove& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  for (std::size_t i = 0; i < v.size(); ++i)
    job.out[i] = std::fabs(v[i]) >= t.threshold ? v[i] : 0.0F;
}

void compute(const KeepSide& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  for (std::size_t i = 0; i < v.size(); ++i)
    job.out[i] = (t.is_negative ? v[i] < 0 : v[i] > 0) ? v[i] : 0.0F;
}

void compute(const SignedPositions&, const TransformJob& job) {
  const std::span<const float> code = job.inputs[0];
  const std::size_t count = code.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(code[count + i]) >> 31;
    job.out[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(code[i]) << 1 | sign);
  }
}

void compute(const ScatterSigns& t, const TransformJob& job) {
  std::span<const float> words = job.inputs[0];
  std::ranges::fill(job.out, 0.0F);
  if (words.empty()) return;
  float positive = t.magnitude;
  float negative = t.magnitude;
  if (t.magnitude == 0) {
    positive = words[0];
    negative = words[1];
    words = words.subspan(2);
  }
  for (const float w : words) {
    const auto word = std::bit_cast<std::uint32_t>(w);
    const std::uint32_t position = word >> 1;
    // A damaged code must not write elsewhere.
    if (position < job.out.size()) job.out[position] = (word & 1) != 0 ? -negative : positive;
  }
}

void compute(const Scatter&, const TransformJob& job) {
  const std::span<const float> code = job.inputs[0];
  const std::size_t count = code.size() / 2;
  std::ranges::fill(job.out, 0.0F);
  for (std::size_t i = 0; i < count; ++i) {
    const auto position = std::bit_cast<std::uint32_t>(code[i]);
    // A damaged code must not write elsewhere.
    if (position < job.out.size()) job.out[position] = code[count + i];
  }
}

void compute(const GatherRandom& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  std::size_t i = 0;
  for (const std::uint32_t position : random_positions(t.count, v.size(), t.random))
    job.out[i++] = v[position];
}

void compute(const ScatterRandom& t, const TransformJob& job) {
  const std::span<const float> values = job.inputs[0];
  std::ranges::fill(job.out, 0.0F);
  std::size_t i = 0;
  for (const std::uint32_t position : random_positions(values.size(), job.out.size(), t.random))
    job.out[position] = t.factor * values[i++];
}

void compute(const ClearWhere&, const TransformJob& job) {
  const auto& [v, mask, none] = job.inputs;
  for (std::size_t i = 0; i < v.size(); ++i) job.out[i] = mask[i] != 0.0F ? 0.0F : v[i];
}

double value(const CountNonzero&, const MeasureJob& job) {
  return static_cast<double>(
      std::ranges::count_if(job.inputs[0], [](float v) { return v != 0.0F; }));
}

double value(const LeastMagnitude&, const MeasureJob& job) {
  double least = std::numeric_limits<double>::infinity();
  for (const float v : job.inputs[0]) least = std::min(least, std::fabs(double{v}));
  return least;
}

double value(const LargestDifference&, const MeasureJob& job) {
  double largest = 0;
  for (std::size_t i = 0; i < job.inputs[0].size(); ++i) {
    const double a = job.inputs[0][i];
    const double b = job.inputs[1][i];
    largest = std::max(largest, std::fabs(a - b));
  }
  return largest;
}

}  // namespace starling::transforms
