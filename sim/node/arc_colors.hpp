// ArcColors: in which turn does each node of a directed graph send to each of its receivers, so that in no turn two send to
// one? Colors of arcs such that those that leave a node differ, and those that enter one: as many as the largest degree
// are enough (König 1916). A node sends in order of color and leaves no turn out, so where degrees differ some still send to one
// in the same turn, mostly fewer than by going around. Arcs are colored in order of sender, then of receiver, each with the first
// color that no arc from its sender has; where an arc into its receiver has it, that color and the first one free there are
// swapped along the path of arcs that begins with that one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/types.hpp"

namespace starling {

struct ArcColors {
  std::vector<std::size_t>
      begin;  // (nodes + 1): arcs that leave node i are those from begin[i] up to begin[i + 1]
  std::vector<NodeId> receivers;  // (arcs), in order within each node

  /// For each node its arcs, counted from its first, in order of turn; side by side as the arcs are. Empty if going around
  /// (from the first receiver above the node itself) has no two send to one, or where the graph is too large to find better.
  std::vector<std::uint32_t> turns() const;
};

}  // namespace starling
