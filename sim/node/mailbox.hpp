// Mailbox: matches messages that have arrived with receives that wait, for all nodes of one transport.
//
// Rules (those of MPI): a message goes to the longest waiting receive that accepts it; a receive takes the
// message that arrived first among those it accepts. So messages of one (source, tag) are received in order.
//
// The messages of a node stand in one list, in order of arrival. Where a receive from one source with one tag had to look
// at many (a server that asks all nodes in turn, a complete topology), they are found by these from then on, until
// the list is empty.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/node/fibre.hpp"
#include "sim/node/message.hpp"

namespace starling {

class Mailbox {
 public:
  explicit Mailbox(NodeId nodes) : boxes_(static_cast<std::size_t>(nodes)) {}

  /// Looks for a message that has already arrived; if there is one, takes it out of the queue and sets `matched`.
  /// It must be moved away before the next arrival. Null if there is none.
  Message* take(NodeId node, std::span<const Pattern> patterns, std::uint32_t& matched) {
    const Box& box = boxes_[static_cast<std::size_t>(node)];
    return box.first == none ? nullptr : find(node, patterns, matched);
  }
  /// Queues a receive that found nothing; `wait` stays where it is until matched or withdrawn.
  void enqueue(NodeId node, ReceiveWait& wait);
  void withdraw(NodeId node, ReceiveWait& wait);
  /// A message has arrived. If a receive waits for it, that is dequeued, told where the message lies and returned;
  /// whoever resumes it at once leaves the message there. Else the message is moved into the mailbox.
  ReceiveWait* arrive(NodeId node, Message& message);

  /// Receives of `node` that wait, first come first; for reports of a stall.
  const ReceiveWait* waiting(NodeId node) const {
    return boxes_[static_cast<std::size_t>(node)].first_wait;
  }
  /// Messages that have arrived at `node` and that nobody has received; for tests.
  std::size_t unreceived(NodeId node) const;

  // --- For prefetching ------------------------------------------------------------------------------------------
  /// What is kept of a node.
  const void* place(NodeId node) const { return &boxes_[static_cast<std::size_t>(node)]; }
  /// Of the messages that nobody has received yet the one that arrived behind so many others, and the newest; null if there
  /// is none.
  const Message* arrived(NodeId node, int behind) const {
    std::uint32_t at = boxes_[static_cast<std::size_t>(node)].first;
    while (behind-- > 0 && at != none) at = pool_[at].next;
    return message(at);
  }
  const Message* newest(NodeId node) const {
    return message(boxes_[static_cast<std::size_t>(node)].last);
  }
  static constexpr std::size_t bytes_per_message = sizeof(Message) + 2 * sizeof(std::uint32_t);

  static constexpr std::size_t bytes_per_node = 16;

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Stored {
    Message message;
    std::uint32_t previous, next;
  };
  struct Box {
    ReceiveWait* first_wait = nullptr;        // its `previous` is the last
    std::uint32_t first = none, last = none;  // arrived messages, oldest first
  };
  static_assert(sizeof(Box) == bytes_per_node && sizeof(Stored) == bytes_per_message);

  /// Of one source and tag, oldest first; linked by `alike_`.
  struct Chain {
    std::uint32_t first = none, last = none;
  };
  using Index = std::unordered_map<StreamName, Chain, StreamHash>;

  const Message* message(std::uint32_t at) const {
    return at == none ? nullptr : &pool_[at].message;
  }
  /// `take` where messages have arrived.
  Message* find(NodeId node, std::span<const Pattern> patterns, std::uint32_t& matched);
  void make_index(NodeId node);
  void append(Index& index, std::uint32_t at);
  /// The message with which a search begins: by the node's index, if it has one that helps.
  std::uint32_t first_candidate(NodeId node, std::span<const Pattern> patterns) const;
  /// Of a message that has come into the node's list, or left it.
  void note_arrival(NodeId node, std::uint32_t at);
  void note_departure(NodeId node, std::uint32_t at);

  std::vector<Box> boxes_;
  std::vector<Stored> pool_;
  std::uint32_t free_ = none;
  std::unordered_map<NodeId, Index> indexes_;  // of few nodes, mostly none
  std::vector<std::uint32_t> alike_;           // (stored), where a node has an index
};

}  // namespace starling
