// Patience: how to wait for something that must be polled, as MPI must. At first the thread only
// steps aside for others, because an answer is often near; then it naps, longer and longer, so that
// many ranks can share a core and a computing thread is left in peace.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace starling {

class Patience {
 public:
  using Nap = std::chrono::microseconds;

  /// Something happened: be quick again.
  void reset() {
    polls_ = 0;
    nap_ = shortest_nap;
  }
  /// How long to sleep before the next look; zero: only yield the processor.
  Nap next() {
    if (polls_ < eager_polls) {
      ++polls_;
      return Nap{0};
    }
    const Nap nap = nap_;
    nap_ = std::min(2 * nap_, longest_nap);
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
  static constexpr int eager_polls = 40;
  static constexpr Nap shortest_nap{10};
  static constexpr Nap longest_nap{100};

  int polls_ = 0;
  Nap nap_ = shortest_nap;
};

}  // namespace starling
