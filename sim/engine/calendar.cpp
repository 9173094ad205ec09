// The colder half of the ladder queue: building rungs, taking buckets, pushing into the run. See
// calendar.hpp.

#include "sim/engine/calendar.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/prefetch.hpp"

namespace starling {

namespace {

// A bucket with more events than this is spread again before it is sorted (insertion sort is
// quadratic).
constexpr std::size_t sort_limit = 32;
// A rung has half as many buckets as events or fewer, but no more than stay in the first levels of cache.
constexpr int max_rung_bits = 10;
// The run is to hold one of so many events, at most so many.
constexpr std::size_t run_share = 32;
constexpr std::size_t longest_run = 64;
// Places of popped events that are kept before the run: what is pushed into it needs one.
constexpr std::size_t room = 64;
// Most of what is pushed into the run comes before its next few events: these are looked at one by one.
constexpr std::size_t few = 16;
// Pushes that move more events than this, more than the run holds altogether, have it spread over a rung: a fixed cost per
// event.
constexpr std::size_t short_shift = 64;

// Stable, by time alone; see Calendar::Bucket.
void sort_by_time(std::span<Event> events) {
  for (std::size_t i = 1; i < events.size(); ++i) {
    const Event event = events[i];
    std::size_t j = i;
    for (; j > 0 && event.time < events[j - 1].time; --j) events[j] = events[j - 1];
    events[j] = event;
  }
}

}  // namespace

void Calendar::add_block(Bucket& bucket) {
  std::uint32_t block = free_block_;
  if (block != no_block) {
    free_block_ = blocks_[block].next;
  } else {
    block = static_cast<std::uint32_t>(blocks_.size());
    ensure(block != no_block, "a calendar holds fewer than 2^32 blocks of events");
    blocks_.emplace_back();
  }
  if (bucket.last == no_block) {
    bucket.first = block;
  } else {
    blocks_[bucket.last].next = block;
  }
  bucket.last = block;
}

void Calendar::push_into_run(Event event) {
  if (left() == 0 || event.time >= run_.back().time) {
    if (run_.size() == run_.capacity() && 2 * run_head_ >= run_.size()) drop_popped(0);
    run_.push_back(event);
    return;
  }
  if (run_head_ == 0) {
    // Several pushes per pop: as many places as the run has, so that each push moves few events.
    run_head_ = std::max(room, left());
    run_.insert(run_.begin(), run_head_, Event{});
  }
  // What comes before it moves into the place of what was popped. Whatever of its own time is in the run was pushed before.
  const Event* const last = run_.data() + run_.size() - 1;  // comes behind it, as is known
  Event* to = run_.data() + --run_head_;
  const Event* from = to + 1;
  const Event* const next_few = std::min(from + few, last);
  while (from < next_few && from->time <= event.time) *to++ = *from++;
  if (from->time <= event.time) {
    const Event* const behind = std::upper_bound(
        from, last, event.time, [](Time time, const Event& other) { return time < other.time; });
    to = std::copy(from, behind, to);
  }
  *to = event;
  const auto moved = static_cast<std::size_t>(to - run_.data()) - run_head_;
  if (moved <= short_shift) return;
  shifts_ += moved;
  if (shifts_ > left()) spread_run();
}

// Forgets popped events at the front of the run, but for so many.
void Calendar::drop_popped(std::size_t kept) {
  const std::size_t dropped = run_head_ - std::min(kept, run_head_);
  run_.erase(run_.begin(), run_.begin() + static_cast<std::ptrdiff_t>(dropped));
  run_head_ -= dropped;
}

void Calendar::spread_run() {
  shifts_ = 0;
  order_run_from(run_head_, run_[run_head_].time, run_.back().time);
}

// Takes buckets until the run holds enough events to look ahead (Calendar::ahead), but not so many that new ones
// often come before its end.
void Calendar::refill() {
  drop_popped(room);
  shifts_ = 0;
  const std::size_t wanted = std::clamp<std::size_t>(size_ / run_share, 1, longest_run);
  margin_ = wanted / 4;
  while (left() < wanted) {
    if (depth_ == 0) {
      if (left() > 0) {
        margin_ = 0;
        return;
      }
      if (top_.empty()) return;
      const Time earliest = top_min_;
      const Time latest = top_max_;
      top_limit_ = latest;
      top_min_ = Time::max();
      top_max_ = Time::min();
      if (earliest < latest && top_.size() > sort_limit) {
        add_rung(top_, earliest, latest);
      } else {
        run_head_ = 0;
        run_.swap(top_);
        order_run_from(0, earliest, latest);
      }
      top_.clear();
      continue;
    }
    Rung& rung = rungs_[depth_ - 1];
    while (rung.next < rung.count && rung.buckets[rung.next].count == 0) ++rung.next;
    if (rung.next == rung.count) {
      --depth_;
      continue;
    }
    const Bucket bucket = rung.buckets[rung.next++];
    if (rung.next == rung.count) {
      --depth_;  // what this bucket becomes takes its place
    } else {
      rung.next_start = rung.start + Duration{static_cast<std::int64_t>(rung.next) << rung.shift};
    }
    take_bucket(bucket);
  }
}

void Calendar::take_bucket(Bucket bucket) {
  const std::size_t before = run_.size();
  run_.resize(before + bucket.count);
  Event* out = run_.data() + before;
  Time earliest = Time::max();
  Time latest = Time::min();
  std::uint32_t block = bucket.first;
  for (std::uint32_t left = bucket.count;;) {
    const std::uint32_t here = std::min(left, events_per_block);
    if (left > here) prefetch(&blocks_[blocks_[block].next], sizeof(Block));
    for (std::uint32_t i = 0; i < here; ++i) {
      const Event& event = blocks_[block].events[i];
      earliest = std::min(earliest, event.time);
      latest = std::max(latest, event.time);
      *out++ = event;
    }
    left -= here;
    if (left == 0) break;
    block = blocks_[block].next;
  }
  blocks_[bucket.last].next = free_block_;
  free_block_ = bucket.first;
  order_run_from(before, earliest, latest);
}

// Puts in order what was appended to the run, or spreads it over a new rung if it is too much to sort.
void Calendar::order_run_from(std::size_t first, Time earliest, Time latest) {
  if (earliest == latest) return;
  const std::span<Event> events(run_.begin() + static_cast<std::ptrdiff_t>(first), run_.end());
  if (events.size() <= sort_limit) {
    sort_by_time(events);
  } else {
    add_rung(events, earliest, latest);
    run_.resize(first);
  }
}

void Calendar::add_rung(std::span<const Event> events, Time earliest, Time latest) {
  if (depth_ == rungs_.size()) rungs_.emplace_back();
  Rung& rung = rungs_[depth_++];
  const auto span = static_cast<std::uint64_t>((latest - earliest).count());
  const int bits = std::min(static_cast<int>(std::bit_width(events.size())) - 1, max_rung_bits);
  rung.shift = std::max(0, static_cast<int>(std::bit_width(span)) - bits);
  rung.count = static_cast<std::uint32_t>(span >> rung.shift) + 1;
  rung.start = earliest;
  rung.next_start = earliest;
  rung.next = 0;
  if (rung.buckets.size() < rung.count) rung.buckets.resize(rung.count);
  std::fill_n(rung.buckets.begin(), rung.count, Bucket{});
  for (const Event& event : events) append(rung.buckets[rung.index(event.time)], event);
}

void Calendar::fail_empty() {
  abort_because("an empty calendar has no first event", Where::current());
}

void Calendar::fail_in_past(Time time) const {
  const std::string what =
      fmt::format("event in the past: {:.12g} s < {:.12g} s", to_seconds(time), to_seconds(now_));
  abort_because(what.c_str(), Where::current());
}

}  // namespace starling
