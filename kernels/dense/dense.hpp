// Dense kernels: the arithmetic of fully connected layers and of vector verbs on the CPU, as pure
// functions.
//
// Every number is defined by plain loops (v1.cpp): sums run sequentially over k (inputs,
// outputs or samples) with one fused multiply-add per term, and vectors run over columns only. So
// the vectorized builds give the same bits as the plain loops, and no result depends on the
// instruction set, on tile sizes or on who shares the batch. One source (products.hpp,
// elementwise.hpp) is compiled for AVX2 and for AVX-512; kernels() picks the best build for
// this processor, once.
//
// Weights are stored panel-major: an (inputs x outputs) matrix as panels of 32 columns (the last
// one narrower), each panel (inputs x its columns) contiguous. A layer is its weights, then its
// bias.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dense/codes.hpp"
#include "kernels/dense/images.hpp"
#include "kernels/dense/sequences.hpp"
#include "sim/node/backend.hpp"

namespace starling::dense {

inline constexpr std::size_t panel_columns = 32;

/// Where weight (input, output) of an (inputs x outputs) layer lives, counted from the layer's
/// first weight.
constexpr std::size_t weight_index(std::size_t inputs, std::size_t outputs, std::size_t input,
                                   std::size_t output) {
  const std::size_t panel = output / panel_columns * panel_columns;
  const std::size_t columns = outputs - panel < panel_columns ? outputs - panel : panel_columns;
  return panel * inputs + input * columns + (output - panel);
}

/// Floats between the rows of an activation matrix of `columns` columns: whole cache lines, and off
/// multiples of 1 KiB, which would send all rows to the same few cache sets.
constexpr std::size_t row_stride(std::size_t columns) {
  const std::size_t lines = (columns + 15) / 16;
  return (lines % 16 == 0 ? lines + 1 : lines) * 16;
}

/// Floats of scratch memory that attention over `length` positions needs.
constexpr std::size_t attention_scratch(std::size_t length, std::size_t width) {
  return 2 * (length + width) * row_stride(length);
}

/// Sizes of one layer at work; all positive.
struct Shape {
  std::size_t batch, inputs, outputs;
};

/// Some of the inputs or outputs of a layer.
struct Range {
  std::size_t begin, end;
};

/// Sums that are computed at once with the gradient of a flat model, and where in it a layer is. See GradientRequest.
struct Folding {
  const LinearJob* sums;
  std::size_t sum_count;
  const LinearTerm* terms;
  std::size_t weights, bias;  // index of the layer's first weight and bias
  bool is_far;  // results are read so late that the cache will have lost them: they go past it
};

/// Rows of so many floats each that are used soon: a product may fetch them into the second-level cache while it runs.
struct Ahead {
  std::size_t rows = 0;
  const float* const* row = nullptr;
  std::size_t floats = 0;
};

/// One build of the kernels. All matrices but weights are row-major, one row per sample, with a
/// stride in floats that is at least the number of columns. Outputs are overwritten and must not
/// overlap inputs unless said. No function allocates or throws.
struct Kernels {
  const char* name;  // "v1", "v3", "v4": the x86-64 level it is compiled for

  /// A mini-batch out of a data set: to_b = row rows[b] of `from`, which are `columns` floats each.
  void (*gather)(std::size_t batch, std::size_t columns, const float* from,
                 const std::int32_t* rows, float* to, std::size_t to_stride);

  /// y = x W + bias, then negative values become 0 if `relu` (NaN stays).
  ///   y_bo = fma(x_bk, W_ko, ..) for k = 0, 1, .., starting from bias_o
  /// Rows of `ahead` (null: none) that it fetches, from the first on, leave that list.
  void (*forward)(Shape shape, const float* x, std::size_t x_stride, const float* weights,
                  const float* bias, bool relu, float* y, std::size_t y_stride, Ahead* ahead);

