// Patience: how long a node waits for one that may have stopped. Without it, the default, it waits
// for ever, as released implementations do, and the run ends with who waits for whom.
#pragma once

#include <optional>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// Reads `patience`; zero: for ever.
Duration read_patience(const Section& section);

/// When a wait that begins now ends for want of patience.
std::optional<Time> patience_ends(const Node& node, Duration patience);

}  // namespace starling::algorithms
