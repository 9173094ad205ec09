// WAGMA-SGD: wait-avoiding group model averaging. Every step, models are averaged inside groups of S nodes by a
// partial allreduce that nobody waits long for; groups rotate so that an update reaches all P nodes after log_S P
// steps; every tau-th step is an ordinary allreduce over all, which bounds staleness by tau - 1.
//
//   W'  <- x - learning_rate * g(x)
//   step t with (t+1) mod tau != 0:  R <- partial allreduce of W' over the group of step t
//       in time:  x <- R / S          late:  x <- (R + W') / (S + 1)
//   otherwise:    x <- mean over all nodes of W'
//
// The group of step t: nodes whose numbers differ only in the bits (t log2 S + r) mod log2 P, r < log2 S.
//
// Li et al., "Breaking (Global) Barriers in Parallel Stochastic Optimization with Wait-Avoiding Group Averaging",
// IEEE TPDS 2021, Algorithm 2. The pseudocode there shifts its mask cumulatively, which does not give its own
// example; example, figure and code agree with the rule above. After a global step the buffer from which late
// nodes contribute holds the synchronized model. `activation = full` waits for every member of the group. With
// `exchange = tensors`, as in the released code, every tensor is an operation of its own: "in time" is said of tensors.
// Momentum stays on its node; `momentum_policy` may have it averaged, or forgotten, where all nodes average.
//
// rule = released is the authors' code, which averages models before the step and counts every node's own model once more:
//
//   x <- (R + x) / (S + 1), in time or late, or the mean over all nodes;   then   x <- x - learning_rate * g
//
// with g of the model before. (Where log2 S does not divide log2 P its groups are smaller, but its divisor is not; here groups
// are those of the paper.)

#include "algorithms/wagma.hpp"

#include <bit>

#include "algorithms/averaging.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/partial_allreduce.hpp"
#include "algorithms/pieces.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {

std::vector<int> wagma_bits(Step t, NodeId nodes, NodeId group_size, bool is_dynamic) {
  const int all = std::countr_zero(static_cast<std::uint32_t>(nodes));
  const int own = std::countr_zero(static_cast<std::uint32_t>(group_size));
  std::vector<int> bits;
  for (int r = 0; r < own; ++r) {
    const Step first = is_dynamic ? t * own : 0;
    bits.push_back(static_cast<int>((first + r) % all));
  }
  return bits;
}

namespace {

struct WagmaSettings {
  NodeId group_size;
  Step tau;
  bool is_dynamic;
  ActivationPolicy activation;
  bool is_released;
  CollectiveKind collective;
  OptimizerSettings optimizer;
  MomentumPolicy momentum_policy;  // of global steps
};

/// What becomes of a node's model `own`, piece by piece, from the sums over its group.
Vector group_average(const Node& node, const std::vector<PartialAllreduce::Result>& results,
                     const Vector& own, bool is_released) {
  const Cut cut(node, own);
  Parts averages(cut.count());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    Vector average = results[i].sum;
    const bool adds_own = is_released || !results[i].is_included;
    if (adds_own) average.add(cut.part(i));
    average.scale(1.0 / (results[i].contributors + (adds_own ? 1 : 0)));
    averages.add(std::move(average));
  }
  return averages.join();
}

Task<> run(Node& node, const WagmaSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const std::span<const NodeId> everybody = node.everybody();
  const Step tau = settings.tau;
  Vector x = node.initial_model();

  const NodeId nodes = node.nodes();
  PartialAllreduce::Settings operations;
  operations.activation = settings.activation;
  operations.late = LatePolicy::replace;
  operations.steps = node.steps();
  operations.has_operation = [tau](Step t) { return (t + 1) % tau != 0; };
  operations.bits = [=](Step t) {
    return wagma_bits(t, nodes, settings.group_size, settings.is_dynamic);
  };
  PartialAllreduce partial(node, operations, x);
  partial.begin();

  for (Step t = 0; t < node.steps(); ++t) {
    const Gradient g = co_await node.gradient_in_pieces(x);
    const Vector old = x;
    Vector w = x;
    if (!settings.is_released) optimizer.update(w, g.values, old, t);
    if ((t + 1) % tau == 0) {
      partial.set_buffer(w, t);
      x = co_await average(node, everybody, tag_of(Channel::collective, t), w, settings.collective);
      partial.set_buffer(x, t);
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::tracker, t),
                                     settings.momentum_policy, optimizer, settings.collective);
    } else {
      const std::vector<PartialAllreduce::Result> results = co_await partial.enter(t, w);
      x = group_average(node, results, w, settings.is_released);
    }
    if (settings.is_released) optimizer.update(x, g.values, old, t);
    co_await node.finish_backward();
    node.end_step(t, x);
  }
  co_await partial.finish();
}

}  // namespace

Program wagma(const Section& section, const Context& context) {
  WagmaSettings settings{};
  const NodeId nodes = context.nodes;
  const int bits = std::bit_width(static_cast<std::uint32_t>(nodes)) - 1;
  const auto size = section.optional<std::int64_t>(
      "group_size", std::int64_t{1} << ((bits + 1) / 2),
      "nodes that average at one step: a power of two, at most run.nodes, which must be one, too");
  section.expect(size > 0 && std::has_single_bit(static_cast<std::uint64_t>(size)), "group_size",
                 "must be a power of two, got {}", size);
  section.expect(size <= nodes, "group_size", "must be at most the number of nodes ({}), got {}",
                 nodes, size);
  expect_power_of_two(section, "wagma", nodes);
  settings.group_size = static_cast<NodeId>(size);
  settings.tau = read_at_least(section, "tau", 10, 1, "every tau-th step averages over all nodes");
  warn_beyond_run(section, "tau", settings.tau, context, "groups alone average");
  settings.is_dynamic = section.choice<bool>("groups", {{"dynamic", true}, {"fixed", false}},
                                             "dynamic", "whether groups rotate from step to step");
  settings.activation = section.choice<ActivationPolicy>(
      "activation", {{"solo", ActivationPolicy::solo}, {"full", ActivationPolicy::full}}, "solo",
      "who may start a group operation: the first that comes, or nobody before all "
      "members are there");
  settings.is_released = section.choice<bool>(
      "rule", {{"paper", false}, {"released", true}}, "paper",
      "step before averaging, late models once more; or as the authors' code: step "
      "after it, every node's model once more");
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context);
  if (!settings.is_released) expect_steps_by_piece(section, settings.optimizer);
  settings.momentum_policy =
      read_momentum_policy(section, settings.optimizer, MomentumPolicy::keep);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
