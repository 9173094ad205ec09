// What happens to a node's momentum and moments where models are exchanged, the key `momentum_policy`: each node keeps its own,
// takes their average as it takes that of the models (averaging.hpp), mixes them with its neighbors' (moment_mixing.hpp), or
// forgets them. Averaging models alone is exact for a period of 1 only; for longer ones these are several algorithms.
#pragma once

#include <string_view>
#include <vector>

#include "algorithms/optimizer.hpp"
#include "sim/base/section.hpp"

namespace starling::algorithms {

enum class MomentumPolicy { keep, average, mix, reset };

/// Reads `momentum_policy`, one of those `offered`. Any but `fallback` is refused without momentum or moments, where it would change
/// nothing.
MomentumPolicy choose_momentum_policy(const Section& section, const OptimizerSettings& optimizer,
                                      const std::vector<MomentumPolicy>& offered,
                                      MomentumPolicy fallback, std::string_view help);

}  // namespace starling::algorithms
