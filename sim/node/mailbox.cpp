#include "sim/node/mailbox.hpp"

#include <utility>

namespace starling {

Message* Mailbox::take(NodeId node, std::span<const Pattern> patterns, std::uint32_t& matched) {
  Box& box = boxes_[static_cast<std::size_t>(node)];
  for (std::uint32_t at = box.first; at != none; at = pool_[at].next) {
    Stored& stored = pool_[at];
    for (std::size_t p = 0; p < patterns.size(); ++p) {
      if (!patterns[p].matches(stored.message)) continue;
      matched = static_cast<std::uint32_t>(p);
      (stored.previous == none ? box.first : pool_[stored.previous].next) = stored.next;
      (stored.next == none ? box.last : pool_[stored.next].previous) = stored.previous;
      stored.next = free_;
      free_ = at;
      return &stored.message;
    }
  }
  return nullptr;
}

void Mailbox::enqueue(NodeId node, ReceiveWait& wait) {
  Box& box = boxes_[static_cast<std::size_t>(node)];
  wait.next = nullptr;
  if (box.first_wait == nullptr) {
    wait.previous = &wait;
    box.first_wait = &wait;
    return;
  }
  wait.previous = box.first_wait->previous;
  wait.previous->next = &wait;
  box.first_wait->previous = &wait;
}

void Mailbox::withdraw(NodeId node, ReceiveWait& wait) {
  Box& box = boxes_[static_cast<std::size_t>(node)];
  const bool is_first = box.first_wait == &wait;
  (is_first ? box.first_wait : wait.previous->next) = wait.next;
  ReceiveWait* behind = wait.next == nullptr ? box.first_wait : wait.next;
  if (behind != nullptr) behind->previous = wait.previous;
}

ReceiveWait* Mailbox::arrive(NodeId node, Message& message) {
  Box& box = boxes_[static_cast<std::size_t>(node)];
  for (ReceiveWait* wait = box.first_wait; wait != nullptr; wait = wait->next) {
    for (std::size_t p = 0; p < wait->patterns.size(); ++p) {
      if (!wait->patterns[p].matches(message)) continue;
      withdraw(node, *wait);
      wait->message = &message;
      wait->matched = static_cast<std::uint32_t>(p);
      return wait;
    }
  }
  std::uint32_t at = free_;
  if (at == none) {
    at = static_cast<std::uint32_t>(pool_.size());
    pool_.push_back({});
  } else {
    free_ = pool_[at].next;
  }
  pool_[at].message = std::move(message);
  pool_[at].previous = box.last;
  pool_[at].next = none;
  (box.last == none ? box.first : pool_[box.last].next) = at;
  box.last = at;
  return nullptr;
}

std::size_t Mailbox::unreceived(NodeId node) const {
  std::size_t count = 0;
  std::uint32_t at = boxes_[static_cast<std::size_t>(node)].first;
  for (; at != none; at = pool_[at].next) ++count;
  return count;
}

}  // namespace starling
