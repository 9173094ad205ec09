// Streaming DiLoCo: DiLoCo that exchanges the model in fragments, one after the other, in the
// background. Fragment p of F is due after every `period` steps, at an offset of its own; then,
// with the outer copy theta_p,
//
//   D_p <- mean_i (theta_p - x_i,p)       an allreduce beside the next `delay` local steps; then
//   m_p <- mu * m_p + D_p;   theta_p <- theta_p - eta * (D_p + mu * m_p)
//   x_i,p <- local_share * x_i,p + (1 - local_share) * theta_p
//
// Fragment p is due after step k if k + 1 = (p + 1) period / F modulo `period`: each once per
// period, evenly spread, so that the network is busy with one F-th of the model at a time.
//
// Douillard et al., "Streaming DiLoCo with Overlapping Communication: Towards a Distributed Free
// Lunch", 2025. Defaults: period 100, delay 1 and local_share 0.5 after the paper; eta = 0.7,
// mu = 0.9 and 4 fragments are ours. Fragments are consecutive pieces of the parameters. With one
// fragment, delay 0 and local_share 0 this is DiLoCo. What began in the last `delay` steps is not merged.
//
// Inner optimizer state stays on its node, as published, unless `momentum_policy` says otherwise: averaged, that of a
// fragment goes with its outer gradient and is merged with it, with the same share of one's own; reset, it is forgotten
// when the fragment is merged.
//
// The paper sends outer gradients in 4 bits (E3M0) and adds them up in full precision: compression = float4, or any
// other codec. Codes do not add, so each goes around a ring to all others, (n - 1) d / 2 bytes per node and period: few nodes
// gain. What a code loses is lost unless `error_feedback` returns it.

#include <algorithm>
#include <list>

#include "algorithms/block_mean.hpp"
#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/shards.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct StreamingDilocoSettings {
  Step period;
  NodeId fragments;
  Step delay;
  double local_share;
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;  // of outer gradients
  OptimizerSettings outer;
  OptimizerSettings inner;
  OptimizerSettings inner_of_fragment;  // without clip_norm, which needs the whole gradient

  /// Whether fragment p begins its exchange after step k.
  bool is_due(NodeId p, Step k) const {
    // (p + 1) period / F, of a period that may be as long as numbers are
    const Step offset =
        (p + 1) * (period / fragments) + (p + Step{1}) * (period % fragments) / fragments;
    return (k + 1 - offset) % period == 0;
  }
};

/// One fragment and its exchange. All nodes exchange the same fragments in the same order.
struct Fragment {
  Fragment(Node& node, const StreamingDilocoSettings& settings, NodeId p)
      : node(node),
        settings(settings),
        mean(node, settings.mean),
        theta(shard(node.initial_model(), p, settings.fragments)),
        outer(settings.outer),
        inner(settings.inner_of_fragment),
        exchange(node) {}

  Node& node;
  const StreamingDilocoSettings& settings;
  BlockMean mean;
  Vector theta;
  Optimizer outer;
  Optimizer inner;  // unless all fragments share one
  Vector gradient;  // D_p, own until averaged
  Vector moments;   // of `inner`, the same; empty if they stay
  Step begun = -1;  // step after which the exchange under way began; -1: none
  Companions exchange;
};

/// `number` counts the exchanges of all fragments.
Task<> exchange_gradient(Fragment& fragment, Step number) {
  Node& node = fragment.node;
  fragment.gradient = co_await fragment.mean.of_progress(tag_of(Channel::collective, number),
                                                         fragment.gradient, number);
  if (fragment.moments) {
    fragment.moments = co_await average(node, node.everybody(), tag_of(Channel::tracker, number),
                                        fragment.moments, fragment.settings.mean.collective);
  }
}

void begin_exchange(Fragment& fragment, const Vector& piece, NodeId p, Step k) {
  fragment.gradient = difference(fragment.theta, piece);
  if (fragment.settings.momentum_policy == MomentumPolicy::average)
    fragment.moments = fragment.inner.moments();
  fragment.begun = k;
  fragment.exchange.spawn(exchange_gradient(fragment, k * fragment.settings.fragments + p));
}

Vector merged(double share, Vector own, const Vector& common) {
  if (share == 0) return common;
  own.scale(share);
  own.add_scaled(1 - share, common);
  return own;
}

