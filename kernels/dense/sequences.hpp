// The kernels of a transformer beside its dense layers: layer norm, GELU, causal attention. Defined
// by the plain loops of plain_sequences.hpp, met bit for bit by the vectorized ones
// (normalize.hpp, attention.hpp).
//
// A "lane sum" of floats runs in 16 lanes: lane l sums the terms i with i mod 16 = l in order, a
// last incomplete group counts as if +0 followed, then lanes fold in halves: l + 8, l + 4, l + 2,
// l + 1 is added to l.
#pragma once

#include <cstddef>

namespace starling::dense {

/// Positions are dealt with in blocks: the diagonal blocks of causal attention are computed whole.
inline constexpr std::size_t attention_block = 16;

/// One head of attention over one sequence; all positive.
struct AttentionShape {
  std::size_t length, width;
  float scale;  // of the products of queries and keys, 1 / sqrt(width) as a rule
};

/// One build of these kernels; what dense::Kernels says of its own holds here, too.
struct SequenceKernels {
  /// Layer normalization (Ba, Kiros and Hinton, 2016) of each of `rows` rows of x to y, both with
  /// `stride`; `gain` is followed by the bias, `columns` each. With w = 1 / columns in float:
  ///   mean = w lane_sum(x),  variance = w lane_sum(fma(x - mean, x - mean)),
  ///   scale = 1 / sqrt(variance + 1e-5),  y_o = fma((x_o - mean) scale, gain_o, bias_o)
  /// Keeps (mean, scale) of row r in moments[2r], moments[2r + 1].
  void (*layer_norm)(std::size_t rows, std::size_t columns, const float* x, std::size_t stride,
                     const float* gain, float* y, float* moments);
  /// Gradients of the same. With n_o = (x_o - mean) scale and g_o = dy_o gain_o:
  ///   dx_o += scale ((g_o - w lane_sum(g)) - n_o (w lane_sum(fma(g, n)))),
  ///   dgain_o = fma(dy_o, n_o, ..), dbias_o = (0 + dy_0o) + .. over rows in order
  /// It adds to dx (a residual connection goes around every layer norm) and overwrites
  /// `gain_gradient` (gain, then bias).
  void (*layer_norm_gradient)(std::size_t rows, std::size_t columns, const float* x,
                              std::size_t stride, const float* moments, const float* gain,
                              const float* dy, float* dx, float* gain_gradient);

  /// Gaussian error linear unit, the form with tanh (Hendrycks and Gimpel, "Gaussian Error Linear
  /// Units", 2016), y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3), through our exp:
  ///   z = -2 sqrt(2/pi) fma(0.044715, x (x x), x),  s = 1 / (1 + exp z),  y = x s
  void (*gelu)(const float* x, float* y, std::size_t count);
  /// dx_i = dy_i gelu'(x_i), in place of dy:
  ///   gelu' = fma((x s) (1 - s), 2 sqrt(2/pi) fma(3 0.044715, x x, 1), s)
  void (*gelu_gradient)(const float* x, float* dy, std::size_t count);

  /// Causal attention of one head over one sequence. Rows i and j run over its `length` positions;
  /// q, k, v (length x width) share `stride`, y has its own. With B(i) = min(length, 16 (i/16 + 1)):
  ///   s_ij = fma(q_ic, k_jc, ..) over c,  z_ij = scale s_ij,  m_i = max_{j <= i} z_ij,
  ///   e_ij = exp(z_ij - m_i),  p_ij = e_ij (1 / lane_sum_{j <= i} e_ij),  p_ij = +0 for j > i
  ///   y_ic = fma(p_ij, v_jc, ..) over j = 0 .. B(i) - 1
  /// `scratch` has attention_scratch() floats.
  void (*attention)(AttentionShape shape, const float* q, const float* k, const float* v,
                    std::size_t stride, float* y, std::size_t y_stride, float* scratch);
  /// Gradients of q, k and v (with their stride; overwritten), computing p_ij once more:
  ///   r_ij = fma(dy_ic, v_jc, ..) over c,  D_i = lane_sum_{j <= i} fma(p_ij, r_ij),
  ///   t_ij = (p_ij (r_ij - D_i)) scale, +0 for j > i
  ///   dq_ic = fma(t_ij, k_jc, ..) over j = 0 .. B(i) - 1
  ///   dk_jc = fma(t_ij, q_ic, ..), dv_jc = fma(p_ij, dy_ic, ..) over i = 16 (j/16) .. length - 1
  void (*attention_gradient)(AttentionShape shape, const float* q, const float* k, const float* v,
                             std::size_t stride, const float* dy, std::size_t y_stride, float* dq,
                             float* dk, float* dv, float* scratch);
};

}  // namespace starling::dense
