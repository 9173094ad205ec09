// Crew: threads of which those without a task of their own take parts of the others' tasks.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "sim/base/backoff.hpp"
#include "sim/base/prefetch.hpp"

namespace starling {

/// Threads 0 .. threads - 1.
class Crew {
 public:
  static constexpr Backoff::Nap longest_nap{20};  // a part may be shorter

  explicit Crew(std::size_t threads)
      : threads_(threads), members_(std::make_unique<Member[]>(threads)) {
    for (std::size_t i = 0; i < threads; ++i) members_[i].threads_ = threads;
  }

  /// A thread that has a task. It cuts what is large into parts, does them one after the other, and whoever is idle does some
  /// of them meanwhile. So nobody waits for a thread that may come, and without one all runs as if there were no parts.
  class alignas(cache_line) Member {
   public:
    /// Calls part(i) once for every i < count, on any threads. Parts begin in order of i, so one may wait for those before
    /// it. When all have ended, the first exception is thrown again; after one, no other part begins.
    template <class Part>
    void split(std::size_t count, const Part& part) {
      call_ = [](const void* of, std::size_t i) { (*static_cast<const Part*>(of))(i); };
      part_ = &part;
      count_ = count;
      next_.store(0, std::memory_order_relaxed);
      is_open_.store(true);
      do_parts();
      is_open_.store(false);
      while (helpers_.load() > 0) std::this_thread::yield();  // they end what they are at
      if (has_failed_.exchange(false)) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

    std::size_t threads() const { return threads_; }
    /// Whether a part has thrown: those that wait for it may end.
    bool has_failed() const { return has_failed_.load(std::memory_order_relaxed); }

   private:
    friend class Crew;

    /// Whether there was anything to do.
    bool help() {
      if (!is_open_.load(std::memory_order_relaxed)) return false;
      // Either the split() that ends sees this helper, or the helper sees that it has ended.
      helpers_.fetch_add(1);
      const bool found = is_open_.load() && do_parts();
      helpers_.fetch_sub(1);
      return found;
    }
    bool do_parts() {
      bool any = false;
      for (std::size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;
           any = true) {
        try {
          call_(part_, i);
        } catch (...) {
          next_.store(count_, std::memory_order_relaxed);
          if (!has_failed_.exchange(true)) failure_ = std::current_exception();
        }
      }
      return any;
    }

    std::size_t threads_ = 0;  // of the crew
    void (*call_)(const void* part, std::size_t i) = nullptr;
    const void* part_ = nullptr;
    std::size_t count_ = 0;
    std::exception_ptr failure_;
    std::atomic<bool> has_failed_ = false;
    std::atomic<bool> is_open_ = false;
    std::atomic<int> helpers_ = 0;
    std::atomic<std::size_t> next_ = 0;
  };

  Member& member(std::size_t thread) { return members_[thread]; }

  /// A thread looks for tasks from now on, and until it leaves.
  void join() { ++looking_; }
  void leave() { --looking_; }
  /// Helps those that have not left, as long as goes_on().
  template <class GoesOn>
  void help_while(std::size_t thread, const GoesOn& goes_on) {
    for (Backoff backoff(longest_nap); looking_ > 0 && goes_on();) {
      if (help(thread)) {
        backoff.reset();
      } else {
        backoff.pause();
      }
    }
  }
  /// This thread does parts of another's task; helpers spread over tasks, as each looks at those behind it first. Whether
  /// there were any.
  bool help(std::size_t thread) {
    for (std::size_t i = 1; i < threads_; ++i) {
      if (members_[(thread + i) % threads_].help()) return true;
    }
    return false;
  }

 private:
  std::size_t threads_;
  std::unique_ptr<Member[]> members_;
  std::atomic<int> looking_ = 0;
};

/// Parts of one split() that do some things one after the other, in the order of the parts: sums whose order counts.
class Turns {
 public:
  Turns(const Crew::Member& member, std::size_t things)
      : member_(member), turns_(std::make_unique<Turn[]>(things)) {}

  /// Calls act() when all parts before this one have done the same thing.
  template <class Act>
  void take(std::size_t thing, std::size_t part, const Act& act) {
    std::atomic<std::size_t>& done = turns_[thing].done;
    while (done.load(std::memory_order_acquire) < part) {
      if (member_.has_failed()) throw std::runtime_error("a part that others wait for has failed");
      std::this_thread::yield();
    }
    act();
    done.store(part + 1, std::memory_order_release);
  }

 private:
  struct alignas(cache_line) Turn {
    std::atomic<std::size_t> done = 0;  // parts
  };

  const Crew::Member& member_;
  std::unique_ptr<Turn[]> turns_;
};

}  // namespace starling
