#include "sim/base/time.hpp"

#include <cmath>
#include <stdexcept>

#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling {

Duration from_seconds(double seconds) {
  const double picoseconds = std::nearbyint(seconds * 1e12);
  if (!(std::abs(picoseconds) < 9.2e18)) {
    throw std::invalid_argument(
        fmt::format("{} s is outside the clock, which counts picoseconds up to 106 days", seconds));
  }
  return Duration(static_cast<std::int64_t>(picoseconds));
}

void fail_past_end(Time time, Duration duration) {
  throw Error(
      fmt::format("virtual time passes the end of the clock (106 days): {:.6g} s + {:.6g} s",
                  to_seconds(time), to_seconds(duration)));
}

}  // namespace starling
