// What the algorithms with compressed differences (CHOCO-SGD, DCD-PSGD, ECD-PSGD, DeepSqueeze) ask of their scenario.
#pragma once

#include "algorithms/codec.hpp"
#include "sim/base/section.hpp"

namespace starling::algorithms {

/// Reads the key `consensus_rate`, in (0, 1]: how far models move towards their neighbors'. 1 if nothing is lost; a lossy
/// codec has no safe value, so the key is required then.
inline double read_consensus_rate(const Section& section, const Codec& codec) {
  const char* help = "how far models move towards their neighbors'; below 1 with lossy codes";
  const double rate = codec.is_exact() ? section.optional<double>("consensus_rate", 1, help)
                                       : section.required<double>("consensus_rate", help);
  section.expect(rate > 0 && rate <= 1, "consensus_rate", "must be in (0, 1], got {}", rate);
  return rate;
}

}  // namespace starling::algorithms
