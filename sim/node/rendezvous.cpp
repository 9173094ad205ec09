#include "sim/node/rendezvous.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/node/transport.hpp"

namespace starling {
namespace {

bool accepts(std::span<const Pattern> patterns, NodeId source, Tag tag) {
  return std::ranges::any_of(patterns, [&](const Pattern& p) { return p.matches(source, tag); });
}

}  // namespace

bool Rendezvous::may_start(std::uint32_t id, NodeId to, const Message& message,
                           const ReceiveWait* waits) {
  Box& box = boxes_[static_cast<std::size_t>(to)];
  // Messages of one source and tag keep their order, so a short one waits behind a long one.
  const bool follows = std::ranges::any_of(box.held, [&](const Held& held) {
    return held.source == message.source && held.tag == message.tag;
  });
  if (!follows) {
    if (!is_long(message) || std::ranges::count(box.posted, message.tag) > 0) return true;
    for (; waits != nullptr; waits = waits->next) {
      if (!accepts(waits->patterns, message.source, message.tag)) continue;
      if (served_.insert(waits).second) return true;
    }
  }
  box.held.push_back({id, message.source, message.tag, is_long(message)});
  return false;
}

std::vector<std::uint32_t> Rendezvous::on_receive(const ReceiveWait& wait, NodeId node) {
  std::vector<Held>& held = boxes_[static_cast<std::size_t>(node)].held;
  const auto first = std::ranges::find_if(
      held, [&](const Held& h) { return accepts(wait.patterns, h.source, h.tag); });
  if (first == held.end()) return {};
  served_.insert(&wait);
  const Held lead = *first;
  std::vector<std::uint32_t> ids;
  bool is_behind = true;  // no other long message between
  const auto rest = std::remove_if(first, held.end(), [&](const Held& h) {
    if (h.source != lead.source || h.tag != lead.tag) return false;
    if (h.is_long && h.id != lead.id) is_behind = false;
    if (is_behind) ids.push_back(h.id);
    return is_behind;
  });
  held.erase(rest, held.end());
  return ids;
}

std::vector<std::uint32_t> Rendezvous::on_poll(const Pattern& pattern, NodeId node) {
  std::vector<std::uint32_t> ids;
  std::erase_if(boxes_[static_cast<std::size_t>(node)].held, [&](const Held& h) {
    if (!pattern.matches(h.source, h.tag)) return false;
    ids.push_back(h.id);
    return true;
  });
  return ids;
}

std::vector<std::uint32_t> Rendezvous::post(NodeId node, Tag tag) {
  boxes_[static_cast<std::size_t>(node)].posted.push_back(tag);
  return on_poll(Pattern{any_source, tag}, node);
}

void Rendezvous::close(NodeId node, Tag tag) {
  std::vector<Tag>& posted = boxes_[static_cast<std::size_t>(node)].posted;
  const auto place = std::ranges::find(posted, tag);
  if (place != posted.end()) posted.erase(place);
}

void Rendezvous::begin(std::uint32_t id, const Message& message) {
  if (id >= send_order_.size()) send_order_.resize(id + std::size_t{1});
  send_order_[id] = sent_++;
  if (is_long(message)) ++sends_[{message.source, message.tag}].count;
}

void Rendezvous::note_start(const Message& message, Time network_since) {
  if (is_long(message)) sends_.at({message.source, message.tag}).network_since = network_since;
}

TimedWait* Rendezvous::end(const Message& message) {
  if (!is_long(message)) return nullptr;
  const auto sends = sends_.find({message.source, message.tag});
  if (--sends->second.count > 0) return nullptr;
  TimedWait* wait = sends->second.wait;
  if (wait != nullptr) wait->network_since = sends->second.network_since;
  sends_.erase(sends);
  return wait;
}

void Rendezvous::wait(NodeId node, Tag tag, TimedWait& wait) {
  Sends& sends = sends_.at({node, tag});
  ensure(sends.wait == nullptr,
         "two fibres of a node wait until what it sent by one tag is through");
  sends.wait = &wait;
}

bool Rendezvous::add_startable(std::uint32_t id) {
  startable_.push_back(id);
  return startable_.size() == 1;
}

std::vector<std::uint32_t> Rendezvous::take_startable() {
  std::ranges::sort(startable_, {}, [&](std::uint32_t id) { return send_order_[id]; });
  return std::exchange(startable_, {});
}

std::string Rendezvous::describe() const {
  constexpr std::size_t most = 8;
  std::string text;
  std::size_t count = 0;
  for (std::size_t to = 0; to < boxes_.size(); ++to) {
    for (const Held& held : boxes_[to].held) {
      if (++count > most) continue;
      text += fmt::format("{}node {} has posted no receive for a message of node {} ({})",
                          count == 1 ? "" : "; ", to, held.source, describe_tag(held.tag));
    }
  }
  if (count > most) text += fmt::format("; and {} more", count - most);
  return text;
}

}  // namespace starling
