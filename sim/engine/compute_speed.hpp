// How many times as long as nominal a node takes: for good, by its speed, and for a while, when it
// is in the slow state of a two-state Markov chain (other tenants, hot processors, page-outs).
//
// The chain of a node moves once per step: from the nominal state to the slow one with probability
// p = 1 / nominal_steps, back with q = 1 / slow_steps; these are the mean sojourns. With p + q <= 1
// it is the same as a chain that forgets its state with probability r = p + q at each step and then
// is slow with probability p / r, whatever it was. So the state at step k is what was drawn at the
// last such renewal, and any (node, step) is answered in any order in constant time, without
// memory: blocks of about 1 / r steps have random streams of their own for their renewals, one on
// the mean, and whoever finds none in his block looks into the one before. Step 0 is a renewal, so
// the chain is stationary from the start, and the correlation of steps k and k + d is (1 - r)^d.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/prefetch.hpp"
#include "sim/base/section.hpp"
#include "sim/base/types.hpp"

namespace starling {

struct SpeedSettings {
  std::vector<double> speeds;  // (nodes), 1 = nominal, 0.5 = half as fast
  double slow_factor = 1;      // of the slow state; 1: there is no such state
  double slow_steps = 10;      // mean sojourns
  double nominal_steps = 90;
};

/// Reads speeds, slow_nodes, slowdown, and the keys of the Markov chain.
SpeedSettings read_speed(const Section& section, NodeId nodes);

class ComputeSpeed {
 public:
  ComputeSpeed(SpeedSettings settings, std::uint64_t seed);

  /// Seconds of what takes `nominal` seconds at nominal speed.
  double seconds(NodeId node, Step step, double nominal) const {
    const double steady = nominal / settings_.speeds[static_cast<std::size_t>(node)];
    return is_slow(node, step) ? steady * settings_.slow_factor : steady;
  }
  bool is_slow(NodeId node, Step step) const;
  /// What is kept of every node, for prefetching.
  NodeRecords node_records() const { return {settings_.speeds.data(), sizeof(double)}; }
  /// Mean over time and nodes of what nominal durations are multiplied by.
  double mean_factor() const;

 private:
  double slow_share() const;

  SpeedSettings settings_;
  std::uint64_t seed_;
  double renewal_ = 1;  // r
  Step block_ = 1;      // steps that share a stream
};

}  // namespace starling
