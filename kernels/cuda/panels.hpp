// Panel-major weights on a device: dense::weight_index and its inverse.
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

inline constexpr std::uint32_t panel_columns = 32;

/// Where a column of weights begins, and how far apart its floats are.
struct Column {
  std::uint64_t first;
  std::uint32_t stride;
};

/// Of an (inputs x outputs) layer.
STARLING_DEVICE Column column_of(std::uint32_t inputs, std::uint32_t outputs,
                                 std::uint32_t output) {
  const std::uint32_t panel = output / panel_columns * panel_columns;
  return {std::uint64_t{panel} * inputs + (output - panel), lesser(panel_columns, outputs - panel)};
}

/// Where weight (input, output) lies.
STARLING_DEVICE std::uint64_t weight_at(std::uint32_t inputs, std::uint32_t outputs,
                                        std::uint32_t input, std::uint32_t output) {
  const Column column = column_of(inputs, outputs, output);
  return column.first + std::uint64_t{input} * column.stride;
}

struct Place {
  std::uint32_t input, output;
};

/// Which weight lies at `index`.
STARLING_DEVICE Place place_of(std::uint32_t inputs, std::uint32_t outputs, std::uint32_t index) {
  // Of one panel the product could be too large; of more it is below the number of weights.
  const std::uint32_t panel =
      outputs <= panel_columns ? 0 : index / (panel_columns * inputs) * panel_columns;
  const std::uint32_t columns = lesser(panel_columns, outputs - panel);
  const std::uint32_t rest = index - panel * inputs;
  return {rest / columns, panel + rest % columns};
}

}  // namespace starling::cuda
