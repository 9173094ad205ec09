// Processor time spent so far, in seconds: what other work on the machine does not add to.
#pragma once

#include <time.h>

namespace starling {

inline double processor_time(clockid_t clock) {
  timespec spent{};
  clock_gettime(clock, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

/// Of the calling thread.
inline double thread_time() { return processor_time(CLOCK_THREAD_CPUTIME_ID); }
/// Of all threads of this process.
inline double process_time() { return processor_time(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace starling
