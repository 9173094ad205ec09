#include "sim/engine/replay.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace starling {
namespace {

std::string to_text(const Act& act) {
  switch (act.kind) {
    case Act::Kind::delivery:
      return fmt::format("got a message of node {} (tag {})", act.who, act.tag);
    case Act::Kind::resume:
      return fmt::format("its fibre {} went on", act.who);
    case Act::Kind::deadline:
      return fmt::format("its fibre {} waited in vain", act.who);
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

std::string Replay::describe_mismatch() const {
  for (std::size_t i = 0; i < acts_.size(); ++i) {
    if (next_[i] == acts_[i].size() && early_[i].empty()) continue;
    const std::string recorded =
        next_[i] == acts_[i].size() ? std::string("ended") : to_text(acts_[i][next_[i]]);
    const std::string here =
        early_[i].empty() ? std::string("nothing happens") : to_text(early_[i].front().act);
    return fmt::format("in the recorded run node {} then {}, after {} acts, but here {}", i,
                       recorded, next_[i], here);
  }
  return "";
}

}  // namespace starling
