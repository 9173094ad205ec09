// Forward and backward through a stack of fully connected layers with ReLUs between them, for workloads that judge what
// comes out by themselves (auc, navigation); mlp.cpp has its own, whose sums fold into the gradient.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/dense/layer.hpp"

namespace starling {

/// What lies between the layers for so many rows: scratch of one thread.
struct DenseStack {
  struct Rows {
    std::vector<float> floats;
    std::size_t stride = 0;
    float* row(std::size_t r) { return floats.data() + r * stride; }
  };
  std::vector<Rows> values;      // [l]: (rows, inputs) of layer l, then the last one's outputs
  std::vector<float> slopes[2];  // of the values of two neighboring layers

  /// Makes room for so many rows.
  void fit(std::span<const DenseLayer> layers, std::size_t rows);
  std::size_t floats() const;

  /// Model `x` at `input` (rows, inputs), which may be values[0]: fills values[1] and on, from row `first` on.
  void forward(const dense::Kernels& kernels, std::span<const DenseLayer> layers, const float* x,
               const float* input, std::size_t input_stride, std::size_t first, std::size_t rows);
  /// Writes the gradient from the slopes of the outputs, which stand in their place, and the inputs in values[0].
  void backward(const dense::Kernels& kernels, std::span<const DenseLayer> layers, const float* x,
                std::size_t rows, float* gradient);
};

}  // namespace starling
