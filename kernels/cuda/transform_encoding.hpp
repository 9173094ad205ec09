// From a Transform to the flat record that a kernel reads.
#pragma once

#include <array>
#include <vector>

#include "kernels/cuda/transform_task.hpp"
#include "sim/node/backend.hpp"

namespace starling::cuda {

/// A transform or measure, ready for a kernel but for memory that only the backend can give.
struct EncodedTransform {
  TransformTask task{};
  /// In the order of their launches.
  enum Kernel : std::size_t { clear, row, encode, largest, project, map, kernels };
  // Of each kernel; of largest the pieces of a row, of project the groups of columns.
  std::array<std::uint32_t, kernels> blocks{};
  std::vector<std::uint32_t> positions{};  // task.positions must point to them
  std::size_t scratch_doubles = 0;         // task.scratch must have room for so many
};

EncodedTransform encode(const TransformJob& job);
EncodedTransform encode(const MeasureJob& job);

}  // namespace starling::cuda
