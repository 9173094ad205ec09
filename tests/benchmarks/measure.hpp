// How the benchmarks measure on a machine that others use, too: work is cut into slices that are shorter than the
// scheduler's, each is repeated, and the best time of each counts. Beside it stand the machine's own limits.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include <omp.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/dense/dense.hpp"

namespace starling::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds that `items` take on all threads: task(first, last) runs slices of them, again and again for `budget`
/// seconds; `between` runs after each round. Counts are the best time of each slice, and the slowest thread.
template <class Task, class Between>
double best_seconds(double budget, std::size_t items, std::size_t slice, const Task& task,
                    const Between& between) {
  const std::size_t slices = (items + slice - 1) / slice;
  std::vector<double> best(slices, std::numeric_limits<double>::infinity());
  std::vector<double> of_thread(static_cast<std::size_t>(omp_get_max_threads()));
  const auto begin = Clock::now();
  for (int round = 0; round < 4 || seconds_since(begin) < budget; ++round) {
#pragma omp parallel for schedule(static)
    for (std::size_t s = 0; s < slices; ++s) {
      const auto start = Clock::now();
      task(s * slice, std::min(items, (s + 1) * slice));
      if (round > 0) best[s] = std::min(best[s], seconds_since(start));
    }
    between();
  }
#pragma omp parallel for schedule(static)
  for (std::size_t s = 0; s < slices; ++s) {
    of_thread[static_cast<std::size_t>(omp_get_thread_num())] += best[s];
  }
  return *std::max_element(of_thread.begin(), of_thread.end());
}

#if defined(__x86_64__)

constexpr int fma_repeats = 1 << 12, fma_chains = 12;

__attribute__((target("avx512f"))) inline void fma_chains_of_16() {
  __m512 sum[fma_chains];
#pragma GCC unroll 12
  for (int c = 0; c < fma_chains; ++c) sum[c] = _mm512_set1_ps(static_cast<float>(c));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int i = 0; i < fma_repeats; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < fma_chains; ++c) {
      asm volatile("vfmadd213ps %2, %1, %0" : "+v"(sum[c]) : "v"(a), "v"(b));
    }
  }
}

__attribute__((target("avx2,fma"))) inline void fma_chains_of_8() {
  __m256 sum[fma_chains];
#pragma GCC unroll 12
  for (int c = 0; c < fma_chains; ++c) sum[c] = _mm256_set1_ps(static_cast<float>(c));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int i = 0; i < fma_repeats; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < fma_chains; ++c) {
      asm volatile("vfmadd213ps %2, %1, %0" : "+x"(sum[c]) : "x"(a), "x"(b));
    }
  }
}

/// Floating-point operations per second of independent fused multiply-adds in registers, with vectors as wide as the
/// kernels in use; 0 if those are the plain ones.
inline double peak_flops(double budget) {
  const char isa = dense::kernels().name[1];
  if (isa == '1') return 0;
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const double seconds = best_seconds(
      budget, threads, 1,
      [isa](std::size_t, std::size_t) { isa == '4' ? fma_chains_of_16() : fma_chains_of_8(); },
      [] {});
  return 2.0 * (isa == '4' ? 16 : 8) * fma_chains * fma_repeats * static_cast<double>(threads) /
         seconds;
}

#else

inline double peak_flops(double) { return 0; }  // not measured

#endif

/// Bytes read and written per second: the best of a copy, a copy past the cache and an update in place, of `floats` floats,
/// far more than the caches hold.
inline double stream_bandwidth(double budget, std::size_t floats = std::size_t{1} << 26) {
  constexpr std::size_t slice = std::size_t{1} << 15;
  std::vector<float> memory(2 * floats, 1.0F);
  float* a = memory.data();
  float* b = a + floats;
  const auto& kernels = dense::kernels();
  double copy = std::numeric_limits<double>::infinity();
  for (const bool is_far : {false, true}) {
    const double seconds = best_seconds(
        budget / 3, floats, slice,
        [&](std::size_t first, std::size_t last) {
          const LinearTerm term{a, 1.0F};
          kernels.linear(b, &term, 1, first, last, is_far);
        },
        [] {});
    copy = std::min(copy, seconds);
  }
  const double update = best_seconds(
      budget / 3, 2 * floats, slice,
      [&](std::size_t first, std::size_t last) {
        const LinearTerm term{a, 1.0F};
        kernels.linear(a, &term, 1, first, last, false);
      },
      [] {});
  const double bytes = 2.0 * sizeof(float) * static_cast<double>(floats);
  return std::max(bytes / copy, 2 * bytes / update);
}

}  // namespace starling::bench
