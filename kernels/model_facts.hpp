// What a workload tells of the tensors of its model, which a network may exchange, and algorithms compress, one by one.
#pragma once

#include <cstddef>
#include <cstdint>

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
inline void add_dense_layer(WorkloadFacts& facts, std::size_t at, std::size_t inputs,
                            std::size_t outputs) {
  add_weights(facts, at, inputs, outputs);
  facts.tensors.push_back(outputs);
}

}  // namespace starling
