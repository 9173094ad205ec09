// Mean of compressed vectors over all nodes. Codes do not add, so each travels to every node (allgather),
// which decodes them and sums in order of node: all get the same bits.
#pragma once

#include <span>

#include "algorithms/codec.hpp"

namespace starling::algorithms {

/// (1/n) sum_i of what the code of node i says, for vectors of `size` floats. `own` is this node's code at
/// step `k`, made with code_stream(node, node.id(), k). `members` are all nodes; `tag` as for allreduce().
Task<Vector> mean_of_codes(Node& node, std::span<const NodeId> members, Tag tag, SharedCodec codec,
                           Code own, std::size_t size, Step k);

/// read_compression() for such means: the help says where codes go.
Compression read_mean_compression(const Section& section, bool feeds_back = true,
                                  Tensors tensors = nullptr);

}  // namespace starling::algorithms
