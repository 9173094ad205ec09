#include "kernels/cpu_backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/core.h>
#include <omp.h>
#include <sys/mman.h>

#include "kernels/cache.hpp"
#include "kernels/first_failure.hpp"
#include "kernels/transforms.hpp"
#include "kernels/worth_threads.hpp"
#include "sim/base/error.hpp"
#include "sim/base/prefetch.hpp"

namespace starling {
namespace {

constexpr double mebibyte = 1 << 20;
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Floats that a thread touches before it asks for more.
constexpr std::size_t floats_per_chunk = std::size_t{1} << 15;

/// Whether several jobs, or pieces of them, which touch so many floats, are worth waking other threads.
bool are_shared(std::size_t jobs, std::size_t floats) {
  return jobs > 1 && is_worth_threads(static_cast<double>(floats) / floats_per_second);
}

std::size_t alignment_of(std::size_t bytes) { return bytes >= huge_page ? huge_page : cache_line; }

/// Bytes of a block of `count` floats, a multiple of its alignment; 0 if no address space holds
/// that many.
std::size_t block_bytes(std::size_t count) {
  constexpr std::size_t address_space = std::size_t{1} << 47;
  if (count > address_space / sizeof(float)) return 0;
  const std::size_t bytes = std::max(count * sizeof(float), cache_line);
  const std::size_t alignment = alignment_of(bytes);
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Columns that one piece of work covers. Jobs of one call often read the same rows (the neighbors'
/// models), so pieces go by columns first: when the same columns of all jobs fit in the cache, a
/// row is fetched once, not once a reader. Jobs of uneven lengths are cut coarsely, since pieces
/// past the end of a job are empty.
std::size_t columns_of_a_piece(std::size_t jobs, std::size_t longest, std::size_t total,
                               bool are_rows_shared) {
  constexpr std::size_t cached_floats = std::size_t{1} << 18;  // 1 MiB
  constexpr std::size_t smallest = 256, largest = std::size_t{1} << 14;
  if (total == jobs * longest) {
    if (!are_rows_shared) return largest;
    return std::clamp(cached_floats / jobs / 64 * 64, smallest, largest);
  }
  const std::size_t cuts = std::max<std::size_t>(1, 4096 / jobs);
  return std::max(largest, (longest + cuts - 1) / cuts);
}

/// Calls task(job) for all jobs, which may run out of memory.
template <class Job, class Task>
void for_each(std::span<const Job> jobs, bool are_shared, const Task& task) {
  FirstFailure failure;
#pragma omp parallel for schedule(dynamic) if (are_shared)
  for (const Job& job : jobs) {
    try {
      task(job);
    } catch (...) {
      failure.note();
    }
  }
  failure.rethrow();
}

}  // namespace

float* CpuBackend::allocate(std::size_t count) {
  const std::size_t bytes = block_bytes(count);
  void* block = bytes == 0 ? nullptr : std::aligned_alloc(alignment_of(bytes), bytes);
  if (block == nullptr) {
    throw Error(fmt::format(
        "out of memory: asked for {} floats * 4 B = {:.1f} MiB more for vectors, with {} bytes in "
        "use",
        count, static_cast<double>(count) * 4 / mebibyte, bytes_in_use_.load()));
  }
  if (bytes >= huge_page) {
    madvise(block, bytes, MADV_HUGEPAGE);  // advice only; failure changes nothing
  }
  bytes_in_use_ += bytes;
  return static_cast<float*>(block);
}

void CpuBackend::release(float* values, std::size_t count) noexcept {
  if (values == nullptr) return;
  bytes_in_use_ -= block_bytes(count);
  std::free(values);
}

void CpuBackend::linear(std::span<const LinearJob> jobs, std::span<const LinearTerm> terms) {
  if (jobs.empty()) return;
  std::size_t longest = 0, total = 0, touched = 0, used_terms = 0;
  for (const LinearJob& job : jobs) {
    longest = std::max<std::size_t>(longest, job.length);
    total += job.length;
    touched += std::size_t{job.length} * (job.terms + 1);
    used_terms += job.terms;
  }
  const bool are_rows_shared = total == jobs.size() * longest && used_terms > 2 * jobs.size();
  const std::size_t columns = columns_of_a_piece(jobs.size(), longest, total, are_rows_shared);
  const std::size_t pieces = jobs.size() * ((longest + columns - 1) / columns);
  const std::size_t floats_per_piece = touched / std::max<std::size_t>(1, pieces) + 1;
  std::size_t chunk = std::clamp<std::size_t>(floats_per_chunk / floats_per_piece, 1, 256);
  if (are_rows_shared) {
    // One thread has the same columns of all jobs, if that leaves enough to the others: two that share columns would fetch
    // nearly every row each.
    const std::size_t chunks = 4 * static_cast<std::size_t>(omp_get_max_threads());
    chunk = std::max(chunk, std::min(jobs.size(), pieces / chunks));
  }
  // Results that will have left the cache when they are read go past it: else their old content would be read first.
  const bool is_far = 2 * total * sizeof(float) > last_level_cache();
#pragma omp parallel if (are_shared(pieces, touched))
  {
#pragma omp for schedule(dynamic, chunk) nowait
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const LinearJob& job = jobs[piece % jobs.size()];
      const std::size_t begin = piece / jobs.size() * columns;
      if (begin >= job.length) continue;
      kernels_.linear(job.out, terms.data() + job.first_term, job.terms, begin,
                      std::min<std::size_t>(begin + columns, job.length), is_far);
    }
    if (is_far) std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

void CpuBackend::squared_distances(std::span<const DistanceJob> jobs) {
  std::size_t touched = 0;
  for (const DistanceJob& job : jobs) touched += 2 * std::size_t{job.length};
#pragma omp parallel for schedule(dynamic, 4) if (are_shared(jobs.size(), touched))
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    *jobs[j].out = kernels_.squared_distance(jobs[j].a, jobs[j].b, jobs[j].length);
  }
}

void CpuBackend::transform(std::span<const TransformJob> jobs) {
  std::size_t touched = 0;
  for (const TransformJob& job : jobs) touched += job.inputs[0].size() + job.out.size();
  for_each(jobs, are_shared(jobs.size(), touched), [](const TransformJob& job) {
    std::visit([&job](const auto& t) { transforms::compute(t, job); }, *job.transform);
  });
}

void CpuBackend::measure(std::span<const MeasureJob> jobs) {
  std::size_t touched = 0;
  for (const MeasureJob& job : jobs) touched += job.inputs[0].size();
  for_each(jobs, are_shared(jobs.size(), touched), [](const MeasureJob& job) {
    *job.out =
        std::visit([&job](const auto& m) { return transforms::value(m, job); }, *job.measure);
  });
}

void CpuBackend::write(float* values, std::span<const float> from) {
  if (!from.empty()) std::memcpy(values, from.data(), from.size_bytes());
}

void CpuBackend::read(std::span<float> to, const float* values) {
  if (!to.empty()) std::memcpy(to.data(), values, to.size_bytes());
}

}  // namespace starling
