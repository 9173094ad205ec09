// ComputeTime: how long does a gradient take? The [compute] section.
//
//   duration(node, step) = draw(node, step) / speed(node) * slow_factor^is_slow(node, step)
//                          + delay(node, step)
//
//   gradient              mean duration m of a draw, or with
//   per_token             m = gradient + per_token * (tokens of the batch, Workload::batch_cost)
//   distribution          constant | normal | lognormal | gamma | exponential | empirical |
//                         published | trace
//     constant            m
//     normal              m * max(0.05, 1 + sigma z): sigma is the coefficient of variation
//     lognormal           m * exp(sigma z - sigma^2 / 2): sigma of the logarithm, mean kept
//     gamma               m * G(shape) / shape: coefficient of variation 1 / sqrt(shape)
//     exponential         m * E(1)
//     empirical           out of the file `samples` (compute_samples.hpp)
//     published           measured by others, by `name` (scenarios/data/README.md)
//     trace               recorded per step and node in the file `trace` (compute_trace.hpp)
//                         the last three: scaled to the mean `gradient` if that is given
//   draw                  step: anew at every step; node: once per node, which keeps it
//   speeds                a factor per node, 1 is nominal, 0.5 takes twice as long
//   slow_nodes, slowdown  nodes 0 .. slow_nodes - 1 take `slowdown` times as long, beside `speeds`
//   slow_factor           with slow_steps, nominal_steps: slow for a while (compute_speed.hpp)
//   delay                 added to delayed gradients; which ones, one of these three says:
//     delay_probability   each node at each step, independently of all others
//     delayed_nodes       exactly so many distinct nodes at every step, all equally likely; the
//                         draw is named by the step alone, so all nodes agree on it
//     delay_draws         who draws itself among so many of a stream that all seed alike
//                         (compute_delays.hpp)
//   delay_restart         with delay_draws: all streams begin anew after so many steps
//   delay_trace           further delays per step and node, out of a file (compute_trace.hpp)
//
// Every draw is named by (seed, node, step), so a duration depends on nothing else but, with per_token,
// the batch, and the simulation and a paced MPI run agree on it. A batch that several nodes compute with
// (gradient coding) has the same tokens for each.
#pragma once

#include <cstdint>

#include "sim/base/section.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/engine/compute_delays.hpp"
#include "sim/engine/compute_distribution.hpp"
#include "sim/engine/compute_speed.hpp"

namespace starling {

class ComputeTime {
 public:
  /// Reads the [compute] section for `nodes` nodes; draws depend on `seed`. `cost` is asked only if
  /// durations depend on batches (per_token), from the constructor on. Throws ScenarioError, and
  /// Error if a file cannot be read or holds anything but non-negative numbers.
  ComputeTime(const Section& section, NodeId nodes, std::uint64_t seed, const BatchCost& cost = {});

  /// Duration of the gradient of `batch` that `node` computes at its local step `step` (its `step`-th
  /// gradient), injected delay included. One thread at a time may ask. Throws Error if it passes
  /// the end of the clock, or of a trace that does not repeat.
  Duration duration(NodeId node, Step step, BatchName batch) const;
  /// The same of the batch that is the node's own at that step.
  Duration duration(NodeId node, Step step) const { return duration(node, step, {node, step}); }
  /// How long `node` takes at that step for what takes `nominal` at nominal speed.
  Duration slowed(NodeId node, Step step, Duration nominal) const {
    return from_seconds(speed_.seconds(node, step, to_seconds(nominal)));
  }
  /// What is kept of every node, for prefetching.
  std::vector<NodeRecords> node_records() const;
  /// The injected delay alone (zero for most).
  Duration delay(NodeId node, Step step) const { return delays_.delay(node, step); }
  /// Mean duration over steps and nodes, injected delays included, 106 days at most (for `describe`).
  Duration mean() const;

 private:
  struct Settings {
    DistributionSettings distribution;
    SpeedSettings speed;
    DelaySettings delays;
  };
  static Settings read(const Section& section, NodeId nodes);
  ComputeTime(const Section& section, const Settings& settings, NodeId nodes, std::uint64_t seed,
              const BatchCost& cost);

  ComputeDistribution distribution_;
  ComputeSpeed speed_;
  ComputeDelays delays_;
};

}  // namespace starling
