// What one call of CudaMlp works on; shared by its two sources.
#pragma once

#include <vector>

#include "kernels/cuda/cuda_mlp.hpp"

namespace starling {

struct CudaMlp::Batch {
  std::uint32_t rows = 0;  // room of a task
  cuda::Twin<cuda::StepTask> tasks{};
  cuda::Twin<std::int32_t> indices{};
  cuda::Twin<double> losses{};
  cuda::Twin<std::uint32_t> right{};
  cuda::Twin<cuda::DrawTask> draws{};
  cuda::Twin<cuda::LinearTask> sums{};
  cuda::Twin<cuda::TermOnDevice> terms{};
  cuda::Twin<std::uint32_t> strange{};
  cuda::Samples data{};
  // In scratch memory, for models that run layer by layer:
  std::vector<cuda::Activations> after{};  // [l]: what layer l gives
  cuda::Activations slope[2]{};            // gradients of activations, in turn
  double* row_losses = nullptr;
  cuda::Activations gathered{};  // fast mode: the mini-batches
};

}  // namespace starling
