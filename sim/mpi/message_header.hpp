// The header of a message between ranks: what goes ahead of its numbers. It is checked before anything is allocated for
// it, so that a rank of another program, or a broken network, is told and not obeyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "sim/base/types.hpp"

namespace starling {

/// Sent as it lies in memory: all ranks run on machines of one kind.
struct MessageHeader {
  static constexpr std::uint32_t no_vector = std::numeric_limits<std::uint32_t>::max();

  Tag tag;
  double number;
  std::int64_t network_since;  // ps, on the common clock
  std::uint32_t size;          // floats, or no_vector
  std::uint32_t marks;         // Vector::wire_marks()
  std::uint64_t filler;        // bytes that follow the numbers
  NodeId source;
  NodeId destination;
};
static_assert(std::is_trivially_copyable_v<MessageHeader> && sizeof(MessageHeader) == 48);

/// The header that `bytes` are, of a run with `nodes` nodes. Throws Error that says what was expected and found:
/// another length, nodes that do not exist, a vector or filler larger than any message.
MessageHeader read_message_header(std::span<const std::byte> bytes, NodeId nodes);

}  // namespace starling
