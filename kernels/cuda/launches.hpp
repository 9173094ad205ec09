// How the workloads on a device start kernels that cut their work into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/image_kernels.hpp"
#include "kernels/cuda/narrow_kernels.hpp"
#include "kernels/dense/layer.hpp"

namespace starling::cuda {

/// Gradients that are queued together.
constexpr std::size_t queued_at_once = 4096;

/// For the arguments of a kernel.
inline std::uint32_t whole(std::size_t n) { return static_cast<std::uint32_t>(n); }

inline LayerShape shape_of(const DenseLayer& layer) {
  return {whole(layer.inputs), whole(layer.outputs), whole(layer.weights), whole(layer.bias)};
}

/// A thread per number, `count` of them.
template <class Kernel>
void launch_numbers(Device& device, std::uint64_t count,
                    const typename Kernel::Arguments& arguments) {
  device.launch<Kernel>((count + numbers_per_block - 1) / numbers_per_block, arguments, 0);
}

/// The tiles of all tasks.
template <class Kernel>
void launch_tiles(Device& device, std::uint64_t tasks,
                  const typename Kernel::Arguments& arguments) {
  device.launch<Kernel>(tasks * Kernel::tiles(arguments).count(), arguments, Kernel::shared_bytes);
}

/// By tiles of 64 columns, or of 16 where there are no more.
template <class Wide, class Narrow>
void launch_tiles(Device& device, std::uint64_t tasks, std::uint32_t columns,
                  const typename Wide::Arguments& arguments) {
  if (columns > 16) {
    launch_tiles<Wide>(device, tasks, arguments);
  } else {
    launch_tiles<Narrow>(device, tasks, arguments);
  }
}

/// A dense layer.
inline void launch_forward(Device& device, std::uint64_t tasks, const LayerArguments& a) {
  const bool is_narrow = a.layer.outputs <= few_outputs, is_flat = a.rows <= 32;
  if (is_narrow && is_flat) {
    launch_tiles<FlatNarrowForwardKernel>(device, tasks, a);
  } else if (is_narrow) {
    launch_tiles<NarrowForwardKernel>(device, tasks, a);
  } else if (is_flat) {
    launch_tiles<FlatForwardKernel>(device, tasks, a);
  } else {
    launch_tiles<ForwardKernel>(device, tasks, a);
  }
}
/// The last layer with its losses: few classes, and at most NarrowLossKernel::rows rows.
inline void launch_losses(Device& device, std::uint64_t tasks, const NarrowLossArguments& a) {
  if (a.layer.rows <= 32) {
    launch_tiles<FlatNarrowLossKernel>(device, tasks, a);
  } else {
    launch_tiles<NarrowLossKernel>(device, tasks, a);
  }
}
inline void launch_input_gradient(Device& device, std::uint64_t tasks, const LayerArguments& a) {
  if (a.rows <= 32) {
    launch_tiles<FlatInputGradientKernel>(device, tasks, a);
  } else {
    launch_tiles<InputGradientKernel>(device, tasks, a);
  }
}
/// The gradients of its parameters and, if it has a place, of its input.
inline void launch_gradients(Device& device, std::uint64_t tasks, const LayerArguments& a) {
  if (a.layer.outputs <= few_outputs) return launch_tiles<NarrowGradientKernel>(device, tasks, a);
  // First, because a sum may take the place of the model.
  if (a.slope.at != nullptr) launch_input_gradient(device, tasks, a);
  launch_tiles<ParameterGradientKernel>(device, tasks, a);
}

}  // namespace starling::cuda
