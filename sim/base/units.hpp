// Dimensioned values as people write them: "10 Gbit/s", "5 us", "64 MiB". A bare number is an error, because
// nobody should have to guess a unit. Each parser throws std::invalid_argument with what was expected and found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/time.hpp"

namespace starling {

/// Bytes; a type of its own so that a section knows which unit a key takes.
struct Bytes {
  std::int64_t count = 0;
  friend bool operator==(Bytes, Bytes) = default;
};

/// Bytes per second.
struct Bandwidth {
  double bytes_per_second = 0;
  friend bool operator==(Bandwidth, Bandwidth) = default;
};

/// "3 s", "1.5 ms", "2 us", "4 ns", "7 ps", "10 min", "2 h"; not negative.
Duration parse_duration(std::string_view text);
/// "100 B", "64 KiB", "1.5 GB" (powers of 1000 or 1024), not negative.
Bytes parse_bytes(std::string_view text);
/// "10 Gbit/s", "12.5 GB/s", "100 MiB/s"; positive.
Bandwidth parse_bandwidth(std::string_view text);

/// `count` / 10^`digits`, exactly, without useless zeros.
std::string exact_decimal(std::int64_t count, int digits);

/// Shortest text that parses back to the same value, with a convenient unit.
std::string to_text(Duration duration);
std::string to_text(Bytes bytes);
std::string to_text(Bandwidth bandwidth);

}  // namespace starling
