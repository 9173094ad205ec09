// Virtual time: whole picoseconds in 64 bits. Integer, so that comparisons are exact and ties do not depend
// on rounding; picoseconds, because fast links move 25 bytes per nanosecond. The clock ends after 106 days.
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>

namespace starling {

using Duration = std::chrono::duration<std::int64_t, std::pico>;

/// The clock of a run; time zero is its start, in the simulation and over MPI.
struct VirtualClock {
  using duration = Duration;
  using rep = Duration::rep;
  using period = Duration::period;
  using time_point = std::chrono::time_point<VirtualClock>;
  static constexpr bool is_steady = true;
};

using Time = VirtualClock::time_point;

/// Nearest whole picosecond. Throws std::invalid_argument if `seconds` is not finite or outside the clock.
Duration from_seconds(double seconds);

/// Divided: 200 ms are 0.2; times 1e-12, which no double is, they would be 0.19999999999999998.
constexpr double to_seconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e12;
}
constexpr double to_seconds(Time time) { return to_seconds(time.time_since_epoch()); }

[[noreturn]] void fail_past_end(Time time, Duration duration);

/// `time + duration`; throws Error when the sum passes the end of the clock (106 days).
inline Time after(Time time, Duration duration) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(time.time_since_epoch().count(), duration.count(), &sum)) [[unlikely]]
    fail_past_end(time, duration);
  return Time(Duration(sum));
}

}  // namespace starling
