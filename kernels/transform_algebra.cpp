// Products of small matrices, rotations, step sizes, and averages of sides. Products of two floats are exact in double, so sums of
// them are the same with and without fused multiply-adds.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/dense/dense.hpp"
#include "kernels/transforms.hpp"

namespace starling::transforms {

void compute(const MatrixProduct& t, const TransformJob& job) {
  const std::span<const float> a = job.inputs[0];
  const std::span<const float> b = job.inputs[1];
  const std::size_t a_row = t.is_left_transposed ? 1 : t.inner;
  const std::size_t a_inner = t.is_left_transposed ? t.rows : 1;
  const std::size_t b_inner = t.is_right_transposed ? 1 : t.columns;
  const std::size_t b_column = t.is_right_transposed ? t.inner : 1;
  constexpr std::size_t together = 8;  // rows: a sum waits for its last term, others need not
  for (std::size_t begin = 0; begin < t.rows; begin += together) {
    const std::size_t these = std::min<std::size_t>(together, t.rows - begin);
    const float* const left = a.data() + begin * a_row;
    for (std::size_t c = 0; c < t.columns; ++c) {
      const float* const right = b.data() + c * b_column;
      double sums[together] = {};
      const auto add_terms = [&](std::size_t count) {
        for (std::size_t k = 0; k < t.inner; ++k) {
          const double factor = right[k * b_inner];
          for (std::size_t r = 0; r < count; ++r) sums[r] += left[r * a_row + k * a_inner] * factor;
        }
      };
      these == together ? add_terms(together) : add_terms(these);  // a known number, mostly
      for (std::size_t r = 0; r < these; ++r)
        job.out[(begin + r) * t.columns + c] = static_cast<float>(sums[r]);
    }
  }
}

void compute(const Orthonormalize& t, const TransformJob& job) {
  // What is left of a column after projection counts as nothing below this share of it.
  constexpr double independent = 1e-6;
  std::vector<std::vector<double>> columns(t.columns, std::vector<double>(t.rows));
  for (std::size_t c = 0; c < t.columns; ++c) {
    for (std::size_t r = 0; r < t.rows; ++r) columns[c][r] = job.inputs[0][r * t.columns + c];
  }
  const auto dot = [](const std::vector<double>& x, const std::vector<double>& y) {
    return lane_sum(x.size(), [&](std::size_t i) { return x[i] * y[i]; });
  };
  for (std::size_t c = 0; c < t.columns; ++c) {
    std::vector<double>& column = columns[c];
    const double before = std::sqrt(dot(column, column));
    for (std::size_t p = 0; p < c; ++p) {
      const double share = dot(columns[p], column);
      for (std::size_t r = 0; r < t.rows; ++r) column[r] -= share * columns[p][r];
    }
    const double norm = std::sqrt(dot(column, column));
    const double factor = norm > independent * before ? 1 / norm : 0;
    for (double& v : column) v *= factor;
  }
  for (std::size_t c = 0; c < t.columns; ++c) {
    for (std::size_t r = 0; r < t.rows; ++r)
      job.out[r * t.columns + c] = static_cast<float>(columns[c][r]);
  }
}

void compute(const Rotate& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  RandomWords random(t.random);
  std::vector<double> piece;
  std::vector<std::uint32_t> words;
  for (std::size_t begin = 0; begin < v.size(); begin += piece.size()) {
    piece.resize(std::bit_floor(v.size() - begin));
    words.resize(piece.size());
    random.take(words);
    const auto sign = [&words](std::size_t i) { return (words[i] >> 31) != 0 ? -1.0 : 1.0; };
    for (std::size_t i = 0; i < piece.size(); ++i)
      piece[i] = t.is_inverse ? double{v[begin + i]} : sign(i) * v[begin + i];
    dense::kernels().codes.hadamard(piece.data(), piece.size());
    const double factor = 1 / std::sqrt(static_cast<double>(piece.size()));
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const double rotated = factor * piece[i];
      job.out[begin + i] = static_cast<float>(t.is_inverse ? sign(i) * rotated : rotated);
    }
  }
}

void compute(const PanelsToRows& t, const TransformJob& job) {
  for (std::size_t r = 0; r < t.rows; ++r) {
    for (std::size_t c = 0; c < t.columns; ++c) {
      const std::size_t at = t.is_transposed ? c * t.rows + r : r * t.columns + c;
      job.out[at] = job.inputs[0][dense::weight_index(t.rows, t.columns, r, c)];
    }
  }
}

void compute(const RowsToPanels& t, const TransformJob& job) {
  for (std::size_t r = 0; r < t.rows; ++r) {
    for (std::size_t c = 0; c < t.columns; ++c) {
      const std::size_t at = t.is_transposed ? c * t.rows + r : r * t.columns + c;
      job.out[dense::weight_index(t.rows, t.columns, r, c)] = job.inputs[0][at];
    }
  }
}

void compute(const ClipNorm& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const double norm = std::sqrt(
      lane_sum(v.size(), [v](std::size_t i) { return static_cast<double>(v[i]) * v[i]; }));
  const auto factor = static_cast<float>(norm > t.limit ? t.limit / norm : 1.0);
  for (std::size_t i = 0; i < v.size(); ++i) job.out[i] = factor * v[i];
}

void compute(const ClipDeviations& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const double squares =
      lane_sum(v.size(), [v](std::size_t i) { return static_cast<double>(v[i]) * v[i]; });
  const double sigma = std::sqrt(squares / static_cast<double>(v.size()));
  const auto limit = static_cast<float>(t.limit * sigma);
  for (std::size_t i = 0; i < v.size(); ++i) {
    job.out[i] = std::fabs(v[i]) > limit ? (v[i] < 0 ? -limit : limit) : v[i];
  }
}

