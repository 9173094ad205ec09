// Backoff: how to wait for something that must be polled, as MPI must. At first the thread only
// steps aside for others, because an answer is often near; then it naps, longer and longer, so that
// many ranks can share a core and a computing thread is left in peace. It stays awake for longer than
// a nap: of two that answer each other one finds the other awake, or both would nap for ever.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace starling {

class Backoff {
 public:
  using Nap = std::chrono::microseconds;

  /// `longest`: of a nap. Short ones answer soon, long ones leave the processor to others.
  explicit Backoff(Nap longest = Nap{100}) : longest_(longest) {}

  /// Something happened: be quick again.
  void reset() {
    is_new_ = true;
    nap_ = shortest_nap;
  }
  /// How long to sleep before the next look; zero: only yield the processor.
  Nap next() {
    const auto now = Clock::now();
    if (std::exchange(is_new_, false)) since_ = now;
    if (now - since_ < 2 * longest_) return Nap{0};
    const Nap nap = nap_;
    nap_ = std::min(2 * nap_, longest_);
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
  static constexpr Nap shortest_nap{10};

  Nap longest_;
  bool is_new_ = true;         // nothing has been waited for yet
  Clock::time_point since_{};  // when that began
  Nap nap_ = shortest_nap;
};

/// Naps of this thread, and of those that it starts, end when they should: the system would add up to 50 microseconds.
inline void nap_exactly() {
#ifdef __linux__
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds
#endif
}

}  // namespace starling
