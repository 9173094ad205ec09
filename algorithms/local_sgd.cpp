// Local SGD (periodic model averaging): every node takes `period` steps on its own, then all models are averaged.
//
//   x_i <- x_i - learning_rate * g_i(x_i);   after every `period`-th step   x_i <- mean_j x_j
//
// Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019. Momentum buffers are kept by default, as
// in Lin et al., ICLR 2020; `average` and `reset` give other trajectories for period > 1.
//
// Post-local SGD: before `switch_step` every step is one of allreduce SGD,
//
//   x <- x - learning_rate * mean_i g_i(x)
//
// and periods count from there. Lin, Stich, Patel, Jaggi, "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020,
// who switch when the learning rate falls first.
//
// Hierarchical local SGD: between the averages of all, nodes average within groups of consecutive ones, as GPUs of a host or hosts of
// a rack are,
//
//   x_i <- mean_{j in group of i} x_j   after every `group_periods[l]`-th step, in groups of `group_sizes[l]`
//
// in the largest whose turn it is; the last group is smaller if it must be. One level is that of Lin et al. (H = group_periods local
// steps, H_b = period / group_periods block steps); more are in Wang, Wang, Chen, Ji, "Demystifying Why Local Aggregation Helps",
// AAAI 2022 (H-SGD).
//
// With `compression` nodes send codes of what they have moved since the last mean (block_mean.hpp): FedPAQ, Qsparse-local-SGD.

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "algorithms/averaging.hpp"
#include "algorithms/block_mean.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct Level {
  NodeId size;
  Step period;
};

struct LocalSgdSettings {
  Step period;
  Step switch_step;
  std::vector<Level> levels;  // from small groups to large ones
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;
  OptimizerSettings optimizer;
};

/// The nodes that average with this one after so many local steps: all, a group, or nobody.
std::span<const NodeId> averaging(const Node& node, const LocalSgdSettings& settings,
                                  Step local_steps) {
  if (local_steps <= 0) return {};
  if (local_steps % settings.period == 0) return node.everybody();
  for (const auto& [size, period] : settings.levels | std::views::reverse) {
    if (local_steps % period != 0) continue;
    const NodeId first = node.id() / size * size;
    const NodeId count = std::min(size, node.nodes() - first);
    return node.everybody().subspan(static_cast<std::size_t>(first),
                                    static_cast<std::size_t>(count));
  }
  return {};
}

Task<> run(Node& node, const LocalSgdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  BlockMean mean(node, settings.mean);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  Vector start = x;  // of the period
  for (Step k = 0; k < node.steps(); ++k) {
    Gradient g = co_await node.gradient_in_pieces(x);
    const Step local_steps = k + 1 - settings.switch_step;  // since the switch, with this one
    if (local_steps <= 0) {
      g.values = co_await average(node, everybody, tag_of(Channel::collective, 2 * k), g.values,
                                  settings.mean.collective);
    }
    optimizer.update(x, g.values, x, k);
    const std::span<const NodeId> members = averaging(node, settings, local_steps);
    if (members.size() == everybody.size()) {
      x = co_await mean.of_models(tag_of(Channel::collective, 2 * k), x, start, k);
      start = x;
    } else if (!members.empty()) {
      x = co_await average(node, members, tag_of(Channel::collective, 2 * k), x,
                           settings.mean.collective);
    }
    if (!members.empty()) {
      co_await apply_momentum_policy(node, members, tag_of(Channel::collective, 2 * k + 1),
                                     settings.momentum_policy, optimizer, settings.mean.collective);
    }
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

/// Reads `key`, whole numbers above `least` that grow and stay below `limit`.
std::vector<std::int64_t> read_growing(const Section& section, std::string_view key, double least,
                                       std::int64_t limit, std::string_view of,
                                       std::string_view help) {
  std::vector<std::int64_t> values;
  double before = least;
  for (const double value : section.numbers(key, {}, help)) {
    section.expect(value > before && value == std::floor(value), key,
                   "must be whole numbers above {} that grow from level to level, got {}{}", least,
                   value, values.empty() ? "" : fmt::format(" after {}", before));
    section.expect(value < static_cast<double>(limit), key, "must be below {}, {}, got {}", of,
                   limit, value);
    values.push_back(
        static_cast<std::int64_t>(std::min(std::max(value, 0.0), 1e18)));  // in a probe, too
    before = value;
  }
  return values;
}

std::vector<Level> read_levels(const Section& section, Step period, NodeId nodes) {
  const auto sizes = read_growing(
      section, "group_sizes", 1, nodes, "run.nodes",
      "consecutive nodes that also average among themselves, by level (hierarchical local SGD)");
  const auto periods = read_growing(section, "group_periods", 0, period, "period",
                                    "local steps between two averagings of a group, by level");
  section.expect(periods.size() == sizes.size(), "group_periods",
                 "must be as many as group_sizes, {}, got {}", sizes.size(), periods.size());
  std::vector<Level> levels;
  for (std::size_t i = 0; i < std::min(sizes.size(), periods.size()); ++i)  // a probe has any
    levels.push_back({static_cast<NodeId>(sizes[i]), periods[i]});
  return levels;
}

}  // namespace

Program local_sgd(const Section& section, const Context& context) {
  LocalSgdSettings settings{};
  const auto period =
      section.required<std::int64_t>("period", "local steps between two averagings");
  settings.period = check_period(section, "period", period, context);
  settings.switch_step =
      read_at_least(section, "switch_step", 0, 0,
                    "steps of allreduce SGD before the first local one (post-local SGD)");
  warn_beyond_run(section, "switch_step", settings.switch_step, context, "no step is local");
  settings.optimizer = read_optimizer(section, context);
  expect_steps_by_piece(section, settings.optimizer);
  settings.momentum_policy =
      read_momentum_policy(section, settings.optimizer, MomentumPolicy::keep);
  settings.mean = read_block_mean(section, context, settings.momentum_policy);
  section.expect(
      settings.switch_step == 0 || settings.mean.coded.is_exact(), "switch_step",
      "must be 0 with compression: codes are of what models have moved, not of gradients");
  settings.levels = read_levels(section, settings.period, context.nodes);
  section.expect(settings.levels.empty() || settings.mean.coded.is_exact(), "group_sizes",
                 "must be left out with compression, which is for the mean of all");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
