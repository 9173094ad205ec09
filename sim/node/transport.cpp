#include "sim/node/transport.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/node/peers.hpp"

namespace starling {
namespace {

constexpr std::array<std::string_view, 12> channel_names{
    "program", "collective", "activation", "partial",  "entry", "request",
    "reply",   "done",       "tracker",    "pairwise", "drift", "chain"};
static_assert(channel_names.size() == static_cast<std::size_t>(Channel::chain) + 1);

}  // namespace

std::string describe_tag(Tag tag) {
  const std::size_t channel = tag >> tag_number_bits;
  const auto part = (tag >> (tag_number_bits - tag_part_bits)) & ((Tag{1} << tag_part_bits) - 1);
  const auto number = tag & ((Tag{1} << (tag_number_bits - tag_part_bits)) - 1);
  const std::string name = channel < channel_names.size() ? std::string(channel_names[channel])
                                                          : fmt::format("channel {}", channel);
  return (channel == static_cast<std::size_t>(Channel::program) ? "" : name + ", ") +
         fmt::format("tag {}", number) + (part == 0 ? "" : fmt::format(", part {}", part));
}

namespace {

std::string describe(const Pattern& pattern) {
  const std::string who = pattern.source == any_source ? std::string("anybody")
                                                       : fmt::format("node {}", pattern.source);
  return pattern.tag == any_tag ? who : fmt::format("{} ({})", who, describe_tag(pattern.tag));
}

}  // namespace

void Transport::spawn(NodeId node, std::int32_t number, Task<> task) {
  Fibre* fibre;
  if (free_fibres_.empty()) {
    fibre = &fibres_.emplace_back(node, number, std::move(task));
  } else {
    fibre = free_fibres_.back();
    free_fibres_.pop_back();
    std::destroy_at(fibre);
    std::construct_at(fibre, node, number, std::move(task));
  }
  if (current_ != nullptr) fibre->network_since = current_->network_since;
  start(*fibre);
}

void Transport::end(Fibre& fibre) {
  const NodeId node = fibre.node;
  Task<> task = std::move(fibre.task);
  free_fibres_.push_back(&fibre);
  try {
    task.result();
  } catch (const Interrupted&) {
    throw;
  } catch (const Diverged&) {
    throw;  // of a window that merely closed while this fibre ran
  } catch (const Lost&) {
    throw;  // the same
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Halted(fmt::format("node {} at {:.6g} s: {}", node, to_seconds(now()), error.what()));
  }
}

std::vector<NodeId> Transport::unfinished_nodes() const {
  std::vector<NodeId> nodes;
  for (const Fibre& fibre : fibres_) {
    if (fibre.task) nodes.push_back(fibre.node);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

std::vector<std::pair<NodeId, Transport::Suspended>> Transport::suspended() const {
  std::vector<std::pair<NodeId, Suspended>> all;
  for (const Fibre& fibre : fibres_) {
    if (fibre.task && fibre.is_program() && !suspended_.empty())
      all.emplace_back(fibre.node, suspended_[static_cast<std::size_t>(fibre.node)]);
  }
  return all;
}

std::string Transport::describe_waiting(const std::vector<NodeId>& nodes) const {
  constexpr std::size_t most = 8;
  std::string text;
  std::size_t named = 0;
  std::vector<NodeId> with_program;  // that has not ended
  for (const Fibre& fibre : fibres_) {
    if (fibre.task && fibre.is_program()) with_program.push_back(fibre.node);
  }
  std::ranges::sort(with_program);
  for (const NodeId node : nodes) {
    const ReceiveWait* wait = mailbox_.waiting(node);
    if (wait == nullptr && std::ranges::binary_search(with_program, node) && ++named <= most) {
      text += fmt::format("{}node {} waits for its own fibres or a collective",
                          text.empty() ? "" : "; ", node);
    }
    for (; wait != nullptr; wait = wait->next) {
      if (++named > most) continue;
      text += fmt::format("{}node {} waits for ", text.empty() ? "" : "; ", node);
      for (std::size_t p = 0; p < wait->patterns.size(); ++p) {
        text += (p > 0 ? " or " : "") + describe(wait->patterns[p]);
      }
      text += fmt::format(" since {:.6g} s", to_seconds(wait->since));
    }
  }
  if (named > most) text += fmt::format("; and {} more", named - most);
  return text;
}

}  // namespace starling
