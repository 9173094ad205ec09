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
  std::uint32_t are_sums_even;  // all they read and write begins at multiples of 16 bytes
  std::uint32_t* strange;       // of a gradient: no longer 0 if an entry is infinite or NaN
};

/// Labeled samples in device memory.
struct Samples {
  const float* x;  // (samples, features)
  const std::int32_t* y;
  std::uint32_t features;
};

STARLING_DEVICE std::uint32_t sample_of(const StepTask& task, std::uint32_t row) {
  return task.samples == nullptr ? task.first + row : static_cast<std::uint32_t>(task.samples[row]);
}

template <class T>
STARLING_DEVICE T load_as(const float* from) {
  return *reinterpret_cast<const T*>(from);
}
STARLING_DEVICE void store_as(float* to, float value) { *to = value; }
STARLING_DEVICE void store_as(float* to, const Quad& value) { store_quad(to, value); }

/// 0 times a number is 0; infinity and NaN give NaN, which stays.
STARLING_DEVICE void add_zero_times(float& zeros, float v) { zeros = fmaf(0.0F, v, zeros); }
STARLING_DEVICE void add_zero_times(float& zeros, const Quad& v) {
  zeros = fmaf(0.0F, v.w, fmaf(0.0F, v.z, fmaf(0.0F, v.y, fmaf(0.0F, v.x, zeros))));
}
STARLING_DEVICE void note_strange(const StepTask& task, float zeros) {
  if (zeros != 0) add_atomically(*task.strange, 1);
}

/// Stores finished entries of a gradient, or adds them to the sums that want them; load(row, values) reads the same entries of
/// another row. All entries go through each step together: one by one, the loads for an entry would wait for the stores of
/// the entry before, which might change them.
template <class T, std::uint32_t count, class At, class IsUsed, class Load>
STARLING_DEVICE void hand_over(const StepTask& task, const T (&gradients)[count], const At& at,
                               const IsUsed& is_used, const Load& load) {
  if (task.sum_count == 0) {
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) {
      if (is_used(i)) store_as(task.gradient + at(i), gradients[i]);
    }
    return;
  }
  for (std::uint32_t s = 0; s < task.sum_count; ++s) {
    const LinearTask sum = task.sums[s];
    T totals[count];
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) begin_sum(sum.terms, totals[i]);
    for (std::uint32_t t = 0; t < sum.terms; ++t) {
      const TermOnDevice term = task.terms[sum.first_term + t];
      const auto join = [&](const T(&values)[count]) {
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < count; ++i) add_term(totals[i], term.factor, values[i]);
      };
      if (term.values == nullptr) {
        join(gradients);
      } else {
        T values[count] = {};
        load(term.values, values);
        join(values);
      }
    }
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) {
      if (is_used(i)) store_as(sum.out + at(i), totals[i]);
    }
  }
}

/// Every kernel that goes layer by layer hands over the finished entries of a gradient here, numbers or quads that lie at
/// multiples of 16 bytes: entry i is for place at(i), if is_used(i). They are stored, or join the sums that want them. A sum
/// may take the place of the model, so nobody may read these entries of the model afterwards.
template <class T, std::uint32_t count, class At, class IsUsed>
STARLING_DEVICE void store_gradients(const StepTask& task, const T (&gradients)[count],
                                     const At& at, const IsUsed& is_used) {
  float zeros = 0;
  STARLING_UNROLL
  for (std::uint32_t i = 0; i < count; ++i) {
    if (is_used(i)) add_zero_times(zeros, gradients[i]);
  }
  note_strange(task, zeros);
  hand_over(task, gradients, at, is_used, [&](const float* row, T(&values)[count]) {
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < count; ++i) {
      if (is_used(i)) values[i] = load_as<T>(row + at(i));
    }
  });
}

/// Of store_gradients(): there are all entries.
struct All {
  STARLING_DEVICE constexpr bool operator()(std::uint32_t) const { return true; }
};

STARLING_DEVICE void store_gradient(const StepTask& task, std::uint64_t at, float gradient) {
  const float gradients[] = {gradient};
  store_gradients(
      task, gradients, [&](std::uint32_t) { return at; }, All{});
}

/// Whether quads of a gradient may be stored.
STARLING_DEVICE bool takes_quads(const StepTask& task) {
  return task.sum_count == 0 ? is_even(task.gradient) : task.are_sums_even != 0;
}

}  // namespace starling::cuda