void compute(const ScaleBy& t, const TransformJob& job) {
  const float factor = t.factor * job.inputs[1][0];
  for (std::size_t i = 0; i < job.out.size(); ++i) job.out[i] = factor * job.inputs[0][i];
}

void compute(const LargestMagnitude&, const TransformJob& job) {
  job.out[0] = largest_magnitude(job.inputs[0]);
}

void compute(const Larger&, const TransformJob& job) {
  const auto& [a, b, none] = job.inputs;
  for (std::size_t i = 0; i < a.size(); ++i)
    job.out[i] = a[i] < b[i] || std::isnan(b[i]) ? b[i] : a[i];
}

void compute(const AddSquare& t, const TransformJob& job) {
  const auto& [sums, g, none] = job.inputs;
  dense::kernels().add_square(sums.data(), g.data(), sums.size(), t.keep, t.share, job.out.data());
}

void compute(const DivideByRoot& t, const TransformJob& job) {
  const auto& [m, squares, none] = job.inputs;
  dense::kernels().divide_by_root(m.data(), squares.data(), m.size(), t.scale, t.spread, t.epsilon,
                                  job.out.data());
}

namespace {

/// Sums that ProjectStep needs of columns of one panel.
struct PanelSums {
  double g_w[dense::panel_columns] = {};
  double g_g[dense::panel_columns] = {};
  double w_w[dense::panel_columns] = {};
  double p_w[dense::panel_columns] = {};

  void add_row(const float* p, const float* g, const float* w, std::size_t width) {
    for (std::size_t c = 0; c < width; ++c) {
      const double g_c = g[c], w_c = w[c];
      g_w[c] += g_c * w_c;
      g_g[c] += g_c * g_c;
      w_w[c] += w_c * w_c;
      p_w[c] += p[c] * w_c;
    }
  }
  PanelSums& operator+=(const PanelSums& other) {
    for (std::size_t c = 0; c < dense::panel_columns; ++c) {
      g_w[c] += other.g_w[c];
      g_g[c] += other.g_g[c];
      w_w[c] += other.w_w[c];
      p_w[c] += other.p_w[c];
    }
    return *this;
  }
};

/// Of one column, or of the whole matrix.
struct ColumnSums {
  double g_w = 0, g_g = 0, w_w = 0, p_w = 0;

  double length(double epsilon) const { return std::sqrt(w_w) + epsilon; }
  bool are_across(const ProjectStep& t, std::size_t entries) const {
    const double lengths = (std::sqrt(g_g) + t.epsilon) * length(t.epsilon);
    return std::fabs(g_w) / lengths < t.delta / std::sqrt(static_cast<double>(entries));
  }
};

/// Calls visit(first column, width, first float) of each panel.
template <class Visit>
void for_each_panel(const ProjectStep& t, const Visit& visit) {
  for (std::size_t u = 0; u < t.columns; u += dense::panel_columns)
    visit(u, std::min<std::size_t>(dense::panel_columns, t.columns - u), u * t.rows);
}

std::vector<ColumnSums> sums_of_columns(const ProjectStep& t, const TransformJob& job) {
  const std::span<const float> step = job.inputs[0], g = job.inputs[1], w = job.inputs[2];
  std::vector<ColumnSums> columns;
  for_each_panel(t, [&](std::size_t, std::size_t width, std::size_t at) {
    std::array<PanelSums, lane_count> lanes{};
    for (std::size_t k = 0; k < t.rows; ++k, at += width)
      lanes[k % lane_count].add_row(&step[at], &g[at], &w[at], width);
    const PanelSums& sums = fold(lanes);
    for (std::size_t c = 0; c < width; ++c)
      columns.push_back({sums.g_w[c], sums.g_g[c], sums.w_w[c], sums.p_w[c]});
  });
  return columns;
}

}  // namespace

void compute(const ProjectStep& t, const TransformJob& job) {
  const std::span<const float> step = job.inputs[0], w = job.inputs[2];
  const std::vector<ColumnSums> columns = sums_of_columns(t, job);
  ColumnSums all;
  for (const ColumnSums& own : columns)
    all.g_w += own.g_w, all.g_g += own.g_g, all.w_w += own.w_w, all.p_w += own.p_w;
  const bool by_columns = std::ranges::all_of(
      columns, [&](const ColumnSums& column) { return column.are_across(t, t.rows); });
  const bool is_projected = by_columns || all.are_across(t, step.size());
  for_each_panel(t, [&](std::size_t first, std::size_t width, std::size_t at) {
    double factors[dense::panel_columns];
    for (std::size_t c = 0; c < width; ++c) {
      const ColumnSums& s = by_columns ? columns[first + c] : all;
      const double length = s.length(t.epsilon);
      factors[c] = is_projected ? t.projected_decay - s.p_w / (length * length) : t.decay;
    }
    for (std::size_t k = 0; k < t.rows; ++k, at += width) {
      for (std::size_t c = 0; c < width; ++c)
        job.out[at + c] = static_cast<float>(step[at + c] + factors[c] * w[at + c]);
    }
  });
}

void compute(const SideMeans&, const TransformJob& job) {
  const std::span<const float> g = job.inputs[0];
  const dense::SideSums sums = dense::kernels().codes.side_sums(g.data(), g.size());
  job.out[0] = mean_of(sums.upper, g.size() - sums.lower_count);
  job.out[1] = mean_of(sums.lower, sums.lower_count);
}

void compute(const ShiftSides&, const TransformJob& job) {
  const auto& [g, own, now] = job.inputs;
  const float upper = now[0] - own[0];
  const float lower = -(now[1] - own[1]);
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float shift = g[i] >= 0 ? upper : lower;  // no branch: signs are hard to foresee
    job.out[i] = g[i] + shift;
  }
}

}  // namespace starling::transforms
