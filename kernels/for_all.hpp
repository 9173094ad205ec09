// How workloads spread requests over threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>

namespace starling {

/// Calls task(i, work) for i < count on all threads, each with its own `work`, and rethrows the
/// first exception.
template <class Work, class Task>
void for_all(std::size_t count, const Task& task) {
  std::exception_ptr failure;
  // A few indices at a time: fewer trips to the shared counter, yet no thread is left with a long
  // tail.
  const int chunk = static_cast<int>(std::clamp<std::size_t>(count / 64, 1, 8));
#pragma omp parallel for schedule(dynamic, chunk) if (count > 1)
  for (std::size_t i = 0; i < count; ++i) {
    try {
      thread_local Work work;  // lives on between calls, so that batches do not allocate
      task(i, work);
    } catch (...) {
#pragma omp critical(starling_for_all_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace starling