  /// Gradients of weights and bias (unless that is null) from that of y, summed over samples in order, starting from 0:
  ///   dW_ko = fma(x_bk, dy_bo, ..),  dbias_o = (0 + dy_0o) + dy_1o + ..
  void (*parameter_gradient)(Shape shape, const float* x, std::size_t x_stride, const float* dy,
                             std::size_t dy_stride, float* weight_gradient, float* bias_gradient);

  /// The same gradients, which are not stored: as soon as a piece of them is known, that piece of
  /// the sums is.
  void (*parameter_sums)(Shape shape, const float* x, std::size_t x_stride, const float* dy,
                         std::size_t dy_stride, const Folding& folding);

  /// Gradient of x, summed over outputs in order, starting from 0; where x (the output of a ReLU)
  /// is not positive it is 0:
  ///   dx_bk = x_bk > 0 ? fma(dy_bo, W_ko, ..) : 0
  /// Of these `inputs` only, from a multiple of panel_columns on. `dx` has the stride of `x`. If `x` is null, no dx is cut to 0.
  void (*input_gradient)(Shape shape, Range inputs, const float* dy, std::size_t dy_stride,
                         const float* weights, const float* x, std::size_t x_stride, float* dx);

  /// Softmax and mean cross-entropy. On entry `z` (batch x classes) holds logits, on return the
  /// gradient of the mean loss; losses[b] is the loss of sample b. Per row, with m the maximum and
  /// classes in order:
  ///   e_o = exp(z_o - m),  s = (0 + e_0) + e_1 + ..,  r = (1 / batch) / s
  ///   dz_o = e_o r,  but fma(e_o, r, -1 / batch) for the label,  loss = log(s) - (z_label - m)
  /// with the last line's loss in double after the float log.
  void (*softmax_cross_entropy)(std::size_t batch, std::size_t classes, float* z,
                                std::size_t z_stride, const std::int32_t* labels, double* losses);

  /// y_i = e^(x_i): error below 1.1 ulp; underflows gradually, overflows to infinity, NaN stays.
  void (*exponential)(const float* x, float* y, std::size_t count);
  /// y_i = ln(x_i): error below 1.1 ulp for positive normal x; NaN for infinity and NaN, undefined
  /// otherwise.
  void (*logarithm)(const float* x, float* y, std::size_t count);

  /// Columns begin .. end - 1 of a LinearJob with these terms (see LinearJob for the formula). `is_far`: they are read so
  /// late that the cache will have lost them, and may go past it: other threads see them after a fence of this one.
  void (*linear)(float* out, const LinearTerm* terms, std::size_t term_count, std::size_t begin,
                 std::size_t end, bool is_far);

  /// sum_i (a_i - b_i)^2 in double. Lane l of 16 sums the i with i mod 16 = l in order,
  ///   lane_l = fma(d, d, lane_l),  d = double(a_i) - double(b_i),
  /// then lanes fold in halves: l + 8, l + 4, l + 2, l + 1 is added to l.
  double (*squared_distance)(const float* a, const float* b, std::size_t count);

  /// out_i = keep s_i + share g_i^2, in double, rounded once.
  void (*add_square)(const float* sums, const float* g, std::size_t count, float keep, float share,
                     float* out);
  /// out_i = scale m_i / (sqrt(spread s_i) + epsilon), in double, rounded once; 0 where that is no positive divisor.
  void (*divide_by_root)(const float* m, const float* squares, std::size_t count, float scale,
                         float spread, float epsilon, float* out);

  /// Convolution and what goes with it.
  ImageKernels images;
  /// Layer norm, GELU and attention.
  SequenceKernels sequences;
  /// What compression does with entries.
  CodeKernels codes;
};

/// The build that this process uses: the best one the processor can run, or the one that the
/// environment variable STARLING_ISA names (v1, v3 or v4). Throws Error if that is unknown or
/// cannot run here.
const Kernels& kernels();

/// All builds that this processor can run, plain loops first.
std::vector<const Kernels*> runnable_kernels();

/// The builds. Only v1 runs everywhere; call the others through kernels() or runnable_kernels().
const Kernels& kernels_v1();
const Kernels& kernels_v3();
const Kernels& kernels_v4();

}  // namespace starling::dense
