// What the algorithms share that average models once per block of local steps (SlowMo, BMUF,
// DiLoCo, elastic averaging and their asynchronous relatives), built from the collectives and the
// optimizer.
#pragma once

#include <span>
#include <string_view>

#include "algorithms/collectives.hpp"
#include "algorithms/context.hpp"
#include "algorithms/momentum_policy.hpp"
#include "algorithms/optimizer.hpp"

namespace starling::algorithms {

/// Reads how many local steps there are between two exchanges.
Step read_period(const Section& section, const Context& context, Step fallback,
                 std::string_view key = "period",
                 std::string_view help = "local steps between two exchanges");
/// Steps between two exchanges that were read as `key`: at least 1. Warns of more than the run has.
Step check_period(const Section& section, std::string_view key, Step period,
                  const Context& context);

/// Mean over `members` of their `v`; the conditions are those of allreduce().
Task<Vector> average(Node& node, std::span<const NodeId> members, Tag tag, Vector v,
                     CollectiveKind kind, const Piece* piece = nullptr);

/// Reads `momentum_policy` of averages. Without `can_average` only keep and reset are offered; without moments only `fallback` is.
MomentumPolicy read_momentum_policy(const Section& section, const OptimizerSettings& optimizer,
                                    MomentumPolicy fallback, bool can_average = true);
/// Keeps, averages or forgets the momentum and moments of `optimizer`. They are averaged over `members`, first
/// and second moments in one message, the bytes of one or two models.
Task<> apply_momentum_policy(Node& node, std::span<const NodeId> members, Tag tag,
                             MomentumPolicy policy, Optimizer& optimizer, CollectiveKind kind);

}  // namespace starling::algorithms
