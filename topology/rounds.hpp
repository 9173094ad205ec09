// Topologies drawn anew at every step. A Topology is periodic, so their schedule is drawn once, for
// `rounds` steps, and then repeats: whoever sends or receives at a step is known to all without a word,
// and a run is repeatable. A period of some hundred steps mixes as independent draws do.
#pragma once

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"

namespace starling::topologies {

/// Reads the key `rounds`.
Step read_rounds(const Section& section);
/// Fails if a schedule with one arc per node and round would not fit into memory.
void expect_rounds_fit(const Section& section, Step rounds, NodeId nodes);

/// i + offset modulo nodes, for 0 <= offset < nodes.
constexpr NodeId shifted(NodeId i, NodeId offset, NodeId nodes) {
  return static_cast<NodeId>((static_cast<std::int64_t>(i) + offset) % nodes);
}

}  // namespace starling::topologies
