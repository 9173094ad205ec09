#include "sim/mpi/node_block.hpp"

#include <cstdint>

namespace starling {

NodeBlock block_of(int rank, int ranks, NodeId nodes) {
  const auto begin_of = [&](std::int64_t r) {
    return static_cast<NodeId>(std::int64_t{nodes} * r / ranks);
  };
  return {begin_of(rank), begin_of(rank + 1)};
}

int rank_of(NodeId node, int ranks, NodeId nodes) {
  // The last r with nodes * r / ranks <= node, that is nodes * r < (node + 1) * ranks.
  return static_cast<int>(((std::int64_t{node} + 1) * ranks - 1) / nodes);
}

}  // namespace starling
