// The vectorized causal attention of one head over one sequence. All products run through the
// register tile of products.hpp, 16 positions at a time, so that what lies above the diagonal
// is left out but for the diagonal blocks, where its weights are +0.
#pragma once

#include <cstddef>

#include "kernels/dense/dense.hpp"
#include "kernels/dense/elementwise.hpp"
#include "kernels/dense/lanes.hpp"
#include "kernels/dense/normalize.hpp"
#include "kernels/dense/products.hpp"

namespace starling::dense {
namespace {

/// out (columns x rows, stride row_stride(rows)) = the transposed of `from` (rows x columns). Rows
/// of `out` are written in whole vectors.
void transpose(const float* from, std::size_t stride, std::size_t rows, std::size_t columns,
               float* out) {
  const std::size_t out_stride = row_stride(rows);
  for (std::size_t r = 0; r < rows; r += width) {
    for (std::size_t c = 0; c < columns; c += width) {
      Vector block[width];
      const std::size_t count = at_most(width, columns - c);
      load_transposed(from + r * stride + c, stride, rows - r, count, block);
#pragma GCC unroll 16
      for (std::size_t i = 0; i < width; ++i) {
        if (i < count) Lanes::store(out + (c + i) * out_stride + r, block[i]);
      }
    }
  }
}

/// Sets row[count ..] to +0 up to the end of the block of 16 that count - 1 is in.
STARLING_INLINE void clear_rest(float* row, std::size_t count) {
  for (std::size_t j = (count + width - 1) / width * width; j % 16 != 0; j += width) {
    Lanes::store(row + j, Lanes::zero());
  }
}

/// The largest of row[0 .. count - 1].
STARLING_INLINE float largest(const float* row, std::size_t count) {
  Vector tops[sum_vectors];
#pragma GCC unroll 2
  for (std::size_t g = 0; g < sum_vectors; ++g) tops[g] = Lanes::all(row[0]);
  for_each_vector(count, [&](std::size_t j, Mask mask, std::size_t g) STARLING_INLINED {
    tops[g] = Lanes::greater(Lanes::choose(Lanes::load(row + j, mask), tops[g], mask), tops[g]);
  });
  alignas(64) float lanes[16];
#pragma GCC unroll 2
  for (std::size_t g = 0; g < sum_vectors; ++g) Lanes::store(lanes + g * width, tops[g]);
  float top = lanes[0];  // cppcheck-suppress uninitvar
  for (std::size_t l = 1; l < 16; ++l) top = lanes[l] > top ? lanes[l] : top;
  return top;
}

/// Turns the products of a query with `count` keys into weights.
STARLING_INLINE void softmax_row(float* row, std::size_t count, float scale) {
  const Vector factor = Lanes::all(scale);
  for_each_vector(count, [&](std::size_t j, Mask mask, std::size_t) STARLING_INLINED {
    Lanes::store(row + j, Lanes::multiply(Lanes::load(row + j, mask), factor), mask);
  });
  const Vector highest = Lanes::all(largest(row, count));
  Vector sums[sum_vectors];
  clear(sums);
  for_each_vector(count, [&](std::size_t j, Mask mask, std::size_t g) STARLING_INLINED {
    const Vector z = Lanes::subtract(Lanes::load(row + j, mask), highest);
    const Vector e = Lanes::keep(exponential_of(z), mask);
    Lanes::store(row + j, e);
    sums[g] = Lanes::add(sums[g], e);
  });
  const Vector share = Lanes::all(1.0f / Lanes::fold(sums));
  for_each_vector(count, [&](std::size_t j, Mask mask, std::size_t) STARLING_INLINED {
    Lanes::store(row + j, Lanes::multiply(Lanes::load(row + j, mask), share), mask);
  });
  clear_rest(row, count);
}

/// The same for gradients: weights p and gradients r of them become gradients of the products, in p.
STARLING_INLINE void softmax_gradient_row(float* p, const float* r, std::size_t count,
                                          float scale) {
  Vector sums[sum_vectors];
  clear(sums);
  for_each_vector(count, [&](std::size_t j, Mask mask, std::size_t g) STARLING_INLINED {
    sums[g] = Lanes::fma(Lanes::load(p + j, mask), Lanes::load(r + j, mask), sums[g]);
  });
  const Vector level = Lanes::all(Lanes::fold(sums)), factor = Lanes::all(scale);
  for_each_vector(count, [&](std::size_t j, Mask mask, std::size_t) STARLING_INLINED {
    const Vector change = Lanes::subtract(Lanes::load(r + j, mask), level);
    const Vector slope = Lanes::multiply(Lanes::load(p + j, mask), change);
    Lanes::store(p + j, Lanes::multiply(slope, factor), mask);
  });
}

/// Calls step(first, rows, end) for each block of positions; keys before `end` may matter to it.
template <class Step>
STARLING_INLINE void for_each_block(std::size_t length, const Step& step) {
  for (std::size_t first = 0; first < length; first += attention_block) {
    const std::size_t rows = at_most(attention_block, length - first);
    step(first, rows, first + rows);
  }
}

/// Writes the weights of queries first .. first + rows - 1 to p, given the transposed keys.
STARLING_INLINE void attention_weights(AttentionShape shape, const float* q, const float* keys,
                                       std::size_t stride, std::size_t first, std::size_t rows,
                                       float* p) {
  const std::size_t row = row_stride(shape.length);
  multiply<false>(rows, shape.width, first + rows, q + first * stride, stride, keys, row,
                  p + first * row, row);
  for (std::size_t i = first; i < first + rows; ++i) softmax_row(p + i * row, i + 1, shape.scale);
}

void attention(AttentionShape shape, const float* q, const float* k, const float* v,
               std::size_t stride, float* y, std::size_t y_stride, float* scratch) {
  const std::size_t row = row_stride(shape.length);
  float* p = scratch;
  float* keys = p + shape.length * row;
  transpose(k, stride, shape.length, shape.width, keys);
  for_each_block(shape.length, [&](std::size_t first, std::size_t rows, std::size_t end) {
    attention_weights(shape, q, keys, stride, first, rows, p);
    multiply<false>(rows, end, shape.width, p + first * row, row, v, stride, y + first * y_stride,
                    y_stride);
  });
}

/// out_j = sum of weights_ij values_i over i from j's block on.
STARLING_INLINE void sum_over_queries(AttentionShape shape, const float* weights,
                                      const float* values, std::size_t values_stride, float* out,
                                      std::size_t out_stride) {
  const std::size_t row = row_stride(shape.length);
  for_each_block(shape.length, [&](std::size_t first, std::size_t rows, std::size_t) {
    multiply<true>(rows, shape.length - first, shape.width, weights + first * row + first, row,
                   values + first * values_stride, values_stride, out + first * out_stride,
                   out_stride);
  });
}

void attention_gradient(AttentionShape shape, const float* q, const float* k, const float* v,
                        std::size_t stride, const float* dy, std::size_t y_stride, float* dq,
                        float* dk, float* dv, float* scratch) {
  const std::size_t row = row_stride(shape.length);
  float* p = scratch;
  float* r = p + shape.length * row;
  float* keys = r + shape.length * row;
  float* values = keys + shape.width * row;
  transpose(k, stride, shape.length, shape.width, keys);
  transpose(v, stride, shape.length, shape.width, values);
  for_each_block(shape.length, [&](std::size_t first, std::size_t rows, std::size_t) {
    attention_weights(shape, q, keys, stride, first, rows, p);
  });
  sum_over_queries(shape, p, dy, y_stride, dv, stride);
  for_each_block(shape.length, [&](std::size_t first, std::size_t rows, std::size_t end) {
    multiply<false>(rows, shape.width, end, dy + first * y_stride, y_stride, values, row,
                    r + first * row, row);
    for (std::size_t i = first; i < end; ++i) {
      softmax_gradient_row(p + i * row, r + i * row, i + 1, shape.scale);
    }
    multiply<false>(rows, end, shape.width, p + first * row, row, k, stride, dq + first * stride,
                    stride);
  });
  sum_over_queries(shape, p, q, stride, dk, stride);
}

}  // namespace
}  // namespace starling::dense
