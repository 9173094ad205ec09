#include "algorithms/collective_hosts.hpp"

#include <algorithm>

#include "sim/base/error.hpp"

namespace starling::algorithms {
namespace {

/// Whether all hosts have `size` members, as the caller's has: seen alike by all.
template <class HostOf>
bool are_equal(std::span<const NodeId> members, std::size_t size, const HostOf& host_of) {
  if (members.size() % size != 0) return false;
  for (std::size_t at = 0; at < members.size(); at += size) {
    const NodeId host = host_of(members[at]);
    if (host_of(members[at + size - 1]) != host) return false;
    if (at > 0 && host_of(members[at - 1]) == host) return false;
  }
  return true;
}

}  // namespace

std::size_t place_of(const Node& node, std::span<const NodeId> members) {
  const auto place = std::lower_bound(members.begin(), members.end(), node.id());
  ensure(place != members.end() && *place == node.id(),
         "a collective without its caller, or of a list that is not sorted");
  return static_cast<std::size_t>(place - members.begin());
}

Hosts::Hosts(const Node& node, std::span<const NodeId> members) {
  const NodeId group = node.plan().collective_group;
  const auto host_of = [group](NodeId member) { return member / group; };
  const auto [first, last] = std::ranges::equal_range(members, host_of(node.id()), {}, host_of);
  own_ = {first, last};
  const NodeId nodes = node.nodes();
  const bool are_all = std::ssize(members) == nodes;
  if (are_all ? nodes > group && nodes % group != 0 : !are_equal(members, own_.size(), host_of)) {
    own_ = members.subspan(place_of(node, members), 1);
    across_ = members;
  } else if (are_all && nodes >= group) {
    across_ = node.of_same_place();  // n^2 / group in all, were there a list for each
  } else {
    for (std::size_t at = place_of(node, own_); at < members.size(); at += own_.size())
      list_.push_back(members[at]);
    across_ = list_;
  }
}

}  // namespace starling::algorithms
