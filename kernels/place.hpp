// Where a run computes: on the CPU, or on a GPU if one is asked for and there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/precision.hpp"
#include "sim/node/backend.hpp"
#include "sim/node/workload.hpp"

namespace starling {

namespace cuda {
class Device;
}

enum class DeviceChoice {
  cpu,
  cuda,       // or an error
  automatic,  // a GPU if there is one
};

struct ComputePlace {
  std::shared_ptr<cuda::Device> device;      // null: the CPU
  std::unique_ptr<Workload> moved_workload;  // null: the original
  std::unique_ptr<Backend> backend;
  std::string description;  // "CPU", "NVIDIA H200, 139.8 GiB, strict", ..

  /// Bytes of vectors that may wait to be read, at most `wanted`: on a GPU a quarter of its memory.
  std::int64_t window_bytes(std::int64_t wanted) const;
};

/// Finds the place for `workload`, which outlives it, and `nodes` models. Ranks of one machine take its GPUs in turn:
/// `rank_here` counts them. Throws Error in one sentence if a GPU is asked for and there is none, or if its memory cannot hold
/// the models.
ComputePlace find_place(DeviceChoice choice, Precision precision, const Workload& workload,
                        std::int64_t nodes, std::uint32_t rank_here = 0);

}  // namespace starling
