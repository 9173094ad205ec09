// The small integers that everything is named by.
#pragma once

#include <cstdint>

namespace starling {

/// A participant of the algorithm, 0 <= id < node count.
using NodeId = std::int32_t;

/// One iteration of a node's own loop, from 0.
using Step = std::int64_t;

/// Names a message among those of one (source, destination) pair. Plain numbers below 2^48 are free for
/// programs; every protocol in `algorithms/` takes its own channel, so that its tags meet nobody else's.
using Tag = std::uint64_t;

inline constexpr int tag_number_bits = 48;

/// Tag `number` (< 2^48) of `channel`; channel 0 is the programs' own.
constexpr Tag make_tag(std::uint16_t channel, std::uint64_t number) {
  return (static_cast<Tag>(channel) << tag_number_bits) |
         (number & ((Tag{1} << tag_number_bits) - 1));
}

/// "Any source" and "any tag" in a receive pattern.
inline constexpr NodeId any_source = -1;
inline constexpr Tag any_tag = ~Tag{0};

}  // namespace starling
