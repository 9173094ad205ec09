// Message: what one node sends to another. The payload is immutable from the moment it is sent.
#pragma once

#include <cstddef>
#include <utility>

#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/node/compute_graph.hpp"

namespace starling {

/// Bytes charged for a message without a vector (an activation, a request, a notice).
inline constexpr std::int64_t control_bytes = 16;

/// A compressed vector: the words that travel, and how many bytes of them count (words are filled up).
struct Code {
  Vector words;
  std::int64_t bytes = 0;
};

/// Bytes that the network carries of a code: a stand-in's counts as that of the big model, an empty one as a notice.
std::int64_t bytes_on_wire(const Code& code);

struct Message {
  NodeId source = any_source;
  /// Sent from and received into host memory: the sender and receiver stage it themselves, see Host.
  bool is_on_host = false;
  /// Of a collective: it goes when what its sender has sent before by the same tag is through, whoever that was for.
  bool is_in_turn = false;
  Tag tag = 0;
  Vector values;  // may be empty
  /// A small fact beside the vector: an iteration number, a push-sum weight; travels in the header.
  double number = 0;
  Time network_since{};  // of the fibre that sent it, see Fibre; on its node's clock
  /// That the network carries: those of the code, 4 per float, or control_bytes without a vector; headers are not
  /// counted. Known to the sender.
  std::int64_t bytes = 0;
};
static_assert(sizeof(Message) == 64);

/// Which messages a receive accepts.
struct Pattern {
  NodeId source = any_source;
  Tag tag = any_tag;

  bool matches(NodeId from, Tag by) const {
    return (source == any_source || source == from) && (tag == any_tag || tag == by);
  }
  bool matches(const Message& message) const { return matches(message.source, message.tag); }
};

/// Whose messages, and by which tag: what keeps its order. For tables whose order decides nothing.
using StreamName = std::pair<NodeId, Tag>;
struct StreamHash {
  std::size_t operator()(const StreamName& name) const {
    return static_cast<std::size_t>(name.first) * 0x9E3779B97F4A7C15 + name.second;
  }
};

}  // namespace starling
