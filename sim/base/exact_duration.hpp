// Durations of which there may be parts of a picosecond: what a byte or a token costs, of which there are many.
#pragma once

#include <chrono>
#include <ratio>
#include <string>
#include <string_view>

#include "sim/base/time.hpp"

namespace starling {

/// A key of this type is written as one of type Duration is.
using ExactDuration = std::chrono::duration<double, std::pico>;

/// As parse_duration(), but no part is lost: "2.5 ps"; whole picoseconds are whole.
ExactDuration parse_exact_duration(std::string_view text);
/// Shortest text that parses back to the same value.
std::string to_text(ExactDuration duration);

}  // namespace starling
