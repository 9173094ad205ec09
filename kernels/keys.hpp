// Keys that several workloads read alike.
#pragma once

#include <cstdint>

#include "sim/base/section.hpp"

namespace starling {

/// A whole number from `least` to `most`.
inline std::int64_t read_in_range(const Section& section, const char* key, std::int64_t fallback,
                                  std::int64_t least, std::int64_t most, const char* help) {
  const auto value = section.optional<std::int64_t>(key, fallback, help);
  section.expect(value >= least && value <= most, key, "must be {} to {}, got {}", least, most,
                 value);
  return value;
}

/// The key `batch_size` of a workload that draws samples.
inline std::int64_t read_batch_size(const Section& section) {
  return read_in_range(
      section, "batch_size", 16, 1, 1 << 20,
      "samples of one gradient; a node with fewer draws some of them more than once");
}

}  // namespace starling
