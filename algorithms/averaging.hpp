// What the algorithms share that average models once per block of local steps (SlowMo, BMUF,
// DiLoCo, elastic averaging and their asynchronous relatives), built from the collectives and the
// optimizer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "algorithms/collectives.hpp"
#include "algorithms/momentum_policy.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {

/// Reads how many local steps there are between two exchanges.
Step read_period(const Section& section, const Context& context, Step fallback,
                 std::string_view key = "period",
                 std::string_view help = "local steps between two exchanges");
/// Steps between two exchanges that were read as `key`: at least 1. Warns of more than the run has.
Step check_period(const Section& section, std::string_view key, Step period,
                  const Context& context);

/// Reads `outer_learning_rate` and `outer_optimizer` with its keys: the rule that applies averaged
/// progress to the shared model. sgd has `outer_momentum` in Nesterov's form, plain SGD for 0. The
/// adaptive ones are FedOpt's (Reddi et al., "Adaptive Federated Optimization", ICLR 2021), whose
/// epsilon is large, as progress is much longer than a gradient.
OptimizerSettings read_outer_optimizer(const Section& section, double learning_rate,
                                       double momentum);

/// Mean over `members` of their `v`; the conditions are those of allreduce().
Task<Vector> average(Node& node, std::span<const NodeId> members, Tag tag, Vector v,
                     CollectiveKind kind);

/// Reads `momentum_policy` of averages. Without `can_average` only keep and reset are offered; without moments only `fallback` is.
MomentumPolicy read_momentum_policy(const Section& section, const OptimizerSettings& optimizer,
                                    MomentumPolicy fallback, bool can_average = true);
/// Keeps, averages or forgets the momentum and moments of `optimizer`. They are averaged over `members`, first
/// and second moments in one message, the bytes of one or two models.
Task<> apply_momentum_policy(Node& node, std::span<const NodeId> members, Tag tag,
                             MomentumPolicy policy, Optimizer& optimizer, CollectiveKind kind);

/// The `x` of node 0, sent to all down a binomial tree.
Task<Vector> broadcast(Node& node, Tag tag, Vector x);

/// Sum over all nodes of their `number`, the same bits on each: up a binomial tree to node 0, each
/// parent adding its children in order, and back. One sum with one `tag` at a time.
Task<double> sum_of_numbers(Node& node, Tag tag, double number);

}  // namespace starling::algorithms
