// Threads that compute, beside the one that owns the timeline or MPI.
#pragma once

#include <thread>
#include <utility>

#include <omp.h>

#include "sim/base/backoff.hpp"

namespace starling {

/// Starts a thread that calls work(). Its OpenMP teams are as large as the caller's, which OpenMP would forget, and its naps
/// are exact.
template <class Work>
std::thread start_worker(Work work) {
  return std::thread([threads = omp_get_max_threads(), work = std::move(work)] {
    omp_set_num_threads(threads);
    nap_exactly();
    work();
  });
}

}  // namespace starling
