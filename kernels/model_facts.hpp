// What a workload tells of its model: how large it is, and its tensors, which a network may exchange, and algorithms
// compress, one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dense/layer.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// Adds the weights from `at` on, panel-major, to the facts: tensors are told in the order of the model.
inline void add_weights(WorkloadFacts& facts, std::size_t at, std::size_t inputs,
                        std::size_t outputs) {
  facts.tensors.push_back(inputs * outputs);
  facts.matrices.push_back(
      {at, static_cast<std::uint32_t>(inputs), static_cast<std::uint32_t>(outputs)});
}

/// The same for a fully connected layer, whose bias comes next.
inline void add_dense_layer(WorkloadFacts& facts, const DenseLayer& layer) {
  add_weights(facts, layer.weights, layer.inputs, layer.outputs);
  facts.tensors.push_back(layer.outputs);
}

/// Of all matrices: so many multiplications a row takes in fully connected layers.
inline double count_weights(const WorkloadFacts& facts) {
  double sum = 0;
  for (const WeightMatrix& matrix : facts.matrices) {
    sum += static_cast<double>(matrix.rows) * matrix.columns;
  }
  return sum;
}

/// Sets the number of parameters of the model, and how many of them the network sees: `on_the_wire`, or 0 for all.
inline void set_parameters(WorkloadFacts& facts, std::size_t parameters, std::int64_t on_the_wire) {
  facts.parameters = parameters;
  facts.wire_parameters = on_the_wire > 0 ? on_the_wire : static_cast<std::int64_t>(parameters);
}

}  // namespace starling
