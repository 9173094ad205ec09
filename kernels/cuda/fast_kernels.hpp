// What the fast mode needs beside cuBLAS's products: the mini-batch side by side in memory, and biases.
#pragma once

#include "kernels/cuda/layer_kernels.hpp"

namespace starling::cuda {

/// Copies the samples of every task to activations. A block per row.
struct GatherKernel {
  static constexpr unsigned threads = 128;
  struct Arguments {
    const StepTask* tasks;
    Samples data;
    std::uint32_t rows;
    Activations to;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const StepTask task = a.tasks[block.index / a.rows];
    const std::uint32_t row = block.index % a.rows;
    const float* from =
        a.data.x + std::uint64_t{row < task.rows ? sample_of(task, row) : 0U} * a.data.features;
    float* to = a.to.at + std::uint64_t{block.index} * a.to.stride;
    block.each([&](unsigned thread) {
      for (std::uint32_t k = thread; k < a.data.features; k += threads)
        to[k] = row < task.rows ? from[k] : 0.0F;
    });
  }
};

/// y <- y + bias, then ReLU unless it is the last layer. A block per row.
struct BiasKernel {
  static constexpr unsigned threads = 128;
  using Arguments = LayerArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const float* bias = a.tasks[block.index / a.rows].x + a.layer.bias;
    float* y = a.output.at + std::uint64_t{block.index} * a.output.stride;
    block.each([&](unsigned thread) {
      for (std::uint32_t o = thread; o < a.layer.outputs; o += threads) {
        const float sum = y[o] + bias[o];
        y[o] = a.is_last == 0 && sum < 0 ? 0.0F : sum;
      }
    });
  }
};

}  // namespace starling::cuda
