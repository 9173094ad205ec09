// The grouping rule of WAGMA-SGD, apart, because it has a published example to be checked against.
#pragma once

#include <vector>

#include "sim/base/types.hpp"

namespace starling::algorithms {

/// Bits of the node number over which step t averages: (t log2 S + r) mod log2 P for r < log2 S, in that order;
/// r alone with fixed groups. P = `nodes` and S = `group_size` are powers of two.
std::vector<int> wagma_bits(Step t, NodeId nodes, NodeId group_size, bool is_dynamic);

}  // namespace starling::algorithms
