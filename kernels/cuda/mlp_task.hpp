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

/// store_gradient() of `used` entries at first, first + apart, .. of a small model. The loads of a term wait for each
/// other's addresses, and for stores that might change them: so entries take them together.
template <std::uint32_t most>
STARLING_DEVICE void store_gradients(const StepTask& task, std::uint32_t first, std::uint32_t apart,
                                     const float (&gradients)[most], std::uint32_t used) {
  if (task.sum_count == 0) {
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < most; ++i) {
      if (i < used) task.gradient[first + i * apart] = gradients[i];
    }
    return;
  }
  for (std::uint32_t s = 0; s < task.sum_count; ++s) {
    const LinearTask sum = task.sums[s];
    float totals[most] = {};
    for (std::uint32_t t = 0; t < sum.terms; ++t) {
      const TermOnDevice term = task.terms[sum.first_term + t];
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < most; ++i) {
        if (i >= used) continue;
        const float value = term.values == nullptr ? gradients[i] : term.values[first + i * apart];
        totals[i] = t == 0 ? term.factor * value : fmaf(term.factor, value, totals[i]);
      }
    }
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < most; ++i) {
      if (i < used) sum.out[first + i * apart] = totals[i];
    }
  }
}

STARLING_DEVICE bool is_even(const float* at) {
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(Quad) == 0;
}

/// Whether quads may be stored: all rows begin at multiples of 16 bytes.
STARLING_DEVICE bool takes_quads(const StepTask& task) {
  if (task.sum_count == 0) return is_even(task.gradient);
  for (std::uint32_t s = 0; s < task.sum_count; ++s) {
    const LinearTask sum = task.sums[s];
    if (!is_even(sum.out)) return false;
    for (std::uint32_t t = 0; t < sum.terms; ++t) {
      if (!is_even(task.terms[sum.first_term + t].values)) return false;
    }
  }
  return true;
}

/// store_gradient() of entries at[i], .. at[i] + 3 for every i, at[i] being multiples of 4.
template <std::uint32_t count>
STARLING_DEVICE void store_gradients(const StepTask& task, const std::uint64_t (&at)[count],
                                     const Quad (&gradients)[count]) {
  const auto quad_at = [](float* values, std::uint64_t i) -> Quad& {
    return *reinterpret_cast<Quad*>(values + i);
  };
  if (task.sum_count == 0) {
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) quad_at(task.gradient, at[i]) = gradients[i];
    return;
  }
  for (std::uint32_t s = 0; s < task.sum_count; ++s) {
    const LinearTask sum = task.sums[s];
    Quad totals[count] = {};
    for (std::uint32_t t = 0; t < sum.terms; ++t) {
      const TermOnDevice term = task.terms[sum.first_term + t];
      const float f = term.factor;
      Quad values[count];
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < count; ++i) {
        values[i] = term.values == nullptr ? gradients[i]
                                           : *reinterpret_cast<const Quad*>(term.values + at[i]);
      }
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < count; ++i) {
        const Quad v = values[i], o = totals[i];
        totals[i] = t == 0 ? Quad{f * v.x, f * v.y, f * v.z, f * v.w}
                           : Quad{fmaf(f, v.x, o.x), fmaf(f, v.y, o.y), fmaf(f, v.z, o.z),
                                  fmaf(f, v.w, o.w)};
      }
    }
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) quad_at(sum.out, at[i]) = totals[i];
  }
}

}  // namespace starling::cuda
