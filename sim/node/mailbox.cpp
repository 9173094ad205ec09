#include "sim/node/mailbox.hpp"

#include <utility>

namespace starling {
namespace {

constexpr int many = 32;  // messages to look at before they get an index

/// Whether it is one source and one tag that are asked for.
bool is_one_name(std::span<const Pattern> patterns) {
  return patterns.size() == 1 && patterns[0].source != any_source && patterns[0].tag != any_tag;
}

}  // namespace

void Mailbox::append(Index& index, std::uint32_t at) {
  if (alike_.size() < pool_.size()) alike_.resize(pool_.capacity(), none);
  const Message& message = pool_[at].message;
  Chain& chain = index[{message.source, message.tag}];
  (chain.first == none ? chain.first : alike_[chain.last]) = at;
  chain.last = at;
  alike_[at] = none;
}

void Mailbox::make_index(NodeId node) {
  Index& index = indexes_[node];
  std::uint32_t at = boxes_[static_cast<std::size_t>(node)].first;
  for (; at != none; at = pool_[at].next) append(index, at);
}

std::uint32_t Mailbox::first_candidate(NodeId node, std::span<const Pattern> patterns) const {
  const auto index = indexes_.find(node);
  if (index == indexes_.end() || !is_one_name(patterns))
    return boxes_[static_cast<std::size_t>(node)].first;
  const auto chain = index->second.find({patterns[0].source, patterns[0].tag});
  return chain == index->second.end() ? none : chain->second.first;
}

void Mailbox::note_arrival(NodeId node, std::uint32_t at) {
  const auto index = indexes_.find(node);
  if (index != indexes_.end()) append(index->second, at);
}

// Whoever accepts a message accepts the older ones of its source and tag: it is the first of its chain.
void Mailbox::note_departure(NodeId node, std::uint32_t at) {
  const auto index = indexes_.find(node);
  if (index == indexes_.end()) return;
  const Message& message = pool_[at].message;
  const auto chain = index->second.find({message.source, message.tag});
  chain->second.first = alike_[at];
  if (chain->second.first == none) index->second.erase(chain);
  if (boxes_[static_cast<std::size_t>(node)].first == none) indexes_.erase(index);
}

Message* Mailbox::find(NodeId node, std::span<const Pattern> patterns, std::uint32_t& matched) {
  Box& box = boxes_[static_cast<std::size_t>(node)];
  std::uint32_t at = box.first;
  if (!indexes_.empty()) [[unlikely]]
    at = first_candidate(node, patterns);
  for (int looked_at = 0; at != none; at = pool_[at].next) {
    Stored& stored = pool_[at];
    for (std::size_t p = 0; p < patterns.size(); ++p) {
      if (!patterns[p].matches(stored.message)) continue;
      matched = static_cast<std::uint32_t>(p);
      (stored.previous == none ? box.first : pool_[stored.previous].next) = stored.next;
      (stored.next == none ? box.last : pool_[stored.next].previous) = stored.previous;
      stored.next = free_;
      free_ = at;
      if (!indexes_.empty()) [[unlikely]]
        note_departure(node, at);
      return &stored.message;
    }
    if (++looked_at == many && is_one_name(patterns)) make_index(node);
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
  if (!indexes_.empty()) [[unlikely]]
    note_arrival(node, at);
  return nullptr;
}

std::size_t Mailbox::unreceived(NodeId node) const {
  std::size_t count = 0;
  std::uint32_t at = boxes_[static_cast<std::size_t>(node)].first;
  for (; at != none; at = pool_[at].next) ++count;
  return count;
}

}  // namespace starling
