// Calendar: the future events of a simulation, popped by (time, insertion). A ladder queue: O(1)
// amortized per event, whatever the spread of times, in exactly the order of a plain heap (tests
// compare both).
//
//   now ... | run (sorted) | rung n (fine) | ... | rung 0 (coarse) | top (unsorted) ... infinity
//
// Events far ahead lie unsorted in `top`. When everything before has been popped, `top` is spread
// over the buckets of a rung; a bucket that is still too full when its turn comes is spread over a
// finer rung; a small one is sorted into `run` and popped from there. Widths of buckets are powers
// of two, so finding one is a shift.
//
// Tang, Goh, Thng, "Ladder queue: an O(1) priority queue structure for large-scale discrete event
// simulation", ACM TOMACS 15(3), 2005. Ours differs: what is pushed into the range of the run moves
// those before it into places of popped ones, buckets keep their events in pooled blocks, and a rung fits the
// times really present, so ties never need sorting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/base/time.hpp"

namespace starling {

/// Something that happens at `time`; what it is, only whoever pushed `payload` knows.
struct Event {
  Time time;
  std::uint64_t payload;
};

class Calendar {
 public:
  /// Adds an event. Its time must not be before that of the last event popped (nor before zero):
  /// that is a fault of the program and ends in ensure(). Allocates only when the calendar outgrows
  /// its record size.
  void push(Time time, std::uint64_t payload) {
    if (time < now_) [[unlikely]]
      fail_in_past(time);
    ++size_;
    if (time > top_limit_) {
      top_min_ = std::min(top_min_, time);
      top_max_ = std::max(top_max_, time);
      top_.emplace_back(time, payload);
      return;
    }
    for (std::size_t r = 0; r < depth_; ++r) {
      Rung& rung = rungs_[r];
      if (time >= rung.next_start) {
        append(rung.buckets[rung.index(time)], {time, payload});
        return;
      }
    }
    push_into_run({time, payload});
  }

  /// Removes and returns the first event by (time, insertion). The calendar must not be empty.
  Event pop() {
    if (empty()) [[unlikely]]
      fail_empty();
    prepare();
    const Event event = run_[run_head_++];
    now_ = event.time;
    --size_;
    return event;
  }

  /// Time of the event that pop() would return. The calendar must not be empty.
  Time top_time() {
    prepare();
    return run_[run_head_].time;
  }

  /// The event that pop() will return after `pops` others, if that is known already and nothing is pushed in
  /// between; else null. For prefetching.
  const Event* ahead(std::size_t pops) const {
    return run_head_ + pops < run_.size() ? &run_[run_head_ + pops] : nullptr;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint32_t events_per_block = 8;
  static constexpr std::uint32_t no_block = std::numeric_limits<std::uint32_t>::max();

  struct Block {
    Event events[events_per_block];
    std::uint32_t next;
  };

  // Events of equal time stand in the order in which they were pushed, so sorting by time alone, stably, is
  // enough.
  struct Bucket {
    std::uint32_t first = no_block;
    std::uint32_t last = no_block;
    std::uint32_t count = 0;
  };

  struct Rung {
    Time start;          // of bucket 0
    Time next_start;     // of bucket `next`: earlier events belong to a finer rung or to the run
    int shift;           // a bucket is 2^shift ps wide; the last one takes all that lies beyond
    std::uint32_t next;  // first bucket not yet taken
    std::uint32_t count;
    std::vector<Bucket> buckets;  // (at least count)

    std::uint32_t index(Time time) const {
      const auto offset = static_cast<std::uint64_t>((time - start).count()) >> shift;
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(offset, count - 1));
    }
  };

  /// Events in the run.
  std::size_t left() const { return run_.size() - run_head_; }
  void prepare() {
    if (left() <= margin_ && (depth_ > 0 || !top_.empty())) refill();
  }

  // Events are passed by value, in registers: one that was put together in memory would be waited for when it is copied.
  void append(Bucket& bucket, Event event) {
    const std::uint32_t slot = bucket.count++ % events_per_block;
    if (slot == 0) add_block(bucket);
    blocks_[bucket.last].events[slot] = event;
  }

  void add_block(Bucket& bucket);
  void push_into_run(Event event);
  void drop_popped(std::size_t kept);
  void spread_run();
  void refill();
  void take_bucket(Bucket bucket);
  void order_run_from(std::size_t first, Time earliest, Time latest);
  void add_rung(std::span<const Event> events, Time earliest, Time latest);
  [[noreturn]] void fail_in_past(Time time) const;
  [[noreturn]] static void fail_empty();

  std::vector<Event> run_;  // sorted; [run_head_, end) is still to come
  std::size_t run_head_ = 0;
  std::size_t margin_ = 0;  // the run is extended when so few are left in it
  std::size_t shifts_ = 0;  // of events in the run since it was extended, by pushes that moved many
  std::vector<Rung> rungs_;  // [0, depth_) in use, each finer and earlier than the one before
  std::size_t depth_ = 0;
  std::vector<Event> top_;  // all later than top_limit_, in order of pushing
  Time top_limit_ = Time{Duration{-1}};
  Time top_min_ = Time::max();
  Time top_max_ = Time::min();

  std::vector<Block> blocks_;
  std::uint32_t free_block_ = no_block;
  std::size_t size_ = 0;
  Time now_{};  // time of the last event popped
};

}  // namespace starling
