// The ladder queue must pop in exactly the order of a plain heap by (time, sequence): its slow,
// obvious twin, run here beside it through workloads that reach every part of it (ties, bursts, far
// futures, late arrivals).

#include <queue>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "sim/engine/calendar.hpp"
#include "tests/support/fault.hpp"

namespace starling::test_calendar {
namespace {

struct Numbered {
  Time time;
  std::uint64_t sequence;  // order of pushing
  std::uint64_t payload;
};

struct IsAfter {
  bool operator()(const Numbered& a, const Numbered& b) const {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }
};

// Both queues at once; every pop compares them.
class Both {
 public:
  void push(Time time, std::uint64_t payload) {
    calendar_.push(time, payload);
    heap_.push({time, next_sequence_++, payload});
  }

  Event pop() {
    const Numbered expected = heap_.top();
    heap_.pop();
    if (next_sequence_ % 3 == 0)
      differs_ += calendar_.top_time() != expected.time;  // looking must not disturb
    const Event event = calendar_.pop();
    differs_ += event.time != expected.time || event.payload != expected.payload ||
                calendar_.size() != heap_.size() || calendar_.empty() != heap_.empty();
    hash_ = (hash_ ^ event.payload) * 0x100000001b3u;
    expected_hash_ = (expected_hash_ ^ expected.payload) * 0x100000001b3u;
    ++popped_;
    return event;
  }

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::size_t popped() const { return popped_; }
  void check() const {
    CHECK(differs_ == 0);
    CHECK(hash_ == expected_hash_);
  }

