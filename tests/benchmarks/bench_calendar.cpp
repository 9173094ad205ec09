// How many timer events per second of processor time does the calendar manage, beside
// std::priority_queue in the same run? Hold model: N events pending; each one popped pushes its
// successor. Holds are exponential (mean 1 s) or all equal (every event of a round is a tie). A
// hash of the order must agree between both queues, or the exit status is 1.
//
// Usage: bench_calendar [size of the measurement, default 0.5; about as many seconds per heap row]

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <queue>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine/calendar.hpp"

namespace {

using starling::Calendar;
using starling::Duration;
using starling::Event;
using starling::Time;

class HeapCalendar {
 public:
  void push(Time time, std::uint64_t payload) { heap_.push({time, next_sequence_++, payload}); }
  Event pop() {
    const Numbered first = heap_.top();
    heap_.pop();
    return {first.time, first.payload};
  }

 private:
  struct Numbered {
    Time time;
    std::uint64_t sequence;
    std::uint64_t payload;
  };
  struct IsAfter {
    bool operator()(const Numbered& a, const Numbered& b) const {
      return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
    }
  };
  std::priority_queue<Numbered, std::vector<Numbered>, IsAfter> heap_;
  std::uint64_t next_sequence_ = 0;
};

struct Result {
  double events_per_second;
  std::uint64_t hash;
};

// Holds come from a table, so that the time of a logarithm does not hide that of the queue.
template <class Queue>
Result hold(std::size_t pending, const std::vector<Duration>& holds, std::size_t events) {
  Queue queue;
  const std::size_t mask = holds.size() - 1;
  std::size_t draw = 0;
  for (std::size_t i = 0; i < pending; ++i) queue.push(Time{holds[draw++ & mask]}, i);
  std::uint64_t hash = 0;
  const auto turn = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const Event event = queue.pop();
      hash = hash * 0x9E3779B97F4A7C15u + event.payload;
      queue.push(event.time + holds[draw++ & mask], event.payload);
    }
  };
  turn(2 * pending);  // past the start, where all events lie within one hold
  const std::clock_t begin = std::clock();
  turn(events);
  const double elapsed = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  return {static_cast<double>(events) / elapsed, hash};
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  std::vector<Duration> exponential(1 << 16);
  starling::Random random(1, "bench_calendar");
  for (Duration& d : exponential) d = starling::from_seconds(random.exponential());
  const std::vector<Duration> equal(1, starling::from_seconds(1));

  std::printf("%-12s %10s %16s %16s %8s\n", "holds", "pending", "calendar [M/s]", "heap [M/s]",
              "ratio");
  bool same = true;
  for (const std::vector<Duration>* holds : {&std::as_const(exponential), &equal}) {
    for (const std::size_t pending : {1'000u, 100'000u, 1'000'000u}) {
      // The same number of events for both, or the hashes could not agree; sized by a guess at the
      // slower one.
      const double guess = pending == 1'000 ? 20e6 : pending == 100'000 ? 8e6 : 3e6;
      const auto events = static_cast<std::size_t>(seconds * guess);
      const Result calendar = hold<Calendar>(pending, *holds, events);
      const Result heap = hold<HeapCalendar>(pending, *holds, events);
      same = same && calendar.hash == heap.hash;
      std::printf("%-12s %10zu %16.1f %16.1f %8.1f%s\n", holds == &equal ? "equal" : "exponential",
                  pending, calendar.events_per_second / 1e6, heap.events_per_second / 1e6,
                  calendar.events_per_second / heap.events_per_second,
                  calendar.hash == heap.hash ? "" : "  ORDER DIFFERS");
    }
  }
  return same ? 0 : 1;
}
