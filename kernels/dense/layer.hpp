// Fully connected layers in a flat model: one after the other, each its weights (panel-major, see dense.hpp), then its bias.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/dense/dense.hpp"

namespace starling {

/// One fully connected layer and where its parameters are in the model.
struct DenseLayer {
  std::size_t inputs, outputs;
  std::size_t weights;  // index of the first weight
  std::size_t bias;     // index of the first bias
};

/// A layer whose parameters are the next of a model: from `at` on, which moves behind them.
inline DenseLayer next_layer(std::size_t inputs, std::size_t outputs, std::size_t& at) {
  const DenseLayer layer{inputs, outputs, at, at + inputs * outputs};
  at = layer.bias + outputs;
  return layer;
}

/// The layers of a multilayer perceptron from `inputs` numbers over hidden ones of these widths to `outputs` numbers; its
/// parameters begin at 0.
inline std::vector<DenseLayer> stack_layers(std::size_t inputs,
                                            const std::vector<std::size_t>& hidden,
                                            std::size_t outputs) {
  std::vector<DenseLayer> layers;
  std::size_t at = 0;
  for (const std::size_t width : hidden) {
    layers.push_back(next_layer(inputs, width, at));
    inputs = width;
  }
  layers.push_back(next_layer(inputs, outputs, at));
  return layers;
}

/// "64-32-10": the inputs of the first layer, then the outputs of each.
inline std::string widths_of(std::span<const DenseLayer> layers) {
  std::string widths = std::to_string(layers.front().inputs);
  for (const DenseLayer& layer : layers) widths += '-' + std::to_string(layer.outputs);
  return widths;
}

/// Standard deviation of the first weights of a layer: He et al.'s where a ReLU follows, Glorot and Bengio's in the last.
inline double first_deviation(std::size_t inputs, std::size_t outputs, bool is_last) {
  return std::sqrt(2.0 / static_cast<double>(is_last ? inputs + outputs : inputs));
}

/// Sets the weights of an (inputs x outputs) layer, input by input, to what draw() returns.
template <class Draw>
void draw_weights(std::size_t inputs, std::size_t outputs, float* weights, const Draw& draw) {
  for (std::size_t i = 0; i < inputs; ++i) {
    for (std::size_t o = 0; o < outputs; ++o)
      weights[dense::weight_index(inputs, outputs, i, o)] = draw();
  }
}

}  // namespace starling
