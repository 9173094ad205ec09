// Rendezvous: which messages wait for their receivers? MPI sends short messages at once (eagerly); a longer one sets off when
// its receiver has posted a receive for it, and its sender may go on with its buffer when it is through.
//
// A receive that waits lets one message set off, a poll all that it would take. A short message behind a held one of its source
// and tag keeps its place in their order, and sets off with it. Where a program takes several messages of one exchange one by
// one, it posts receives for all of them first (post()), as MPI programs do.
//
// LogGOPSim's parameter S; Hoefler, Schneider, Lumsdaine, "LogGOPSim", HPDC 2010, section 3.1. As there, no round trip is
// charged for the agreement.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/node/fibre.hpp"
#include "sim/node/message.hpp"

namespace starling {

class Rendezvous {
 public:
  /// The limit with which no message waits: then there is no Rendezvous.
  static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

  /// Messages of more than `eager_limit` bytes wait.
  Rendezvous(NodeId nodes, std::int64_t eager_limit)
      : boxes_(static_cast<std::size_t>(nodes)), eager_limit_(eager_limit) {}

  // --- Receivers ---------------------------------------------------------------------------------------------
  /// Whether a message to `to` sets off at once; else it is held, and named `id` when it may. `waits`: the first of the
  /// receives of `to` that wait.
  bool may_start(std::uint32_t id, NodeId to, const Message& message, const ReceiveWait* waits);
  /// What was held for `node` and sets off for a new receive: one message, and short ones behind it.
  std::vector<std::uint32_t> on_receive(const ReceiveWait& wait, NodeId node);
  /// The same for a program that polls: all that it would take.
  std::vector<std::uint32_t> on_poll(const Pattern& pattern, NodeId node);
  /// A receive has ended.
  void forget(const ReceiveWait& wait) { served_.erase(&wait); }
  /// Posts receives for all that is sent to `node` by `tag`, until close(); answers with what was held and sets off now.
  std::vector<std::uint32_t> post(NodeId node, Tag tag);
  void close(NodeId node, Tag tag);

  // --- Senders -----------------------------------------------------------------------------------------------
  /// A message is sent, may set off (`network_since` of who asked for it), is through; short ones do not count. The last answers
  /// with who has waited for it.
  void begin(std::uint32_t id, const Message& message);
  void note_start(const Message& message, Time network_since);
  TimedWait* end(const Message& message);
  /// Whether a message that `node` has sent by `tag` is not through.
  bool is_sending(NodeId node, Tag tag) const { return sends_.contains({node, tag}); }
  /// `wait` stays where it is until end() answers with it; the only one of its node and tag.
  void wait(NodeId node, Tag tag, TimedWait& wait);

  // --- The end of an instant ---------------------------------------------------------------------------------
  /// The message may set off. Answers whether it is the first of this instant.
  bool add_startable(std::uint32_t id);
  /// All that may set off, in order of sending; ends the instant.
  std::vector<std::uint32_t> take_startable();

  /// Messages that are held, for the report of a stall; empty if there are none.
  std::string describe() const;

 private:
  struct Held {
    std::uint32_t id;
    NodeId source;
    Tag tag;
    bool is_long;
  };
  struct Box {
    std::vector<Held> held;  // in order of sending
    std::vector<Tag> posted;
  };
  struct Sends {
    std::int64_t count = 0;  // not through
    Time network_since{};    // of who asked for the last one
    TimedWait* wait = nullptr;
  };
  bool is_long(const Message& message) const { return message.bytes > eager_limit_; }

  std::vector<Box> boxes_;  // (nodes)
  std::int64_t eager_limit_;
  // Receives that have let a message set off; looked up only.
  std::unordered_set<const ReceiveWait*> served_;
  std::unordered_map<StreamName, Sends, StreamHash> sends_;
  std::vector<std::uint32_t> startable_;
  std::vector<std::uint64_t> send_order_;  // by id: how many were sent before
  std::uint64_t sent_ = 0;
};

}  // namespace starling
