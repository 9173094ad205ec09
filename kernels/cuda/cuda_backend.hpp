// CudaBackend: vectors in the memory of a GPU, verbs as one kernel launch per wave. The numbers are those of CpuBackend,
// bit for bit, whatever is batched. (A NaN is a NaN on both, but not always with the same bits.)
//
// What runs on the host: the positions that GatherRandom and ScatterRandom draw (Floyd's algorithm is serial; the values
// are fetched and placed on the GPU). Everything else runs on the GPU.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cuda/device_memory.hpp"
#include "sim/node/backend.hpp"

namespace starling {

class CudaBackend final : public Backend {
 public:
  /// `device` outlives the backend.
  explicit CudaBackend(cuda::Device& device) : device_(device) {}

  bool is_host() const override { return false; }
  float* allocate(std::size_t count) override;
  void release(float* values, std::size_t count) noexcept override;
  void linear(std::span<const LinearJob> jobs, std::span<const LinearTerm> terms) override;
  void squared_distances(std::span<const DistanceJob> jobs) override;
  void transform(std::span<const TransformJob> jobs) override;
  void measure(std::span<const MeasureJob> jobs) override;
  void write(float* values, std::span<const float> from) override;
  void read(std::span<float> to, const float* values) override;

 private:
  cuda::Device& device_;
  cuda::DeviceMemory scratch_;  // of transforms that need some
};

}  // namespace starling
