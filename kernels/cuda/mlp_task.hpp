// What the kernels of the multilayer perceptron work on (kernels/mlp.hpp has the definition of every number).
#pragma once

#include "kernels/cuda/panels.hpp"

namespace starling::cuda {

inline constexpr std::uint32_t most_layers = 16;

struct LayerShape {
  std::uint32_t inputs, outputs;
  std::uint32_t weights, bias;  // where they are in the model
};

/// One mini-batch of one node: a gradient, or part of an evaluation.
struct StepTask {
  const float* x;               // the model
  float* gradient;              // null: evaluation
  const std::int32_t* samples;  // (rows), or null: rows first, first + 1, ..
  std::uint32_t first;
  std::uint32_t rows;
};

/// Labelled samples in device memory.
struct Samples {
  const float* x;  // (samples, features)
  const std::int32_t* y;
  std::uint32_t features;
};

STARLING_DEVICE std::uint32_t sample_of(const StepTask& task, std::uint32_t row) {
  return task.samples == nullptr ? task.first + row : static_cast<std::uint32_t>(task.samples[row]);
}

/// Where every kernel hands over a finished entry of a gradient: the one place in which an update would be folded into
/// it.
STARLING_DEVICE void store_gradient(const StepTask& task, std::uint64_t at, float value) {
  task.gradient[at] = value;
}

}  // namespace starling::cuda
