// Which nodes live on which rank: each hosts a block of consecutive ones.
#pragma once

#include "sim/base/types.hpp"

namespace starling {

/// Consecutive nodes [begin, end).
struct NodeBlock {
  NodeId begin;
  NodeId end;

  bool contains(NodeId node) const { return begin <= node && node < end; }
};

/// The nodes that live on `rank`; sizes differ by one at most.
NodeBlock block_of(int rank, int ranks, NodeId nodes);
/// Where `node` lives.
int rank_of(NodeId node, int ranks, NodeId nodes);

}  // namespace starling
