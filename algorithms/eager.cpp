// eager-SGD: synchronous SGD whose allreduce does not wait for late nodes. With P nodes, at step t:
//
//   (R, in time) <- partial allreduce of g_i(x_i) / P over all nodes
//   x_i <- x_i - learning_rate * R
//
// A node that comes late gets the newest sum there is; its gradient stays in the send buffer.
// `solo`: the first node that comes starts the operation. `majority`: a node drawn for the step
// does, so that half of the nodes are in time on average. `chain`: the last of m drawn nodes does, so
// that about m / (m + 1) of the others are in time, too.
//
//   accumulate   the missed gradient is added to the next one: none is lost (the paper)
//   drop         the next one replaces it, unless it was taken before (the released code)
//
// `full_every` makes every so many-th operation an ordinary allreduce: no gradient waits longer.
//
// A late node skips sums, so models drift apart; every E steps they are made equal again: by their
// average, or by a copy of node 0's (the released code, a few times in a run). E is ours to choose,
// the paper says "periodically".
//
// Li, Ben-Nun, Di Girolamo, Alistarh, Hoefler, "Taming Unbalanced Training Workloads in Deep
// Learning with Partial Collective Operations", PPoPP 2020, Algorithm 2. partial_allreduce.hpp has
// the operation itself.

#include <bit>
#include <numeric>

#include "algorithms/averaging.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/partial_allreduce.hpp"
#include "algorithms/pieces.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct EagerSettings {
  ActivationPolicy activation;
  NodeId initiators = 1;
  LatePolicy late;
  Step full_every;         // 0: never
  Step synchronize_every;  // 0: never
  bool is_average;
  CollectiveKind collective{};  // of the average
  OptimizerSettings optimizer;
};

/// The model that all go on with after step t.
Task<Vector> synchronized(Node& node, const EagerSettings& settings, Step t, Vector x) {
  const Tag tag = tag_of(Channel::collective, t);
  if (settings.is_average) {
    x = co_await average(node, node.everybody(), tag, x, settings.collective);
  } else {
    x = co_await broadcast(node, tag, x);
  }
  co_return x;
}

Task<> run(Node& node, const EagerSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();

  std::vector<int> all_bits(
      static_cast<std::size_t>(std::countr_zero(static_cast<std::uint32_t>(node.nodes()))));
  std::iota(all_bits.begin(), all_bits.end(), 0);
  PartialAllreduce::Settings operations;
  operations.activation = settings.activation;
  operations.initiators = settings.initiators;
  operations.late = settings.late;
  operations.steps = node.steps();
  operations.has_operation = [](Step) { return true; };
  if (settings.full_every > 0) {
    operations.is_full = [every = settings.full_every](Step t) { return (t + 1) % every == 0; };
  }
  operations.bits = [all_bits](Step) { return all_bits; };
  PartialAllreduce partial(node, operations, node.zeros(x.size()));
  partial.begin();

  for (Step t = 0; t < node.steps(); ++t) {
    const Gradient g = co_await node.gradient_in_pieces(x);
    Vector share = g.values;
    share.scale(1.0 / node.nodes());
    const Time begin = node.now();
    const std::vector<PartialAllreduce::Result> results = co_await partial.enter(t, share);
    node.record("exchange_time", t, to_seconds(node.now() - begin));
    Parts sums(results.size());
    double late = 0;
    for (const PartialAllreduce::Result& r : results) {
      sums.add(r.sum);
      late += r.is_included ? 0 : 1;
    }
    const Vector sum = sums.join();
    optimizer.update(x, sum, x, t);
    node.record("is_late", t, late / static_cast<double>(results.size()));
    if (settings.synchronize_every > 0 && (t + 1) % settings.synchronize_every == 0) {
      x = co_await synchronized(node, settings, t, x);
    }
    co_await node.finish_backward();
    node.end_step(t, x);
  }
  co_await partial.finish();
}

}  // namespace

Program eager(const Section& section, const Context& context) {
  EagerSettings settings{};
  expect_power_of_two(section, "eager", context.nodes);
  struct Activation {
    ActivationPolicy policy;
    bool names_initiators = false;
  };
  const auto activation = section.choice<Activation>(
      "activation",
      {{"solo", {ActivationPolicy::solo}},
       {"majority", {ActivationPolicy::chain}},
       {"chain", {ActivationPolicy::chain, true}},
       {"full", {ActivationPolicy::full}}},
      "solo",
      "who starts an operation: the first that comes, one drawn node, the last of "
      "several drawn ones, or nobody before all are there");
  settings.activation = activation.policy;
  if (activation.names_initiators) {
    const auto initiators = section.required<std::int64_t>(
        "initiators", "drawn nodes that must have come before an operation starts");
    section.expect(initiators >= 1 && initiators <= context.nodes, "initiators",
                   "must be from 1 to {}, got {}", context.nodes, initiators);
    settings.initiators = static_cast<NodeId>(initiators);
  }
  settings.late = section.choice<LatePolicy>(
      "late", {{"accumulate", LatePolicy::accumulate}, {"drop", LatePolicy::drop}}, "accumulate",
      "a gradient that missed its operation: added to the next one, or replaced by it");
  settings.full_every =
      read_at_least(section, "full_every", 0, 0,
                    "every so many-th operation waits for all (32 in the released code); 0: none");
  warn_beyond_run(section, "full_every", settings.full_every, context,
                  "no operation waits for all");
  constexpr Step usual_period = 100;
  settings.synchronize_every =
      read_at_least(section, "synchronize_every", usual_period, 0,
                    "steps between two moments when models are made equal; 0: never");
  if (settings.synchronize_every != usual_period) {  // which may be right for longer runs
    warn_beyond_run(section, "synchronize_every", settings.synchronize_every, context,
                    "models are never made equal");
  }
  settings.is_average =
      section.choice<bool>("synchronize", {{"average", true}, {"broadcast", false}}, "average",
                           "all go on with the mean model, or with that of node 0");
  if (settings.is_average) settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
