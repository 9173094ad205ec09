// GC-DC: gradient coding with dynamic clustering. The n nodes form `clusters` of l = n / clusters; the data
// of a cluster's nodes are its l parts, and each cluster runs its own gradient code, which does without
// `stragglers` of its nodes. A node holds the data of its own cluster and of the next one, so it can serve
// either: before each step the server spreads the nodes that were slow in the last one over the clusters.
//
//   node i    c_i <- sum_p B_rp g_p(x_k) over the parts p of the cluster, and with the row r, that it is assigned to
//   server    once every cluster has answers that suffice: sum of all clusters' sums, step, next model and assignments
//
// The result is the exact mean gradient whoever is slow, as in gradient_coding.cpp; with one cluster it is
// that. Gradient coding with the same load does without `stragglers` nodes in all, this does without as many
// in each cluster if they can be spread; it helps if slow nodes stay slow for longer than a step.
//
// A node was slow if it had not answered when the step closed, or took longer than `slow_factor` times
// the median. Placement, this rule and the assignment (clustering.hpp) are ours: the papers leave them to
// the system. The assignment travels in the header of the model. The metric "moved" counts nodes that serve
// away from home.
//
// Buyukates, Ozfatura, Ulukus, Gunduz, "Gradient Coding with Dynamic Clustering for Straggler Mitigation", ICC 2021.

#include <algorithm>
#include <memory>
#include <optional>

#include "algorithms/clustering.hpp"
#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/gradient_code.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct GcDcSettings {
  std::shared_ptr<SharedGradientCode> code;  // of one cluster
  std::size_t clusters;
  bool reassigns;
  double slow_factor;
  OptimizerSettings optimizer;
};

/// One step as the server sees it.
class Round {
 public:
  Round(const std::vector<Assignment>& assignments, const GradientCode& code, std::size_t clusters)
      : assignments_(assignments),
        arrivals_(assignments.size()),
        answers_(clusters, CodedAnswers(code, assignments.size() / clusters)),
        sums_(clusters) {}

  void take(const Message& m, Duration after) {
    const auto source = static_cast<std::size_t>(m.source);
    const Assignment at = assignments_[source];
    arrivals_[source] = after;
    answers_[at.cluster].take(at.row, m.values);
    if (!sums_[at.cluster]) sums_[at.cluster] = answers_[at.cluster].sum();
  }

  bool is_complete() const {
    return std::ranges::all_of(sums_, [](const Vector& sum) { return bool(sum); });
  }
  /// Over all parts of all clusters.
  Vector sum() const {
    Vector sum = sums_[0];
    for (std::size_t c = 1; c < sums_.size(); ++c) sum.add(sums_[c]);
    return sum;
  }
  std::vector<bool> slow(double factor) const {
    std::vector<Duration> times;
    for (const auto& arrival : arrivals_) {
      if (arrival) times.push_back(*arrival);
    }
    std::ranges::sort(times);
    const double limit = factor * to_seconds(times[(times.size() - 1) / 2]);
    std::vector<bool> slow;
    slow.reserve(arrivals_.size());
    for (const auto& arrival : arrivals_) slow.push_back(!arrival || to_seconds(*arrival) > limit);
    return slow;
  }

 private:
  const std::vector<Assignment>& assignments_;
  std::vector<std::optional<Duration>> arrivals_;  // (nodes), since the step began
  std::vector<CodedAnswers> answers_;              // (clusters), by row
  std::vector<Vector> sums_;                       // (clusters), empty until decoded
};

Task<> serve(Node& node, const GcDcSettings& settings) {
  const auto n = static_cast<std::size_t>(node.nodes());
  const std::size_t size = n / settings.clusters;
  const GradientCode& code = settings.code->of(node);
  Optimizer optimizer(settings.optimizer);
  std::vector<bool> slow(n);
  Vector x = node.initial_model();
  node.post_receives(tag_of(Channel::request));
  for (Step k = 0; k < node.steps(); ++k) {
    const std::vector<Assignment> assignments =
        assign_clusters(slow, settings.clusters, settings.code->stragglers());
    std::int64_t moved = 0;
    for (std::size_t i = 0; i < n; ++i) moved += assignments[i].cluster != i / size ? 1 : 0;
    node.record("moved", k, static_cast<double>(moved));
    for (NodeId i = 0; i < node.nodes(); ++i) {
      const Assignment at = assignments[static_cast<std::size_t>(i)];
      node.send(i, tag_of(Channel::reply, k), x, static_cast<double>(at.cluster * size + at.row));
    }
    const Time begin = node.now();
    Round round(assignments, code, settings.clusters);
    while (!round.is_complete()) {
      const Message m = co_await node.receive(any_source, tag_of(Channel::request));
      if (static_cast<Step>(m.number) == k) round.take(m, node.now() - begin);
    }
    if (settings.reassigns) slow = round.slow(settings.slow_factor);
    Vector mean = round.sum();
    mean.scale(1.0 / node.nodes());
    optimizer.update(x, mean, x, k);
  }
  node.close_receives(tag_of(Channel::request));
  for (NodeId i = 0; i < node.nodes(); ++i) {
    node.send(i, tag_of(Channel::reply, node.steps()), x);
  }
}

Task<> run(Node& node, const GcDcSettings& settings) {
  Companions companions(node);
  const GradientCode& code = settings.code->of(node);
  const std::size_t size = static_cast<std::size_t>(node.nodes()) / settings.clusters;
  if (node.id() == 0) companions.spawn(serve(node, settings));
  Message model = co_await node.receive(0, tag_of(Channel::reply, 0));
  for (Step k = 0; k < node.steps(); ++k) {
    const auto place = static_cast<std::size_t>(model.number);
    const std::size_t first_part = place / size * size;
    model = co_await answer(node, code.terms(place % size), static_cast<NodeId>(first_part), k,
                            model.values, tag_of(Channel::reply, k + 1));
    node.end_step(k, model.values);
  }
  co_await companions.join();
}

}  // namespace

Program gc_dc(const Section& section, const Context& context) {
  GcDcSettings settings{};
  const auto clusters =
      section.optional<std::int64_t>("clusters", 2, "groups of nodes with a gradient code each");
  section.expect(clusters >= 1 && context.nodes % clusters == 0, "clusters",
                 "must divide the {} nodes, got {}", context.nodes, clusters);
  settings.clusters = static_cast<std::size_t>(clusters);
  const std::int64_t size = clusters >= 1 ? context.nodes / clusters : 1;
  settings.code = read_gradient_code(section, size, " in each cluster");
  settings.reassigns =
      section.optional<bool>("reassign", true, "spread slow nodes over the clusters");
  settings.slow_factor = read_between(section, "slow_factor", 1.5, 1, 1e9,
                                      "a node is slow if it takes this many times the median");
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
