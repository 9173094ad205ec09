// What failures change in the simulated transport: events of nodes that are away, and the sentence a
// run ends with when those who are left cannot go on.

#include <algorithm>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/engine/simulated_transport.hpp"

namespace starling {

std::optional<NodeId> SimulatedTransport::node_of(std::uint64_t payload) const {
  switch (kind_of(payload)) {
    case Kind::resume:
      return fibre_of(payload).node;
    case Kind::delivery:
      if (in_flight_[place_of(payload)].leg == Leg::out) break;  // it has left its sender
      return destination_of(payload);
    case Kind::deadline:
      if (const ReceiveWait* wait = timers_[payload >> kind_bits]) return wait->fibre->node;
      break;
    case Kind::network_timer:
    case Kind::back:
    case Kind::leave:
      break;
  }
  return std::nullopt;
}

bool SimulatedTransport::is_held_back(std::uint64_t payload) {
  const std::optional<NodeId> node = node_of(payload);
  if (!node) return false;
  // What comes at the very instant of return queues up behind what came before.
  const auto waiting = held_back_.find(*node);
  if (waiting != held_back_.end()) {
    waiting->second.push_back({now_, payload});
    return true;
  }
  const std::optional<Time> end = settings_.failures->away_until(*node, now_);
  if (!end) return false;
  if (*end == never) {
    drop(*node, payload);
  } else {
    held_back_[*node].push_back({now_, payload});
    schedule(*end, Kind::back, static_cast<std::uint64_t>(*node));
  }
  return true;
}

void SimulatedTransport::come_back(NodeId node) {
  const std::vector<HeldBack> held = std::move(held_back_.at(node));
  held_back_.erase(node);
  catching_up_.assign(held.begin(), held.end());
  while (!catching_up_.empty()) {
    const std::uint64_t payload = catching_up_.front().payload;
    catching_up_.pop_front();
    happen(payload);
  }
}

bool SimulatedTransport::has_missed(const ReceiveWait& wait) {
  // Only fibres of the node that is back run while anything is left.
  if (catching_up_.empty() || wait.deadline >= now_) return false;
  const auto later = std::ranges::upper_bound(catching_up_, wait.deadline, {}, &HeldBack::time);
  catching_up_.insert(later, {wait.deadline, payload_of(Kind::deadline, wait.timer)});
  return true;
}

void SimulatedTransport::drop(NodeId stopped, std::uint64_t payload) {
  note_stop(stopped);
  if (kind_of(payload) == Kind::delivery) lose(place_of(payload));
}

void SimulatedTransport::note_stop(NodeId node) {
  std::vector<NodeId>& stopped = failed_.stopped_nodes;
  const auto place = std::lower_bound(stopped.begin(), stopped.end(), node);
  if (place != stopped.end() && *place == node) return;
  stopped.insert(place, node);
  if (settings_.on_stop) settings_.on_stop(node);
}

void SimulatedTransport::lose(std::uint32_t id) {
  const InFlight lost = std::exchange(in_flight_[id], {});
  leave_lane(lost);
  free_in_flight_.push_back(id);
  ++failed_.lost_messages;
  last_loss_ = fmt::format("from node {} to node {} ({}), due at {:.6g} s", lost.message.source,
                           lost.destination, describe_tag(lost.message.tag), to_seconds(now_));
}

std::string SimulatedTransport::describe_failures() const {
  constexpr std::size_t most = 8;
  std::string text;
  const std::vector<NodeId>& stopped = failed_.stopped_nodes;
  for (std::size_t i = 0; i < std::min(stopped.size(), most); ++i) {
    const std::optional<Time> since = settings_.failures->stopped(stopped[i], now_);
    text += fmt::format("node {} stopped at {:.6g} s; ", stopped[i], to_seconds(*since));
  }
  if (stopped.size() > most) text += fmt::format("{} more nodes stopped; ", stopped.size() - most);
  if (failed_.lost_messages > 0) {
    text += fmt::format("{} message{} lost, the last {}; ", failed_.lost_messages,
                        failed_.lost_messages == 1 ? " was" : "s were", last_loss_);
  }
  return text;
}

std::string SimulatedTransport::describe_meetings() const {
  constexpr std::size_t most = 4;
  std::vector<std::pair<Tag, NodeId>> names;
  for (const auto& [name, rooms] : meetings_) names.emplace_back(name.second, name.first);
  std::sort(names.begin(), names.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    const auto [tag, first] = names[i];
    for (const Meeting& room : meetings_.at({first, tag})) {
      const auto absent = static_cast<std::size_t>(
          std::find(room.waits.begin(), room.waits.end(), nullptr) - room.waits.begin());
      text += fmt::format("; {} of {} nodes wait in a collective ({}) for node {}", room.arrived,
                          room.members.size(), describe_tag(tag), room.members[absent]);
      if (room.arrived + 1 < room.members.size())
        text += fmt::format(" and {} more", room.members.size() - room.arrived - 1);
    }
  }
  return text;
}

std::vector<NodeId> SimulatedTransport::note_stops() {
  std::vector<NodeId> left = unfinished_nodes();
  if (settings_.failures == nullptr) return left;
  std::erase_if(left, [&](NodeId node) {
    const bool has_stopped = settings_.failures->away_until(node, now_) == never;
    if (has_stopped) note_stop(node);
    return has_stopped;
  });
  return left;
}

void SimulatedTransport::end_run() {
  const std::vector<NodeId> waiting = note_stops();
  if (waiting.empty()) return;
  const std::string failures = describe_failures();
  const std::string held = network_.standstill();
  const std::string unasked = rendezvous_ == nullptr ? "" : rendezvous_->describe();
  throw Stalled(fmt::format("{} at {:.6g} s of virtual time: {}{}{}{}{}{}{}",
                            failures.empty() ? "deadlock" : "stalled", to_seconds(now_), failures,
                            describe_waiting(waiting), describe_meetings(),
                            held.empty() ? "" : "; ", held, unasked.empty() ? "" : "; ", unasked));
}

}  // namespace starling
