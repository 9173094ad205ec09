// CpuBackend: vectors in host memory, verbs with OpenMP over jobs and columns. The numbers are
// those of kernels/dense/dense.hpp (linear, squared_distance) and
// of kernels/transforms.hpp, whatever the number of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "kernels/dense/dense.hpp"
#include "sim/node/backend.hpp"

namespace starling {

class CpuBackend : public Backend {
 public:
  /// `kernels` is a parameter for tests; results do not depend on it.
  explicit CpuBackend(const dense::Kernels& kernels = dense::kernels()) : kernels_(kernels) {}

  /// Blocks of 2 MiB and more are aligned to, and ask for, huge pages.
  float* allocate(std::size_t count) override;
  void release(float* values, std::size_t count) noexcept override;
  void linear(std::span<const LinearJob> jobs, std::span<const LinearTerm> terms) override;
  /// In the order that dense::Kernels::squared_distance states.
  void squared_distances(std::span<const DistanceJob> jobs) override;
  void transform(std::span<const TransformJob> jobs) override;
  void measure(std::span<const MeasureJob> jobs) override;
  void write(float* values, std::span<const float> from) override;
  void read(std::span<float> to, const float* values) override;

 private:
  const dense::Kernels& kernels_;
  std::atomic<std::size_t> bytes_in_use_ = 0;
};

}  // namespace starling
