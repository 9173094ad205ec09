// DaSGD: local SGD with delayed averaging. Models are averaged in the background while the nodes go
// on. Every `period` steps a snapshot s_i = x_i is given to an allreduce; `delay` local steps later
// its result is merged:
//
//   mix      x_i <- local_share * x_i + (1 - local_share) * mean_j s_j
//   delta    x_i <- x_i + mean_j s_j - s_i          keeps what was learned meanwhile; CoCoD-SGD with delay = period
//   anchor   after every `period`-th step, with the average begun one period before:
//            v <- anchor_momentum * v + mean_j s_j - z;   z <- z + v
//            x_i <- (1 - pull) x_i + pull * z;            s_i = x_i, the next average begins
//
// Momentum stays on its node; momentum_policy = average lets the moments travel behind the model and
// merges them as it (mix only: a correction could make second moments negative), reset forgets them at
// every merge.
//
// Nodes wait only for an allreduce that takes longer than the steps taken meanwhile. With delay = period the last
// average is merged before the next snapshot is taken, so one is always under way. What is under way
// after the last step is merged into the final model.
//
// mix: Zhou et al., "DaSGD: Squeezing SGD Parallelization Performance in Distributed Training Using
// Delayed Averaging", 2020 (the convex merge; the default share, 1/4, is ours). CoCoD-SGD
// (Shen, Xu, Liu, Chen, Cheng, "Faster Distributed Deep Net Training: Computation and Communication
// Decoupled Stochastic Gradient Descent", IJCAI 2019). anchor: Wang, Liang, Joshi, "Overlap
// Local-SGD: An Algorithmic Approach to Hide Communication Delays in Distributed SGD", ICASSP 2020;
// its released code holds v divided by the learning rate. The defaults of the anchor, 0.6 and 0.7,
// are ours.
//
// With `compression` nodes send codes of how far their snapshots are from the last average that all have (block_mean.hpp).

#include <algorithm>

#include "algorithms/block_mean.hpp"
#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

enum class Merge { mix, delta, anchor };

struct DasgdSettings {
  Step period;
  Merge merge;
  Step delay = 0;  // period with an anchor
  double local_share = 0;
  double pull = 0;
  double anchor_momentum = 0;
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;
  OptimizerSettings optimizer;
};

/// What the program shares with the average in the background.
struct State {
  State(Node& node, const DasgdSettings& settings)
      : average(node, settings.mean), mean(node.initial_model()), background(node) {}

  BlockMean average;
  Vector mean;      // of snapshots, the newest, which all nodes have
  Vector snapshot;  // empty if there is nothing to merge
  Companions background;
};

Task<> average_in_background(State& state, Step k) {
  state.mean = co_await state.average.of_models(tag_of(Channel::collective, k), state.snapshot,
                                                state.mean, k);
}

void begin_average(State& state, const Vector& v, Step k) {
  state.snapshot = v;
  state.background.spawn(average_in_background(state, k));
}

/// The anchor z and its momentum.
struct Anchor {
  Vector z;
  Vector v;

  void follow(const Vector& mean, double momentum) {
    v.scale(momentum);
    v.add(mean);
    v.add_scaled(-1.0, z);
    z.add(v);
  }
};

/// x <- share * x + (1 - share) * y
void mix(Vector& x, double share, const Vector& y) {
  x.scale(share);
  x.add_scaled(1 - share, y);
}

/// What is averaged: the model, and the moments behind it if they are, too.
Vector averaged(const Vector& x, const Optimizer& optimizer, const DasgdSettings& settings) {
  const Vector moments =
      settings.momentum_policy == MomentumPolicy::average ? optimizer.moments() : Vector{};
  if (!moments) return x;
  const Vector both[] = {x, moments};
  return concatenate(both);
}

void merge_average(Vector& x, Optimizer& optimizer, State& state, Anchor& anchor,
                   const DasgdSettings& settings) {
  if (settings.momentum_policy == MomentumPolicy::reset) optimizer.forget();
  if (settings.merge == Merge::mix) {
    Vector merged = averaged(x, optimizer, settings);
    mix(merged, settings.local_share, state.mean);
    const std::size_t size = x.size();
    x = merged.slice(0, size);
    if (merged.size() > size) optimizer.set_moments(merged.slice(size, merged.size() - size));
  } else if (settings.merge == Merge::delta) {
    x.add(state.mean);
    x.add_scaled(-1.0, state.snapshot);
  } else {
    anchor.follow(state.mean, settings.anchor_momentum);
  }
  state.snapshot = {};
}

Task<> run(Node& node, const DasgdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  State state(node, settings);
  Vector x = node.initial_model();
  Anchor anchor{.z = x, .v = node.zeros(x.size())};
  Step begun = 0;  // step after which the average under way began
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    const bool ends_period = (k + 1) % settings.period == 0;
    if (state.snapshot && k == begun + settings.delay) {
      co_await state.background.join();
      merge_average(x, optimizer, state, anchor, settings);
    }
    if (ends_period) {
      if (settings.merge == Merge::anchor) mix(x, 1 - settings.pull, anchor.z);
      begin_average(state, averaged(x, optimizer, settings), k);
      begun = k;
      if (settings.delay == 0) {
        co_await state.background.join();
        merge_average(x, optimizer, state, anchor, settings);
      }
    }
    node.end_step(k, x);
  }
  if (state.snapshot) {
    co_await state.background.join();
    merge_average(x, optimizer, state, anchor, settings);
    node.set_final_model(x);
  }
}

}  // namespace

Program dasgd(const Section& section, const Context& context) {
  DasgdSettings settings{};
  settings.period = read_period(section, context, 4);
  settings.merge = section.choice<Merge>(
      "merge", {{"mix", Merge::mix}, {"delta", Merge::delta}, {"anchor", Merge::anchor}}, "mix",
      "how a late average enters the model: weighted, as a correction, by an anchor");
  if (settings.merge == Merge::anchor) {
    settings.delay = settings.period;
    settings.pull =
        read_between(section, "pull", 0.6, 0, 1, "share of the anchor in the model after a pull");
    settings.anchor_momentum =
        read_between(section, "anchor_momentum", 0.7, 0, 0.999, "momentum of the anchor");
  } else {
    settings.delay =
        section.optional<std::int64_t>("delay", std::min<Step>(1, settings.period - 1),
                                       "local steps between a snapshot and the merge of its "
                                       "average; period, the most: just before the next snapshot");
    section.expect(settings.delay >= 0 && settings.delay <= settings.period, "delay",
                   "must be from 0 to period ({}), got {}", settings.period, settings.delay);
  }
  if (settings.merge == Merge::mix) {
    settings.local_share =
        read_between(section, "local_share", 0.25, 0, 1, "share of the own model in a merge");
  }
  settings.optimizer = read_optimizer(section, context);
  settings.momentum_policy = read_momentum_policy(section, settings.optimizer, MomentumPolicy::keep,
                                                  settings.merge == Merge::mix);
  settings.mean = read_block_mean(section, context, settings.momentum_policy);
  if (settings.momentum_policy == MomentumPolicy::average) {
    expect_whole(section, "momentum_policy = average: moments travel behind the model");
    section.expect(settings.mean.coded.is_exact(), "compression",
                   "must be none with momentum_policy = average: moments travel behind the model");
  }
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
