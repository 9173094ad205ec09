// Backoff: how to wait for something that must be polled, as MPI must. At first the thread only
// steps aside for others, because an answer is often near; then it naps, longer and longer, so that
// many ranks can share a core and a computing thread is left in peace. After a long wait naps grow once more,
// ten times at most, but never past a 400th of the wait. With a core of its own it stays awake for longer than
// a nap: of two that answer each other one finds the other awake, or both would nap for ever.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include <sys/prctl.h>

namespace starling {

class Backoff {
 public:
  using Nap = std::chrono::microseconds;

  /// `longest`: of a nap, unless the wait is long. Short ones answer soon, long ones leave the processor to others.
  explicit Backoff(Nap longest = Nap{100}) : longest_(longest) {}

  /// Something happened: be quick again.
  void reset() {
    polls_ = 0;
    nap_ = shortest_nap;
  }
  /// How long to sleep before the next look; zero: only yield the processor.
  Nap next(bool has_core = false) {
    if (polls_ == 0) began_ = Clock::now();
    if (polls_ < eager_polls || (has_core && Clock::now() - began_ < 2 * longest_)) {
      ++polls_;
      return Nap{0};
    }
    const Nap nap = nap_;
    const auto of_wait = std::chrono::duration_cast<Nap>(Clock::now() - began_) / 400;
    nap_ = std::min(2 * nap_, std::clamp(of_wait, longest_, 10 * longest_));
    return nap;
  }
  /// Waits that long.
  void pause() {
    const Nap nap = next();
    if (nap == Nap{0}) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(nap);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int eager_polls = 40;
  static constexpr Nap shortest_nap{10};

  Nap longest_;
  int polls_ = 0;  // without a nap
  Clock::time_point began_{};
  Nap nap_ = shortest_nap;
};

/// Naps of this thread, and of those that it starts, end when they should: the system would add up to 50 microseconds.
inline void nap_exactly() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds
}

}  // namespace starling
