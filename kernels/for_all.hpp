// How workloads spread requests over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>

#include <omp.h>

#include "sim/node/workload.hpp"

namespace starling {

/// Calls task(i, work) for i < count on all threads, each with its own `work`, and rethrows the first exception.
template <class Work, class Task>
void for_all(std::size_t count, const Task& task) {
  // A few indices at a time: fewer trips to the shared counter, yet no thread is left with a long
  // tail.
  const std::size_t chunk = std::clamp<std::size_t>(count / 64, 1, 8);
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  const int threads = count > 1 ? omp_get_max_threads() : 1;
#pragma omp parallel if (threads > 1)
  {
    thread_local Work work;  // lives on between calls, so that batches do not allocate
    for (std::size_t first; (first = next.fetch_add(chunk)) < count;) {
      for (std::size_t i = first; i < std::min(first + chunk, count); ++i) {
        try {
          task(i, work);
        } catch (...) {
#pragma omp critical(starling_for_all_failure)
          if (!failure) failure = std::current_exception();
        }
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Calls task(request, work) for all of the `count` requests that `owner` hands out, on all threads, each with its own
/// `work`, and rethrows the first exception, after which no other task begins. If there are as many threads as processors,
/// one of them stands back while the owner records on another thread: else the system would take a thread off its
/// processor in the middle of a task, and all who read its result would wait.
template <class Work, class Task>
void for_all_of(RowOwner& owner, std::size_t count, const Task& task) {
  std::exception_ptr failure;
  const auto work_while = [&](const auto& goes_on) {
    thread_local Work work;
    RequestQueue::Lane lane;
    while (goes_on()) {
      try {
        GradientRequest* const request = owner.begin(lane);
        if (request == nullptr) break;
        task(*request, work);
        owner.end(*request);
      } catch (...) {
        owner.fail();
#pragma omp critical(starling_for_all_failure)
        if (!failure) failure = std::current_exception();
      }
    }
    owner.leave(lane);
  };
  const int threads = count > 1 ? omp_get_max_threads() : 1;
  if (threads > 1 && threads >= omp_get_num_procs() && owner.is_recording()) {
#pragma omp parallel if (threads > 2)
    if (omp_get_thread_num() < threads - 1) work_while([&] { return owner.is_recording(); });
  }
#pragma omp parallel if (threads > 1)
  work_while([] { return true; });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace starling
