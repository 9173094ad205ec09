// The plain loops of the transformer's kernels; a part of v1.cpp, which alone includes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/dense/dense.hpp"
#include "kernels/dense/plain_math.hpp"

namespace starling::dense {
namespace {

/// Sums in 16 lanes, folded in halves. Call add() with i = 0, 1, ..; total() fills the last group.
class LaneSum {
 public:
  void add(float x) { lanes_[count_++ % 16] += x; }
  void add_product(float a, float b) {
    float& lane = lanes_[count_++ % 16];
    lane = std::fmaf(a, b, lane);
  }
  float total() {
    while (count_ % 16 != 0) add(0.0f);
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lanes_[l] += lanes_[l + half];
    }
    return lanes_[0];
  }

 private:
  float lanes_[16] = {};
  std::size_t count_ = 0;
};

void layer_norm(std::size_t rows, std::size_t columns, const float* x, std::size_t stride,
                const float* gain, float* y, float* moments) {
  const float share = 1.0f / static_cast<float>(columns);
  for (std::size_t r = 0; r < rows; ++r, x += stride, y += stride, moments += 2) {
    LaneSum sum, squares;
    for (std::size_t o = 0; o < columns; ++o) sum.add(x[o]);
    const float mean = sum.total() * share;
    for (std::size_t o = 0; o < columns; ++o) squares.add_product(x[o] - mean, x[o] - mean);
    const float scale = 1.0f / std::sqrt(squares.total() * share + norm_epsilon);
    for (std::size_t o = 0; o < columns; ++o) {
      y[o] = std::fmaf((x[o] - mean) * scale, gain[o], gain[columns + o]);
    }
    moments[0] = mean;
    moments[1] = scale;
  }
}

void layer_norm_gradient(std::size_t rows, std::size_t columns, const float* x, std::size_t stride,
                         const float* moments, const float* gain, const float* dy, float* dx,
                         float* gain_gradient) {
  const float share = 1.0f / static_cast<float>(columns);
  std::fill_n(gain_gradient, 2 * columns, 0.0f);
  for (std::size_t r = 0; r < rows; ++r, x += stride, dy += stride, dx += stride, moments += 2) {
    const float mean = moments[0], scale = moments[1];
    LaneSum sum, along;
    for (std::size_t o = 0; o < columns; ++o) {
      const float n = (x[o] - mean) * scale;
      sum.add(dy[o] * gain[o]);
      along.add_product(dy[o] * gain[o], n);
      gain_gradient[o] = std::fmaf(dy[o], n, gain_gradient[o]);
      gain_gradient[columns + o] += dy[o];
    }
    const float level = sum.total() * share, slope = along.total() * share;
    for (std::size_t o = 0; o < columns; ++o) {
      const float n = (x[o] - mean) * scale;
      dx[o] += scale * ((dy[o] * gain[o] - level) - n * slope);
    }
  }
}

/// 1 / (1 + exp z), the gate that GELU multiplies x by; z as in sequences.hpp.
float gelu_gate(float x) {
  const float z = -gelu_slope * std::fmaf(gelu_cubic, x * (x * x), x);
  return 1.0f / (1.0f + exponential_of(z));
}

void gelu(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] * gelu_gate(x[i]);
}

void gelu_gradient(const float* x, float* dy, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gate = gelu_gate(x[i]);
    const float slope = gelu_slope * std::fmaf(3 * gelu_cubic, x[i] * x[i], 1.0f);
    dy[i] *= std::fmaf((x[i] * gate) * (1.0f - gate), slope, gate);
  }
}

/// Where the diagonal block of position i begins and ends.
std::size_t block_begin(std::size_t i) { return i / attention_block * attention_block; }
std::size_t block_end(AttentionShape shape, std::size_t i) {
  return std::min(shape.length, block_begin(i) + attention_block);
}

/// Writes p_ij to p (length x length), +0 above the diagonal.
void attention_weights(AttentionShape shape, const float* q, const float* k, std::size_t stride,
                       float* p) {
  for (std::size_t i = 0; i < shape.length; ++i) {
    float* row = p + i * shape.length;
    std::fill_n(row, shape.length, 0.0f);
    for (std::size_t j = 0; j <= i; ++j) {
      float sum = 0;
      for (std::size_t c = 0; c < shape.width; ++c) {
        sum = std::fmaf(q[i * stride + c], k[j * stride + c], sum);
      }
      row[j] = sum * shape.scale;
    }
    const float highest = *std::max_element(row, row + i + 1);
    LaneSum sum;
    for (std::size_t j = 0; j <= i; ++j) {
      row[j] = exponential_of(row[j] - highest);
      sum.add(row[j]);
    }
    const float share = 1.0f / sum.total();
    for (std::size_t j = 0; j <= i; ++j) row[j] *= share;
  }
}

void attention(AttentionShape shape, const float* q, const float* k, const float* v,
               std::size_t stride, float* y, std::size_t y_stride, float* scratch) {
  attention_weights(shape, q, k, stride, scratch);
  for (std::size_t i = 0; i < shape.length; ++i) {
    for (std::size_t c = 0; c < shape.width; ++c) {
      float sum = 0;
      for (std::size_t j = 0; j < block_end(shape, i); ++j) {
        sum = std::fmaf(scratch[i * shape.length + j], v[j * stride + c], sum);
      }
      y[i * y_stride + c] = sum;
    }
  }
}

/// out_jc = fma(weights_ij, values_ic, ..) over i from j's block on.
void sum_over_queries(AttentionShape shape, const float* weights, const float* values,
                      std::size_t values_stride, float* out, std::size_t out_stride) {
  for (std::size_t j = 0; j < shape.length; ++j) {
    for (std::size_t c = 0; c < shape.width; ++c) {
      float sum = 0;
      for (std::size_t i = block_begin(j); i < shape.length; ++i) {
        sum = std::fmaf(weights[i * shape.length + j], values[i * values_stride + c], sum);
      }
      out[j * out_stride + c] = sum;
    }
  }
}

void attention_gradient(AttentionShape shape, const float* q, const float* k, const float* v,
                        std::size_t stride, const float* dy, std::size_t y_stride, float* dq,
                        float* dk, float* dv, float* scratch) {
  const std::size_t length = shape.length;
  float* p = scratch;
  attention_weights(shape, q, k, stride, p);
  sum_over_queries(shape, p, dy, y_stride, dv, stride);
  for (std::size_t i = 0; i < length; ++i) {
    float* row = p + i * length;
    float* along = scratch + length * length;
    LaneSum mean;
    for (std::size_t j = 0; j <= i; ++j) {
      float sum = 0;
      for (std::size_t c = 0; c < shape.width; ++c) {
        sum = std::fmaf(dy[i * y_stride + c], v[j * stride + c], sum);
      }
      along[j] = sum;
      mean.add_product(row[j], sum);
    }
    const float level = mean.total();
    for (std::size_t j = 0; j <= i; ++j) row[j] = (row[j] * (along[j] - level)) * shape.scale;
    for (std::size_t c = 0; c < shape.width; ++c) {
      float sum = 0;
      for (std::size_t j = 0; j < block_end(shape, i); ++j) {
        sum = std::fmaf(row[j], k[j * stride + c], sum);
      }
      dq[i * stride + c] = sum;
    }
  }
  sum_over_queries(shape, p, q, stride, dk, stride);
}

}  // namespace
}  // namespace starling::dense
