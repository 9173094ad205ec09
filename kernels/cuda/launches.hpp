// How the workloads on a device start kernels that cut their work into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/image_kernels.hpp"
#include "kernels/cuda/layer_kernels.hpp"
#include "kernels/dense_layer.hpp"

namespace starling::cuda {

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

/// A dense layer, and the gradients of its input and its parameters.
inline void launch_forward(Device& device, std::uint64_t tasks, const LayerArguments& a) {
  if (a.rows > 32) {
    launch_tiles<ForwardKernel, NarrowForwardKernel>(device, tasks, a.layer.outputs, a);
  } else {
    launch_tiles<FlatForwardKernel, NarrowForwardKernel>(device, tasks, a.layer.outputs, a);
  }
}
inline void launch_input_gradient(Device& device, std::uint64_t tasks, const LayerArguments& a) {
  if (a.rows > 32) {
    launch_tiles<InputGradientKernel>(device, tasks, a);
  } else {
    launch_tiles<FlatInputGradientKernel>(device, tasks, a);
  }
}
inline void launch_parameter_gradient(Device& device, std::uint64_t tasks,
                                      const LayerArguments& a) {
  launch_tiles<ParameterGradientKernel, NarrowParameterGradientKernel>(device, tasks,
                                                                       a.layer.outputs, a);
}

}  // namespace starling::cuda
