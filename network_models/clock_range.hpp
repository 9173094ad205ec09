// Durations that stay on the clock: what after() is for times.
#pragma once

#include <cmath>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/time.hpp"

namespace starling::network_models {

/// In picoseconds: durations that are computed as real numbers end a little before the clock does.
constexpr double end_of_clock = 9.2e18;

/// `a + b`; throws Error when the sum passes the end of the clock (106 days).
inline Duration sum(Duration a, Duration b) { return after(Time{a}, b).time_since_epoch(); }

/// `duration` times `factor` (>= 0), to the nearest picosecond; throws likewise.
inline Duration scaled(Duration duration, double factor) {
  const double product = static_cast<double>(duration.count()) * factor;
  if (!(product < 0x1p63)) [[unlikely]] {
    throw Error(
        fmt::format("virtual time passes the end of the clock (106 days): {} times {:.6g} s",
                    factor, to_seconds(duration)));
  }
  return Duration{std::llround(product)};
}

}  // namespace starling::network_models
