// What the algorithms that move models towards what codes say of their neighbors' (CHOCO-SGD, DeepSqueeze, Moniqua) ask of their
// scenario.
#pragma once

#include <optional>
#include <string_view>

#include <fmt/core.h>

#include "algorithms/codec.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/section.hpp"

namespace starling::algorithms {

/// Reads the key `consensus_rate`, in (0, 1]: how far models move towards their neighbors'. Required without a `fallback`; the
/// help says that it is below 1 with `losses`.
inline double read_consensus_rate(const Section& section, std::optional<double> fallback,
                                  std::string_view losses) {
  return read_share_above_0(
      section, "consensus_rate", fallback,
      fmt::format("how far models move towards their neighbors'; below 1 with {}", losses));
}

/// The same with any codec: 1 if nothing is lost; a lossy one has no safe value, so the key is required then.
inline double read_consensus_rate(const Section& section, const Codec& codec) {
  return read_consensus_rate(section, codec.is_exact() ? std::optional(1.0) : std::nullopt,
                             "lossy codes");
}

}  // namespace starling::algorithms
