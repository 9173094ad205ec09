// Who sums with whom in the collective `hierarchical` (collectives.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/node/node.hpp"

namespace starling::algorithms {

/// Index of the caller among the members of a collective.
std::size_t place_of(const Node& node, std::span<const NodeId> members);

/// The members that `hierarchical` takes for the caller's host, and those of all hosts in its place; itself alone and all members,
/// if hosts have unequal numbers of them.
class Hosts {
 public:
  Hosts(const Node& node, std::span<const NodeId> members);
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  std::span<const NodeId> own() const { return own_; }
  std::span<const NodeId> across() const { return across_; }

 private:
  std::span<const NodeId> own_, across_;
  std::vector<NodeId> list_;  // behind across_, if nobody else has it
};

}  // namespace starling::algorithms
