// The plain build: one obvious loop per kernel, which is the specification that the vectorized
// builds meet bit for bit. It runs on every processor; without a fused multiply-add instruction
// fmaf is a slow library call.
#include <cmath>
#include <cstring>

#include "kernels/dense/code_loops.hpp"
#include "kernels/dense/dense.hpp"
#include "kernels/dense/image_loops.hpp"
#include "kernels/dense/plain_math.hpp"
#include "kernels/dense/plain_sequences.hpp"
#include "kernels/dense/step_loops.hpp"
#include "sim/base/random.hpp"

namespace starling::dense {
namespace {

void gather(std::size_t batch, std::size_t columns, const float* from, const std::int32_t* rows,
            float* to, std::size_t to_stride) {
  for (std::size_t b = 0; b < batch; ++b, to += to_stride) {
    const float* const row = from + static_cast<std::size_t>(rows[b]) * columns;
    for (std::size_t i = 0; i < columns; ++i) to[i] = row[i];
  }
}

void forward(Shape shape, const float* x, std::size_t x_stride, const float* weights,
             const float* bias, bool relu, float* y, std::size_t y_stride, Ahead*) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t o = 0; o < shape.outputs; ++o) {
      float sum = bias[o];
      for (std::size_t k = 0; k < shape.inputs; ++k) {
        sum = std::fmaf(x[b * x_stride + k],
                        weights[weight_index(shape.inputs, shape.outputs, k, o)], sum);
      }
      y[b * y_stride + o] = relu && sum < 0 ? 0 : sum;
    }
  }
}

void parameter_gradient(Shape shape, const float* x, std::size_t x_stride, const float* dy,
                        std::size_t dy_stride, float* weight_gradient, float* bias_gradient) {
  for (std::size_t o = 0; o < shape.outputs; ++o) {
    for (std::size_t k = 0; k < shape.inputs; ++k) {
      float sum = 0;
      for (std::size_t b = 0; b < shape.batch; ++b) {
        sum = std::fmaf(x[b * x_stride + k], dy[b * dy_stride + o], sum);
      }
      weight_gradient[weight_index(shape.inputs, shape.outputs, k, o)] = sum;
    }
    if (bias_gradient == nullptr) continue;
    float sum = 0;
    for (std::size_t b = 0; b < shape.batch; ++b) sum += dy[b * dy_stride + o];
    bias_gradient[o] = sum;
  }
}

/// Element `at` of the sums, where the gradient is g.
void sum_element(const Folding& folding, std::size_t at, float g) {
  for (std::size_t s = 0; s < folding.sum_count; ++s) {
    const LinearJob& job = folding.sums[s];
    const LinearTerm* terms = folding.terms + job.first_term;
    float sum = 0;
    for (std::size_t t = 0; t < job.terms; ++t) {
      const float value = terms[t].values == nullptr ? g : terms[t].values[at];
      sum = t == 0 ? terms[t].factor * value : std::fmaf(terms[t].factor, value, sum);
    }
    job.out[at] = sum;
  }
}

void parameter_sums(Shape shape, const float* x, std::size_t x_stride, const float* dy,
                    std::size_t dy_stride, const Folding& folding) {
  for (std::size_t o = 0; o < shape.outputs; ++o) {
    for (std::size_t k = 0; k < shape.inputs; ++k) {
      float g = 0;
      for (std::size_t b = 0; b < shape.batch; ++b) {
        g = std::fmaf(x[b * x_stride + k], dy[b * dy_stride + o], g);
      }
      sum_element(folding, folding.weights + weight_index(shape.inputs, shape.outputs, k, o), g);
    }
    float g = 0;
    for (std::size_t b = 0; b < shape.batch; ++b) g += dy[b * dy_stride + o];
    sum_element(folding, folding.bias + o, g);
  }
}

void input_gradient(Shape shape, Range inputs, const float* dy, std::size_t dy_stride,
                    const float* weights, const float* x, std::size_t x_stride, float* dx) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t k = inputs.begin; k < inputs.end; ++k) {
      float sum = 0;
      for (std::size_t o = 0; o < shape.outputs; ++o) {
        sum = std::fmaf(dy[b * dy_stride + o],
                        weights[weight_index(shape.inputs, shape.outputs, k, o)], sum);
      }
      dx[b * x_stride + k] = x == nullptr || x[b * x_stride + k] > 0 ? sum : 0;
    }
  }
}

