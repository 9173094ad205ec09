// Threads that compute, beside the one that owns the timeline or MPI.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <omp.h>

#include "sim/base/backoff.hpp"
#include "sim/base/error.hpp"

namespace starling {

/// Starts a thread that calls work(). Its OpenMP teams are as large as the caller's, which OpenMP would forget, and its naps
/// are exact. Throws Error if there can be none, for want of memory or by a limit on processes.
template <class Work>
std::thread start_worker(Work work) {
  try {
    return std::thread([threads = omp_get_max_threads(), work = std::move(work)] {
      omp_set_num_threads(threads);
      nap_exactly();
      work();
    });
  } catch (const std::system_error& error) {
    throw Error(fmt::format("cannot start a thread: {}", error.code().message()));
  }
}

}  // namespace starling
