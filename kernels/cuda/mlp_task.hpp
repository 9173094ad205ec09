// What the kernels of the multilayer perceptron work on (kernels/mlp.hpp has the definition of every number).
#pragma once

#include "kernels/cuda/linear_task.hpp"
#include "kernels/cuda/panels.hpp"

namespace starling::cuda {

inline constexpr std::uint32_t most_layers = 16;

struct LayerShape {
  std::uint32_t inputs, outputs;
  std::uint32_t weights, bias;  // where they are in the model
};

/// One mini-batch of one node: a gradient, or part of an evaluation.
struct StepTask {
  const float* x;   // the model
  float* gradient;  // null: evaluation, or sums in its place
  const std::int32_t*
      samples;  // (rows) of a gradient; null: evaluation of rows first, first + 1, ..
  std::uint32_t first;
  std::uint32_t rows;
  const LinearTask* sums;     // GradientRequest::sums
  const TermOnDevice* terms;  // of all; one without values stands for the gradient
  std::uint32_t sum_count;
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

/// Where every kernel hands over a finished entry of a gradient: it is stored, or joins the sums that want it. A sum may
/// take the place of the model, so nobody may read entry `at` of the model afterwards.
STARLING_DEVICE void store_gradient(const StepTask& task, std::uint64_t at, float gradient) {
  if (task.sum_count == 0) {
    task.gradient[at] = gradient;
    return;
  }
  for (std::uint32_t s = 0; s < task.sum_count; ++s) {
    const LinearTask sum = task.sums[s];
    float total = 0.0F;
    for (std::uint32_t t = 0; t < sum.terms; ++t) {
      const TermOnDevice term = task.terms[sum.first_term + t];
      const float value = term.values == nullptr ? gradient : term.values[at];
      total = t == 0 ? term.factor * value : fmaf(term.factor, value, total);
    }
    sum.out[at] = total;
  }
}

}  // namespace starling::cuda
