#include "kernels/dense/stack.hpp"

#include <algorithm>

namespace starling {

void DenseStack::fit(std::span<const DenseLayer> layers, std::size_t rows) {
  values.resize(layers.size() + 1);
  std::size_t widest = 0;
  for (std::size_t l = 0; l <= layers.size(); ++l) {
    const std::size_t columns = l < layers.size() ? layers[l].inputs : layers.back().outputs;
    values[l].stride = dense::row_stride(columns);
    values[l].floats.resize(std::max(values[l].floats.size(), rows * values[l].stride));
    widest = std::max(widest, rows * values[l].stride);
  }
  for (auto& slope : slopes) slope.resize(std::max(slope.size(), widest));
}

std::size_t DenseStack::floats() const {
  std::size_t count = slopes[0].size() + slopes[1].size();
  for (const Rows& rows : values) count += rows.floats.size();
  return count;
}

void DenseStack::forward(const dense::Kernels& kernels, std::span<const DenseLayer> layers,
                         const float* x, const float* input, std::size_t input_stride,
                         std::size_t first, std::size_t rows) {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const DenseLayer& layer = layers[l];
    Rows& output = values[l + 1];
    kernels.forward({rows, layer.inputs, layer.outputs}, input, input_stride, x + layer.weights,
                    x + layer.bias, l + 1 < layers.size(), output.row(first), output.stride,
                    nullptr);
    input = output.row(first);
    input_stride = output.stride;
  }
}

void DenseStack::backward(const dense::Kernels& kernels, std::span<const DenseLayer> layers,
                          const float* x, std::size_t rows, float* gradient) {
  const float* dy = values.back().row(0);
  for (std::size_t l = layers.size(); l-- > 0;) {
    const DenseLayer& layer = layers[l];
    const dense::Shape shape{rows, layer.inputs, layer.outputs};
    Rows& input = values[l];
    const std::size_t dy_stride = values[l + 1].stride;
    kernels.parameter_gradient(shape, input.row(0), input.stride, dy, dy_stride,
                               gradient + layer.weights, gradient + layer.bias);
    if (l == 0) break;
    float* dx = slopes[l % 2].data();
    kernels.input_gradient(shape, {0, shape.inputs}, dy, dy_stride, x + layer.weights, input.row(0),
                           input.stride, dx);
    dy = dx;
  }
}

}  // namespace starling
