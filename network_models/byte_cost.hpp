// What a number of bytes costs at a fixed price per byte. Only the product is rounded to a
// picosecond, never the price: a fast link moves a byte in less than one.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/section.hpp"
#include "sim/base/time.hpp"

namespace starling::network_models {

/// `bytes` times `picoseconds_per_byte` (>= 0), to the nearest picosecond. Throws Error past the
/// end of the clock.
inline Duration byte_cost(std::int64_t bytes, double picoseconds_per_byte) {
  const double cost = static_cast<double>(bytes) * picoseconds_per_byte;
  if (!(cost < 9.2e18)) [[unlikely]] {
    const std::string price = std::isfinite(picoseconds_per_byte)
                                  ? fmt::format("{} ps per byte", picoseconds_per_byte)
                                  : "next to no bandwidth";
    throw Error(
        fmt::format("{} B at {} take longer than the clock holds (106 days)", bytes, price));
  }
  return Duration{std::llrint(cost)};  // one instruction, unlike std::nearbyint
}

/// Reads `key`, a bandwidth or infinite, for which it returns 0.
double read_seconds_per_byte(const Section& section, std::string_view key,
                             std::string_view fallback, std::string_view help);

}  // namespace starling::network_models