/// x at input k of output pixel (row, column).
const float* input_of(const Convolution& s, const float* x, std::size_t row, std::size_t column,
                      std::size_t k) {
  const std::size_t line = k / (s.kernel_width * s.channels);
  const std::size_t rest = k % (s.kernel_width * s.channels);
  return x + ((row * s.stride + line) * s.width + column * s.stride) * s.channels + rest;
}

void convolve(const Convolution& s, const float* x, const float* weights, const float* bias,
              float* y) {
  for (std::size_t row = 0; row < s.out_height(); ++row) {
    for (std::size_t column = 0; column < s.out_width(); ++column, y += s.outputs) {
      for (std::size_t o = 0; o < s.outputs; ++o) {
        float sum = bias == nullptr ? y[o] : bias[o];
        for (std::size_t k = 0; k < s.inputs(); ++k) {
          sum = std::fmaf(*input_of(s, x, row, column, k),
                          weights[weight_index(s.inputs(), s.outputs, k, o)], sum);
        }
        y[o] = sum;
      }
    }
  }
}

void convolution_gradient(const Convolution& s, const float* x, const float* dy,
                          float* weight_gradient, float* bias_gradient) {
  for (std::size_t row = 0; row < s.out_height(); ++row) {
    for (std::size_t column = 0; column < s.out_width(); ++column, dy += s.outputs) {
      for (std::size_t o = 0; o < s.outputs; ++o) {
        for (std::size_t k = 0; k < s.inputs(); ++k) {
          float& sum = weight_gradient[weight_index(s.inputs(), s.outputs, k, o)];
          sum = std::fmaf(*input_of(s, x, row, column, k), dy[o], sum);
        }
        if (bias_gradient != nullptr) bias_gradient[o] += dy[o];
      }
    }
  }
}

void softmax_cross_entropy(std::size_t batch, std::size_t classes, float* z, std::size_t z_stride,
                           const std::int32_t* labels, double* losses) {
  const float share = 1.0f / static_cast<float>(batch);
  for (std::size_t b = 0; b < batch; ++b, z += z_stride) {
    const auto label = static_cast<std::size_t>(labels[b]);
    float highest = z[0];
    for (std::size_t o = 1; o < classes; ++o) highest = z[o] > highest ? z[o] : highest;
    const double margin = static_cast<double>(z[label]) - static_cast<double>(highest);
    float sum = 0;
    for (std::size_t o = 0; o < classes; ++o) {
      z[o] = exponential_of(z[o] - highest);
      sum += z[o];
    }
    const float scale = share / sum;
    const float right = std::fmaf(z[label], scale, -share);
    for (std::size_t o = 0; o < classes; ++o) z[o] *= scale;
    z[label] = right;
    losses[b] = static_cast<double>(logarithm_of(sum)) - margin;
  }
}

void exponential(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = exponential_of(x[i]);
}

void logarithm(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = logarithm_of(x[i]);
}

void linear(float* out, const LinearTerm* terms, std::size_t term_count, std::size_t begin,
            std::size_t end, bool) {
  if (term_count == 1 && terms[0].factor == 1) {  // whatever the bits mean
    std::memmove(out + begin, terms[0].values + begin, (end - begin) * sizeof(float));
    return;
  }
  for (std::size_t i = begin; i < end; ++i) {
    float sum = term_count == 0 ? 0 : terms[0].factor * terms[0].values[i];
    for (std::size_t t = 1; t < term_count; ++t) {
      sum = std::fmaf(terms[t].factor, terms[t].values[i], sum);
    }
    out[i] = sum;
  }
}

double squared_distance(const float* a, const float* b, std::size_t count) {
  double lanes[16] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    lanes[i % 16] = std::fma(d, d, lanes[i % 16]);
  }
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

void random_words(const std::uint32_t (&key)[2], std::uint32_t first,
                  const std::uint32_t (&counter)[3], std::size_t blocks, std::uint32_t* words) {
  for (std::size_t b = 0; b < blocks; ++b, words += 4) {
    const auto block =
        philox({first + static_cast<std::uint32_t>(b), counter[0], counter[1], counter[2]},
               {key[0], key[1]});
    std::memcpy(words, block.data(), sizeof block);
  }
}

}  // namespace

const Kernels& kernels_v1() {
  static constexpr Kernels build = {
      .name = "v1",
#include "kernels/dense/table.inc"
  };
  return build;
}

}  // namespace starling::dense
