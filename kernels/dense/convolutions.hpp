// The vectorized products of a convolution, without copying its input: where the kernel covers the
// image, each of its rows is one stretch of kernel_width x channels floats, so the register tile of
// products.hpp runs over a few stretches, one image row apart.
#pragma once

#include <cstddef>

#include "kernels/dense/images.hpp"
#include "kernels/dense/lanes.hpp"
#include "kernels/dense/products.hpp"

namespace starling::dense {
namespace {

/// Floats of one row of x, of one step to the next output pixel, and of one row of the kernel.
struct Strides {
  std::size_t row, step, stretch;
  explicit Strides(const Convolution& s)
      : row(s.width * s.channels),
        step(s.stride * s.channels),
        stretch(s.kernel_width * s.channels) {}
};

/// Rows that together have about k_block terms, at least one.
STARLING_INLINE std::size_t rows_per_block(std::size_t terms) {
  return terms < k_block ? k_block / terms : 1;
}

void convolve(const Convolution& s, const float* x, const float* weights, const float* bias,
              float* y) {
  const Strides strides(s);
  const std::size_t out_width = s.out_width(), block = rows_per_block(strides.stretch);
  for (std::size_t panel = 0; panel < s.outputs; panel += panel_columns) {
    const std::size_t panel_width = at_most(panel_columns, s.outputs - panel);
    for (std::size_t first = 0; first < s.kernel_height; first += block) {
      const float* w = weights + panel * s.inputs() + first * strides.stretch * panel_width;
      for (std::size_t row = 0; row < s.out_height(); ++row) {
        for (std::size_t column = 0; column < panel_width; column += tile_columns) {
          run_rows<false>({.terms = strides.stretch,
                           .runs = at_most(block, s.kernel_height - first),
                           .left = x + (row * s.stride + first) * strides.row,
                           .left_stride = strides.step,
                           .left_skip = static_cast<std::ptrdiff_t>(strides.row - strides.stretch),
                           .right = w + column,
                           .right_stride = panel_width,
                           .c = y + row * out_width * s.outputs + panel + column,
                           .c_stride = s.outputs,
                           .resume = first > 0 || bias == nullptr,
                           .start = bias == nullptr ? nullptr : bias + panel + column},
                          out_width, at_most(tile_columns, panel_width - column), strides.step, {});
        }
      }
    }
  }
}

void convolution_gradient(const Convolution& s, const float* x, const float* dy,
                          float* weight_gradient, float* bias_gradient) {
  const Strides strides(s);
  const std::size_t out_width = s.out_width(), out_height = s.out_height();
  const std::size_t block = rows_per_block(out_width);
  for (std::size_t panel = 0; panel < s.outputs; panel += panel_columns) {
    const std::size_t panel_width = at_most(panel_columns, s.outputs - panel);
    for (std::size_t row = 0; row < out_height; row += block) {
      for (std::size_t line = 0; line < s.kernel_height; ++line) {
        float* w = weight_gradient + panel * s.inputs() + line * strides.stretch * panel_width;
        for (std::size_t column = 0; column < panel_width; column += tile_columns) {
          run_rows<true>({.terms = out_width,
                          .runs = at_most(block, out_height - row),
                          .left = x + (row * s.stride + line) * strides.row,
                          .left_stride = strides.step,
                          .left_skip = static_cast<std::ptrdiff_t>(s.stride * strides.row) -
                                       static_cast<std::ptrdiff_t>(out_width * strides.step),
                          .right = dy + row * out_width * s.outputs + panel + column,
                          .right_stride = s.outputs,
                          .c = w + column,
                          .c_stride = panel_width,
                          .resume = true},
                         strides.stretch, at_most(tile_columns, panel_width - column), 1, {});
        }
      }
    }
  }
  for (std::size_t o = 0; bias_gradient != nullptr && o < s.outputs; o += width) {
    const Mask mask = Lanes::first(at_most(width, s.outputs - o));
    Vector sum = Lanes::load(bias_gradient + o, mask);
    for (std::size_t p = 0; p < out_height * out_width; ++p) {
      sum = Lanes::add(sum, Lanes::load(dy + p * s.outputs + o, mask));
    }
    Lanes::store(bias_gradient + o, sum, mask);
  }
}

}  // namespace
}  // namespace starling::dense
