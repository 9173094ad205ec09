#include "sim/engine/replay.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/node/transport.hpp"

namespace starling {
namespace {

std::string to_text(const Act& act) {
  switch (act.kind) {
    case Act::Kind::delivery:
      return fmt::format("gets a message of node {} ({})", act.who, describe_tag(act.what));
    case Act::Kind::resume:
      return fmt::format("goes on with its fibre {}", act.who);
    case Act::Kind::deadline:
      return fmt::format("sees a deadline of its fibre {} pass", act.who);
    case Act::Kind::clock:
      return "asks for the time";
  }
  return "";
}

}  // namespace

bool Replay::is_next(NodeId node, const Act& act) {
  const auto i = static_cast<std::size_t>(node);
  if (next_[i] == acts_[i].size() || acts_[i][next_[i]] != act) return false;
  ++next_[i];
  return true;
}

Time Replay::read_clock(NodeId node) {
  const auto i = static_cast<std::size_t>(node);
  if (next_[i] == acts_[i].size() || acts_[i][next_[i]].kind != Act::Kind::clock) {
    throw Error(fmt::format("{}, but here it asks for the time", describe_next(i)));
  }
  return Time{Duration{static_cast<std::int64_t>(acts_[i][next_[i]++].what)}};
}

void Replay::hold(NodeId node, const Act& act, std::uint64_t event) {
  early_[static_cast<std::size_t>(node)].push_back({act, event});
}

std::optional<std::uint64_t> Replay::release(NodeId node) {
  std::vector<Early>& early = early_[static_cast<std::size_t>(node)];
  const auto found =
      std::ranges::find_if(early, [&](const Early& held) { return is_next(node, held.act); });
  if (found == early.end()) return std::nullopt;
  const std::uint64_t event = found->event;
  early.erase(found);
  return event;
}

std::optional<std::uint64_t> Replay::withdraw(NodeId node, const Act& act) {
  std::vector<Early>& early = early_[static_cast<std::size_t>(node)];
  const auto found = std::ranges::find(early, act, &Early::act);
  if (found == early.end()) return std::nullopt;
  const std::uint64_t event = found->event;
  early.erase(found);
  return event;
}

bool Replay::is_at_cut() const {
  return is_cut_ && std::ranges::equal(next_, acts_, {}, {}, &std::vector<Act>::size);
}

std::string Replay::describe_next(std::size_t node) const {
  const std::vector<Act>& acts = acts_[node];
  const std::size_t next = next_[node];
  return fmt::format("in the recorded run node {}, after {} acts, {}", node, next,
                     next == acts.size() ? "is at its end" : to_text(acts[next]));
}

std::string Replay::describe_mismatch() const {
  for (std::size_t i = 0; i < acts_.size(); ++i) {
    if (next_[i] == acts_[i].size() && (is_cut_ || early_[i].empty())) continue;
    return fmt::format(
        "{}, but here {}", describe_next(i),
        early_[i].empty() ? "nothing happens to it" : "it " + to_text(early_[i].front().act));
  }
  return "";
}

}  // namespace starling
