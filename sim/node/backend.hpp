// Backend: where vectors live and the verbs on them run (CPU, CUDA). Works on whole batches: the compute graph
// hands over all operations of one wave at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/node/transform.hpp"

namespace starling {

/// One addend of a linear combination.
struct LinearTerm {
  const float* values;
  float factor;
};

/// out[i] = fma(f_t, v_t[i], .. fma(f_1, v_1[i], f_0 * v_0[i]) ..), i < length, terms in order: one rounding per term, so
/// separate verbs and one fused job give the same bits. No terms: zeros. One term of factor 1: its bits, numbers or not
/// (codes travel as floats). `out` may be identical to a term's `values`, but must not overlap it otherwise.
struct LinearJob {
  float* out;
  std::uint32_t length;
  std::uint32_t first_term;  // into the span of terms handed over beside
  std::uint32_t terms;
};

/// Most sums that are computed with a gradient, and most terms of each.
inline constexpr std::size_t most_folded_sums = 4, most_folded_terms = 16;

/// *out = sum_i (a[i] - b[i])^2 in double, in the fixed order of the implementation's documentation.
struct DistanceJob {
  const float* a;
  const float* b;
  double* out;
  std::uint32_t length;
};

/// out = transform(inputs); `out` has result_size() floats and overlaps no input.
struct TransformJob {
  const Transform* transform;
  std::array<std::span<const float>, most_inputs> inputs;
  std::span<float> out;
};

/// *out = measure(inputs)
struct MeasureJob {
  const Measure* measure;
  std::array<std::span<const float>, most_inputs> inputs;
  double* out;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Whether the host may look at vectors without read() and write().
  virtual bool is_host() const { return true; }
  /// `count` floats, aligned to 64 bytes, uninitialized. Throws Error when memory is out, with the arithmetic.
  virtual float* allocate(std::size_t count) = 0;
  /// What allocate() gave for the same `count`.
  virtual void release(float* values, std::size_t count) noexcept = 0;
  /// Each does what its job, above, says. Jobs of one call are independent of each other (no job reads what another writes).
  virtual void linear(std::span<const LinearJob> jobs, std::span<const LinearTerm> terms) = 0;
  virtual void squared_distances(std::span<const DistanceJob> jobs) = 0;
  virtual void transform(std::span<const TransformJob> jobs) = 0;
  virtual void measure(std::span<const MeasureJob> jobs) = 0;
  /// Host memory to vector and back. After write() `from` may change; read() waits.
  virtual void write(float* values, std::span<const float> from) = 0;
  virtual void read(std::span<float> to, const float* values) = 0;
};

}  // namespace starling
