// The small integers that everything is named by.
#pragma once

#include <cstdint>

namespace starling {

/// A participant of the algorithm, 0 <= id < node count.
using NodeId = std::int32_t;

/// One iteration of a node's own loop, from 0.
using Step = std::int64_t;

/// A mini-batch: the `draw`-th of its owner, whoever computes with it.
struct BatchName {
  NodeId owner;
  Step draw;
};

/// Names a message among those of one (source, destination) pair: a number below 2^48 in a channel. See tag_of().
using Tag = std::uint64_t;

/// What a message is for. Plain numbers, channel `program`, are a program's own; every shared protocol takes another
/// channel, so that its tags meet nobody else's. See describe_tag().
enum class Channel : std::uint16_t {
  program,
  collective,
  activation,
  partial,
  entry,
  request,
  reply,
  done,
  tracker,
  pairwise,
  drift,
  chain
};

inline constexpr int tag_number_bits = 48;
inline constexpr int tag_part_bits = 16;  // the upper ones of a number, see tag_of_part()

/// Tag `number` (below 2^48, such as a step) of `channel`.
constexpr Tag tag_of(Channel channel, std::int64_t number = 0) {
  return (static_cast<Tag>(channel) << tag_number_bits) |
         (static_cast<Tag>(number) & ((Tag{1} << tag_number_bits) - 1));
}

/// Tag of the part `i` (modulo 2^16) of what goes by `tag`, if that is sent in several messages and its number is below
/// 2^32; part 0 has the tag itself. A part of a part i is a later part: that of i + j.
constexpr Tag tag_of_part(Tag tag, std::size_t i) {
  constexpr int shift = tag_number_bits - tag_part_bits;
  constexpr Tag mask = ((Tag{1} << tag_part_bits) - 1) << shift;
  return (tag & ~mask) | ((tag + (static_cast<Tag>(i) << shift)) & mask);
}

/// "Any source" and "any tag" in a receive pattern.
inline constexpr NodeId any_source = -1;
inline constexpr Tag any_tag = ~Tag{0};

}  // namespace starling
