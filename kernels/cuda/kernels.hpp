// All kernels, and their numbers.
#pragma once

#include "kernels/cuda/convolution_kernels.hpp"
#include "kernels/cuda/draw_kernel.hpp"
#include "kernels/cuda/encode_kernel.hpp"
#include "kernels/cuda/fast_kernels.hpp"
#include "kernels/cuda/image_kernels.hpp"
#include "kernels/cuda/largest_kernel.hpp"
#include "kernels/cuda/layer_kernels.hpp"
#include "kernels/cuda/map_kernel.hpp"
#include "kernels/cuda/narrow_kernels.hpp"
#include "kernels/cuda/normalization_kernels.hpp"
#include "kernels/cuda/project_kernel.hpp"
#include "kernels/cuda/quadratic_kernels.hpp"
#include "kernels/cuda/row_kernel.hpp"
#include "kernels/cuda/sequence_kernels.hpp"
#include "kernels/cuda/step_kernel.hpp"
#include "kernels/cuda/vector_kernels.hpp"

namespace starling::cuda {

enum class KernelNumber : std::uint32_t {
#define STARLING_KERNEL(name) name,
#include "kernels/cuda/kernels.inc"
#undef STARLING_KERNEL
  count
};

template <class Kernel>
inline constexpr KernelNumber number_of = KernelNumber::count;
#define STARLING_KERNEL(name) \
  template <>                 \
  inline constexpr KernelNumber number_of<name> = KernelNumber::name;
#include "kernels/cuda/kernels.inc"
#undef STARLING_KERNEL

}  // namespace starling::cuda
