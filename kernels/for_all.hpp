// How workloads spread requests over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>

#include <omp.h>

namespace starling {

/// Calls task(i, work) for i < count on all threads, each with its own `work`, and rethrows the first exception.
/// Indices begin in their order, so a task may wait for what an earlier one does. While somebody_else(), asked now and
/// then, says that another thread of this process is busy, and there are as many threads as processors, one of them
/// stands back: taken off its processor, it would keep everybody waiting for what it has begun.
template <class Work, class Task, class Question>
void for_all(std::size_t count, const Task& task, const Question& somebody_else) {
  // A few indices at a time: fewer trips to the shared counter, yet no thread is left with a long
  // tail.
  const std::size_t chunk = std::clamp<std::size_t>(count / 64, 1, 8);
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  const auto take_chunk = [&] {
    thread_local Work work;  // lives on between calls, so that batches do not allocate
    const std::size_t first = next.fetch_add(chunk);
    for (std::size_t i = first; i < std::min(first + chunk, count); ++i) {
      try {
        task(i, work);
      } catch (...) {
#pragma omp critical(starling_for_all_failure)
        if (!failure) failure = std::current_exception();
      }
    }
  };
  const auto is_left = [&] { return next.load(std::memory_order_relaxed) < count; };

  const int threads = count > 1 ? omp_get_max_threads() : 1;
  if (threads > 1 && threads >= omp_get_num_procs() && somebody_else()) {
#pragma omp parallel if (threads > 2)
    {
      const bool stands_back = omp_get_thread_num() == threads - 1;
      while (!stands_back && is_left() && somebody_else()) take_chunk();
    }
  }
  if (is_left()) {
#pragma omp parallel if (threads > 1)
    while (is_left()) take_chunk();
  }
  if (failure) std::rethrow_exception(failure);
}

template <class Work, class Task>
void for_all(std::size_t count, const Task& task) {
  for_all<Work>(count, task, [] { return false; });
}

}  // namespace starling
