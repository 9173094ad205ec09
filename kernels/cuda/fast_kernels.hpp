// What the fast mode needs beside cuBLAS's products: the mini-batch side by side in memory, biases, their gradients, and whether all gradients are finite.
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

/// dbias = sum of dy over the rows. A block per task.
struct BiasGradientKernel {
  static constexpr unsigned threads = 128;
  using Arguments = LayerArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const StepTask task = a.tasks[block.index];
    const float* dy = a.output.at + std::uint64_t{block.index} * a.rows * a.output.stride;
    block.each([&](unsigned thread) {
      for (std::uint32_t o = thread; o < a.layer.outputs; o += threads) {
        float sum = 0;
        for (std::uint32_t b = 0; b < task.rows; ++b)
          sum += dy[std::uint64_t{b} * a.output.stride + o];
        store_gradient(task, a.layer.bias + o, sum);
      }
    });
  }
};

/// Looks whether the gradients of a layer's weights are finite. A block per task.
struct FiniteKernel {
  static constexpr unsigned threads = 128;
  using Arguments = LayerArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const StepTask task = a.tasks[block.index];
    block.each([&](unsigned thread) {
      float zeros = 0;
      for (std::uint32_t i = a.layer.weights + thread; i < a.layer.bias; i += threads)
        add_zero_times(zeros, task.gradient[i]);
      note_strange(task, zeros);
    });
  }
};

}  // namespace starling::cuda
