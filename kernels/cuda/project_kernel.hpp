// Sums of the columns of weight matrices, by many blocks a matrix, and what ProjectStep makes of them: a factor for each column,
// with which MapKernel goes over the matrix. The order of sums is that of kernels/transform_algebra.cpp.
#pragma once

#include "kernels/cuda/lanes.hpp"
#include "kernels/cuda/panels.hpp"
#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

/// Transform ProjectStep: a rows, b columns; f: delta, epsilon, decay, projected_decay. Row u of scratch has the sums of
/// column u, then the factor of its weights; the last row has the sums of all. One launch for each stage, in their order.
struct ProjectKernel {
  static constexpr unsigned threads = 256;
  /// Columns of a block, in the first stage. A thread adds up one lane of one column, those beside it that of the columns
  /// beside it.
  static constexpr std::uint32_t together = threads / lane_count;
  enum Stage : std::uint32_t { add_up, decide, stages };
  struct Arguments : SharedTasks {
    std::uint32_t stage;
  };
  /// Of a column, or of the whole matrix.
  enum Sum : std::uint32_t { g_w, g_g, w_w, p_w, sums };
  static constexpr std::uint32_t shared_bytes = together * sums * lane_count * sizeof(double);

  /// Blocks of a stage for a matrix, of which the first one has so many.
  static constexpr std::uint32_t shares_of(std::uint32_t stage, std::uint32_t groups) {
    return stage == add_up ? groups : 1;
  }
  static constexpr std::uint32_t groups_of(std::uint32_t columns) {
    return (columns + together - 1) / together;
  }
  /// Scratch memory of a matrix.
  static constexpr std::size_t doubles_of(std::uint32_t columns) {
    return sums * (std::size_t{columns} + 1);
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& t = a.task_of(block);
    if (a.stage == decide) return find_factors(block, t);
    const std::uint32_t first = a.share_of(block) * together;
    if (first < t.b) add_up_columns(block, t, first);
  }

 private:
  STARLING_DEVICE static void add_up_columns(const Block& block, const TransformTask& t,
                                             std::uint32_t first) {
    double* lanes = reinterpret_cast<double*>(block.shared_memory);  // (together, sums, lane_count)
    const std::uint32_t here = lesser(together, t.b - first);
    block.each([&](unsigned thread) {
      const std::uint32_t u = thread % together, lane = thread / together;
      if (u >= here) return;
      const Column column = column_of(t.a, t.b, first + u);
      double own[sums] = {};
      STARLING_UNROLL_BY(4)
      for (std::uint32_t k = lane; k < t.a; k += lane_count) {
        const std::uint64_t i = column.first + std::uint64_t{k} * column.stride;
        const double p = t.in[0][i], g = t.in[1][i], w = t.in[2][i];
        own[g_w] += g * w;
        own[g_g] += g * g;
        own[w_w] += w * w;
        own[p_w] += p * w;
      }
      STARLING_UNROLL
      for (unsigned s = 0; s < sums; ++s) lanes[(sums * u + s) * lane_count + lane] = own[s];
    });
    block.each([&](unsigned thread) {
      if (thread < sums * here)
        t.scratch[std::uint64_t{sums} * first + thread] = fold_lanes(lanes + thread * lane_count);
    });
  }

  STARLING_DEVICE static void find_factors(const Block& block, const TransformTask& t) {
    const std::uint32_t rows = t.a, columns = t.b;
    const double* all = t.scratch + std::uint64_t{sums} * columns;
    auto* others = reinterpret_cast<std::uint32_t*>(block.shared_memory);  // columns not across
    block.each([&](unsigned thread) {
      if (thread == sums) *others = 0;
      if (thread >= sums) return;
      double sum = 0;
      STARLING_UNROLL_BY(16)
      for (std::uint64_t u = 0; u < columns; ++u) sum += t.scratch[sums * u + thread];
      t.scratch[std::uint64_t{sums} * columns + thread] = sum;
    });
    block.each([&](unsigned thread) {
      std::uint32_t own = 0;
      for (std::uint64_t u = thread; u < columns; u += threads)
        own += are_across(t, t.scratch + sums * u, rows) ? 0 : 1;
      add_atomically(*others, own);
    });
    const bool by_columns = *others == 0;
    const bool is_projected = by_columns || are_across(t, all, static_cast<double>(t.out_size));
    block.each([&](unsigned thread) {
      for (std::uint64_t u = thread; u < columns; u += threads) {
        double* own = t.scratch + sums * u;
        const double* s = by_columns ? own : all;
        const double length = sqrt(s[w_w]) + t.f[1];
        *own = is_projected ? t.f[3] - s[p_w] / (length * length) : t.f[2];
      }
    });
  }

  STARLING_DEVICE static bool are_across(const TransformTask& t, const double* s, double entries) {
    const double lengths = (sqrt(s[g_g]) + t.f[1]) * (sqrt(s[w_w]) + t.f[1]);
    return fabs(s[g_w]) / lengths < t.f[0] / sqrt(entries);
  }
};

}  // namespace starling::cuda