/// The piece of the model after the outer step.
Vector merge(Fragment& fragment, Vector piece) {
  fragment.outer.update(fragment.theta, fragment.gradient, fragment.theta, fragment.begun);
  fragment.begun = -1;
  const double share = fragment.settings.local_share;
  if (fragment.settings.momentum_policy == MomentumPolicy::reset) fragment.inner.forget();
  if (fragment.moments)
    fragment.inner.set_moments(merged(share, fragment.inner.moments(), fragment.moments));
  return merged(share, std::move(piece), fragment.theta);
}

/// An inner step of every fragment by its own optimizer; the new model.
Vector step_of_fragments(std::list<Fragment>& fragments, const StreamingDilocoSettings& settings,
                         const Vector& x, const Vector& gradient, Step k) {
  const Vector g = clipped(settings.inner, gradient);
  std::vector<Vector> pieces;
  NodeId p = 0;
  for (Fragment& fragment : fragments) {
    Vector piece = shard(x, p, settings.fragments);
    fragment.inner.update(piece, shard(g, p, settings.fragments), piece, k);
    pieces.push_back(std::move(piece));
    ++p;
  }
  return join_shards(pieces);
}

Task<> run(Node& node, const StreamingDilocoSettings& settings) {
  Optimizer inner(settings.inner);
  Vector x = node.initial_model();
  std::list<Fragment> fragments;  // exchanges keep their addresses
  for (NodeId p = 0; p < settings.fragments; ++p) fragments.emplace_back(node, settings, p);
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    if (settings.momentum_policy == MomentumPolicy::keep) {
      inner.update(x, g.values, x, k);
    } else {
      x = step_of_fragments(fragments, settings, x, g.values, k);
    }

    std::vector<Vector> pieces;
    NodeId p = 0;
    bool is_changed = false;
    for (Fragment& fragment : fragments) {
      pieces.push_back(shard(x, p, settings.fragments));
      if (settings.is_due(p, k)) begin_exchange(fragment, pieces.back(), p, k);
      if (fragment.begun >= 0 && k == fragment.begun + settings.delay) {
        co_await fragment.exchange.join();
        pieces.back() = merge(fragment, pieces.back());
        is_changed = true;
      }
      ++p;
    }
    if (is_changed) x = join_shards(pieces);
    node.end_step(k, x);
  }
  for (Fragment& fragment : fragments)
    co_await fragment.exchange.join();  // begun in the last steps: not merged
}

}  // namespace

Program streaming_diloco(const Section& section, const Context& context) {
  StreamingDilocoSettings settings{};
  settings.period = read_period(section, context, 100);
  const auto parameters = static_cast<std::int64_t>(context.workload.parameters);
  const Step most = parameters > 0 ? std::min(settings.period, parameters)
                                   : settings.period;  // 0: unknown, in `list`
  const auto fragments =
      section.optional<std::int64_t>("fragments", std::min<Step>(4, most),
                                     "pieces of the model that are exchanged one after the other");
  section.expect(
      fragments >= 1 && fragments <= most, "fragments",
      "must be from 1 to {}, no more than period and the parameters of the model, got {}", most,
      fragments);
  settings.fragments = static_cast<NodeId>(fragments);
  settings.delay = section.optional<std::int64_t>("delay", std::min<Step>(1, settings.period - 1),
                                                  "local steps that an exchange overlaps with");
  section.expect(settings.delay >= 0 && settings.delay < settings.period, "delay",
                 "must be at least 0 and less than period ({}), got {}", settings.period,
                 settings.delay);
  settings.local_share =
      read_between(section, "local_share", 0.5, 0, 0.999, "share of the own model in a merge");
  settings.outer = read_outer_optimizer(section, 0.7, 0.9);
  settings.inner = read_optimizer(section, context);
  settings.momentum_policy = read_momentum_policy(section, settings.inner, MomentumPolicy::keep);
  settings.mean = read_block_mean(section, context, settings.momentum_policy, false);
  section.expect(settings.momentum_policy == MomentumPolicy::keep || !settings.inner.projects,
                 "optimizer",
                 "must not be sgdp or adamp, which need whole matrices, unless momentum_policy = "
                 "keep: fragments have moments of their own");
  settings.inner_of_fragment = settings.inner;
  settings.inner_of_fragment.clip_norm = 0;
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
