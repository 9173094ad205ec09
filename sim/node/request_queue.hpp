// RequestQueue: hands the requests of a batch out to threads, where one request may have to wait for another.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "sim/base/backoff.hpp"
#include "sim/base/prefetch.hpp"

namespace starling {

/// Requests 0, 1, .. lie in strips, one behind the other. A thread takes a strip and its requests in order as long as they
/// can begin, then leaves it to whoever comes, and looks for another one. All begin in the end if they can be counted so that
/// each has a higher number than those before it in its strip and those that it waits for.
class RequestQueue {
 public:
  /// Where a thread is: the strip that it has, or where it looks for one.
  struct Lane {
    std::size_t strip = 0;
    bool has_it = false;
    /// What the thread does while it waits: something short. Whether there was anything to do.
    std::function<bool()> meanwhile{};
  };

  /// How long strips are best if no request waits for another: short, so that all threads end together, but few.
  static constexpr std::size_t short_strip(std::size_t requests) {
    return std::clamp<std::size_t>(requests / 64, 1, 8);
  }

  /// Begins anew, with strips that end before these requests.
  void reset(std::span<const std::size_t> ends);

  // --- By any thread, with a lane of its own since reset() -------------------------------------------------------

  /// The next request of a strip for which begin(request) was true; waits while there is none. Nothing if all have begun, or
  /// after stop(). begin() is asked for a request by one thread at a time, until it is true.
  template <class Begin>
  std::optional<std::size_t> take(Lane& lane, const Begin& begin) {
    for (Backoff backoff(longest_nap);;) {
      for (std::size_t looks = count_ + lane.has_it; looks > 0; --looks) {
        if (is_stopped_.load(std::memory_order_relaxed)) return {};
        Strip& strip = strips_[lane.strip];
        if (has(lane, strip)) {
          const std::size_t request = strip.next.load(std::memory_order_relaxed);
          if (request < strip.end && begin(request)) {
            strip.next.store(request + 1, std::memory_order_relaxed);
            return request;
          }
        }
        leave(lane);
        lane.strip = lane.strip + 1 < count_ ? lane.strip + 1 : 0;
      }
      if (!is_left()) return {};
      if (lane.meanwhile && lane.meanwhile()) {
        backoff.reset();
      } else {
        backoff.pause();
      }
    }
  }
  /// The thread begins nothing more for now.
  void leave(Lane& lane) {
    if (!lane.has_it) return;
    lane.has_it = false;
    strips_[lane.strip].is_taken.store(false, std::memory_order_release);
  }
  /// Nothing begins any more.
  void stop() { is_stopped_.store(true, std::memory_order_relaxed); }

 private:
  static constexpr Backoff::Nap longest_nap{20};  // a request may be shorter

  struct alignas(cache_line) Strip {
    std::atomic<bool> is_taken = false;
    std::atomic<std::size_t> next = 0;  // set by the thread that has the strip
    std::size_t end = 0;

    bool is_left() const { return next.load(std::memory_order_relaxed) < end; }
  };

  /// Takes the strip if nobody has it.
  static bool has(Lane& lane, Strip& strip) {
    if (!lane.has_it && strip.is_left() && !strip.is_taken.load(std::memory_order_relaxed)) {
      lane.has_it = !strip.is_taken.exchange(true, std::memory_order_acquire);
    }
    return lane.has_it;
  }
  bool is_left() const {
    return std::any_of(strips_.get(), strips_.get() + count_,
                       [](const Strip& strip) { return strip.is_left(); });
  }

  std::unique_ptr<Strip[]> strips_;
  std::size_t count_ = 0, capacity_ = 0;  // of strips
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace starling