 private:
  Calendar calendar_;
  std::priority_queue<Numbered, std::vector<Numbered>, IsAfter> heap_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t hash_ = 0xcbf29ce484222325u;
  std::uint64_t expected_hash_ = 0xcbf29ce484222325u;
  std::size_t differs_ = 0;
  std::size_t popped_ = 0;
};

// One way to draw how long after now an event lies, in ps.
std::int64_t draw_hold(Random& random, int shape) {
  switch (shape) {
    case 0:
      return static_cast<std::int64_t>(random.exponential() * 1e12);
    case 1:
      return 1'000'000;  // all ties
    case 2:
      return static_cast<std::int64_t>(random.below(4));  // ties, many at this very instant
    case 3:
      return static_cast<std::int64_t>(random.below(5) * 250'000);  // a few distinct instants
    case 4:
      return std::int64_t{1} << random.below(60);  // every scale at once, far futures
    case 5:
      return random.below(100) == 0 ? std::int64_t{9'000'000'000'000'000}
                                    : static_cast<std::int64_t>(random.below(1'000));
    default:
      return static_cast<std::int64_t>(random.gamma(0.05) * 1e15);  // most tiny, some huge
  }
}
constexpr int shapes = 7;

}  // namespace

TEST_CASE("the calendar pops in the order of a heap while the number of events stays") {
  for (int shape = 0; shape < shapes; ++shape) {
    for (const std::size_t pending : {1u, 2u, 31u, 33u, 300u, 5'000u}) {
      CAPTURE(shape);
      CAPTURE(pending);
      Random random(7, "hold", shape, static_cast<Step>(pending));
      Both both;
      for (std::size_t i = 0; i < pending; ++i)
        both.push(Time{Duration{draw_hold(random, shape)}}, random());
      // Times grow by at most 2^60 per generation, so shape 4 stops before the clock ends at 2^63.
      for (int i = 0; i < 20'000; ++i) {
        const Event event = both.pop();
        const Duration hold{draw_hold(random, shape)};
        if (event.time.time_since_epoch().count() < (std::int64_t{1} << 61))
          both.push(event.time + hold, random());
        if (both.empty()) break;
      }
      while (!both.empty()) both.pop();
      both.check();
    }
  }
}

TEST_CASE(
    "the calendar pops in the order of a heap through bursts of random sizes and mixed shapes") {
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    Random random(11, "bursts", trial);
    Both both;
    Time now{};
    for (int round = 0; round < 60; ++round) {
      const auto burst = static_cast<std::size_t>(std::int64_t{1} << random.below(11));
      // A burst either mixes shapes or draws them all alike; shapes 4 and 5 leave events far in the
      // future.
      const int shape = static_cast<int>(random.below(shapes + 1));
      for (std::size_t i = 0; i < burst; ++i) {
        const int this_shape = shape < shapes ? shape : static_cast<int>(random.below(shapes));
        Duration hold{draw_hold(random, this_shape) % (std::int64_t{1} << 50)};
        both.push(now + hold, random());
      }
      const auto pops = static_cast<std::size_t>(std::int64_t{1} << random.below(11));
      for (std::size_t i = 0; i < pops && !both.empty(); ++i) {
        now = both.pop().time;
        if (random.below(4) == 0) both.push(now + Duration{draw_hold(random, 2)}, random());
      }
    }
    while (!both.empty()) both.pop();
    both.check();
    CHECK(both.popped() > 1'000);
  }
}

TEST_CASE("late arrivals before a far event keep their order") {
  // One event at the end makes the popped range reach from now to there, so that all pushes arrive
  // late.
  Random random(13, "late");
  Both both;
  both.push(Time{Duration{1'000'000'000'000}}, 1);
  both.push(Time{Duration{0}}, 2);
  both.pop();
  for (int i = 0; i < 3'000; ++i)
    both.push(Time{Duration{static_cast<std::int64_t>(random.below(1'000'000))}}, random());
  for (int i = 0; i < 30'000; ++i) {
    const Event event = both.pop();
    both.push(event.time + Duration{static_cast<std::int64_t>(random.below(1'000'000))}, random());
  }
  while (!both.empty()) both.pop();
  both.check();
}

TEST_CASE("a hundred thousand events, each before the one pushed last, keep their order") {
  Both both;
  both.push(Time{Duration{1'000'000'000}}, 1);
  both.push(Time{Duration{0}}, 2);
  both.pop();  // the run reaches from now to the far event
  for (std::uint64_t i = 0; i < 100'000; ++i)
    both.push(Time{Duration{1'000'000 - static_cast<std::int64_t>(i / 2)}}, i);
  while (!both.empty()) both.pop();
  both.check();
}

TEST_CASE("a ping-pong before ten thousand ties keeps their order") {
  Both both;
  for (std::uint64_t i = 0; i < 10'000; ++i) both.push(Time{Duration{1'000'000}}, i);
  both.push(Time{Duration{0}}, 77);
  for (int i = 0; i < 5'000; ++i) {
    const Event event = both.pop();
    both.push(event.time + Duration{100}, static_cast<std::uint64_t>(i));
  }
  while (!both.empty()) both.pop();
  both.check();
}

TEST_CASE("events of one instant pop in the order of pushing, those pushed meanwhile last") {
  // 0 .. 9 at 5 ps; each pops and pushes its number + 10 at the same instant, once: 0 .. 19 in a
  // row.
  Calendar calendar;
  for (std::uint64_t i = 0; i < 10; ++i) calendar.push(Time{Duration{5}}, i);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Event event = calendar.pop();
    CHECK(event.payload == i);
    CHECK(event.time == Time{Duration{5}});
    if (i < 10) calendar.push(event.time, i + 10);
  }
  CHECK(calendar.empty());
}

TEST_CASE("times up to the end of the clock have their place") {
  Both both;
  both.push(Time::max(), 1);
  both.push(Time{}, 2);
  for (int i = 0; i < 100; ++i)
    both.push(Time::max() - Duration{i % 7}, static_cast<std::uint64_t>(i));
  both.push(Time{Duration{1}}, 4);
  CHECK(both.pop().payload == 2);
  CHECK(both.pop().payload == 4);
  both.push(Time::max(), 5);
  for (int i = 0; i < 100; ++i) both.push(Time{Duration{10 + i}}, static_cast<std::uint64_t>(i));
  while (both.size() > 1) both.pop();
  CHECK(both.pop().payload == 5);
  both.check();
}

TEST_CASE("pushing before the last popped event is a fault of the program") {
  const std::string message = test::fault_of([] {
    Calendar calendar;
    calendar.push(Time{Duration{3'400'000'000'000}}, 0);
    calendar.pop();
    calendar.push(Time{Duration{3'200'000'000'000}}, 0);
  });
  CHECK(message.find("event in the past: 3.2 s < 3.4 s") != std::string::npos);
}

}  // namespace starling::test_calendar
