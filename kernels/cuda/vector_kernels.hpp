// The verbs of vectors on many rows at once: linear combinations and distances.
#pragma once

#include "kernels/cuda/block.hpp"
#include "kernels/cuda/lanes.hpp"
#include "kernels/cuda/linear_task.hpp"

namespace starling::cuda {

/// out[i] = fma(f_t, v_t[i], .. f_0 * v_0[i]), or the bits of v_0 if that is all and f_0 is one. Block b does columns
/// (b / jobs) * tile .. of job b mod jobs: jobs that read the same row (neighbors' models) meet in the second-level
/// cache. Each thread has 4 quads of floats in flight.
struct LinearKernel {
  static constexpr unsigned threads = 256;
  static constexpr unsigned quads = 4;
  static constexpr std::uint32_t tile = threads * quads * 4;
  struct Arguments {
    const LinearTask* tasks;
    const TermOnDevice* terms;
    std::uint32_t task_count;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const LinearTask task = a.tasks[block.index % a.task_count];
    const std::uint32_t begin = block.index / a.task_count * tile;
    if (begin >= task.length) return;
    const TermOnDevice* terms = a.terms + task.first_term;
    const std::uint32_t end = lesser(task.length - begin, tile) + begin;
    const std::uint32_t quads_end = task.is_aligned != 0 ? end / 4 * 4 : begin;
    if (task.terms == 1 && terms[0].factor == 1.0F)
      return copy(block, task, terms[0].values, begin, quads_end, end);
    block.each([&](unsigned thread) {
      combine_quads(task, terms, begin + 4 * thread, quads_end);
      for (std::uint32_t i = quads_end + thread; i < end; i += threads) {
        float sum;
        begin_sum(task.terms, sum);
        for (std::uint32_t t = 0; t < task.terms; ++t)
          add_term(sum, terms[t].factor, terms[t].values[i]);
        task.out[i] = sum;
      }
    });
  }

 private:
  /// Loads and stores alone, which keep bits that arithmetic would not: a product with one quiets NaNs.
  STARLING_DEVICE static void copy(const Block& block, const LinearTask& task, const float* from,
                                   std::uint32_t begin, std::uint32_t quads_end,
                                   std::uint32_t end) {
    block.each([&](unsigned thread) {
      Quad values[quads];
      load_quads(values, from, begin + 4 * thread, quads_end);
      store_quads(values, task.out, begin + 4 * thread, quads_end);
      for (std::uint32_t i = quads_end + thread; i < end; i += threads) task.out[i] = from[i];
    });
  }

  /// The thread's quads: floats first, first + 4 * threads, .. below `end`.
  STARLING_DEVICE static void combine_quads(const LinearTask& task, const TermOnDevice* terms,
                                            std::uint32_t first, std::uint32_t end) {
    Quad sums[quads];
    STARLING_UNROLL
    for (unsigned q = 0; q < quads; ++q) begin_sum(task.terms, sums[q]);
    for (std::uint32_t t = 0; t < task.terms; ++t) {
      const float factor = terms[t].factor;
      Quad values[quads];
      load_quads(values, terms[t].values, first, end);
      STARLING_UNROLL
      for (unsigned q = 0; q < quads; ++q) {
        if (first + 4 * threads * q < end) add_term(sums[q], factor, values[q]);
      }
    }
    store_quads(sums, task.out, first, end);
  }

  STARLING_DEVICE static void load_quads(Quad* values, const float* from, std::uint32_t first,
                                         std::uint32_t end) {
    STARLING_UNROLL
    for (unsigned q = 0; q < quads; ++q) {
      const std::uint32_t i = first + 4 * threads * q;
      values[q] = i < end ? *reinterpret_cast<const Quad*>(from + i) : Quad{};
    }
  }

  STARLING_DEVICE static void store_quads(const Quad* values, float* out, std::uint32_t first,
                                          std::uint32_t end) {
    STARLING_UNROLL
    for (unsigned q = 0; q < quads; ++q) {
      const std::uint32_t i = first + 4 * threads * q;
      if (i < end) *reinterpret_cast<Quad*>(out + i) = values[q];
    }
  }
};

struct DistanceTask {
  const float* a;
  const float* b;
  std::uint32_t length;
  std::uint32_t unused;
};

/// sum_i (a_i - b_i)^2 of task `block`, in the lanes of dense::Kernels::squared_distance.
struct DistanceKernel {
  static constexpr unsigned threads = lane_threads;
  static constexpr unsigned resident = 8;
  static constexpr std::uint32_t shared_bytes = lane_shared_bytes;
  struct Arguments {
    const DistanceTask* tasks;
    double* results;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const DistanceTask task = a.tasks[block.index];
    lane_sums<1>(block, task.length, Differences{task},
                 [](double sum, double d, unsigned) { return fma(d, d, sum); });
    block.each([&](unsigned thread) {
      if (thread == 0) a.results[block.index] = lane_result(block);
    });
  }

 private:
  struct Differences {
    using Entry = double;
    struct Fetched {
      Quad a, b;
    };
    DistanceTask task;

    STARLING_DEVICE Fetched fetch(std::uint32_t i) const {
      return {quad_at(task.a, i, task.length), quad_at(task.b, i, task.length)};
    }
    STARLING_DEVICE void put(unsigned, std::uint32_t, const Fetched& from, double* to) const {
      to[0] = double{from.a.x} - double{from.b.x};
      to[1] = double{from.a.y} - double{from.b.y};
      to[2] = double{from.a.z} - double{from.b.z};
      to[3] = double{from.a.w} - double{from.b.w};
    }
    STARLING_DEVICE void finish(unsigned, std::uint32_t) const {}
  };
};

}  // namespace starling::cuda
