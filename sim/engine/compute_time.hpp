// ComputeTime: the modelled duration of a gradient on every node at every step: a distribution, a
// speed factor per node and injected delays. Every draw is named by (seed, node, step), so the
// duration of a gradient depends on nothing but these, and the simulation and a paced MPI run agree
// on it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"

namespace starling {

class ComputeTime {
 public:
  /// Reads the [compute] section for `nodes` nodes; draws depend on `seed`. Keys: see
  /// compute_time.cpp. Throws ScenarioError, and Error if a file of samples cannot be read or holds
  /// anything but non-negative numbers.
  ComputeTime(const Section& section, NodeId nodes, std::uint64_t seed);

  /// Duration of the gradient that `node` computes at its local step `step` (its `step`-th
  /// gradient), injected delay included. Any thread may ask. Throws Error if it passes the end of
  /// the clock.
  Duration duration(NodeId node, Step step) const;
  /// The injected delay alone (zero for most).
  Duration delay(NodeId node, Step step) const;
  /// Mean duration over the distribution, without delays, of a node with speed factor 1 (for
  /// `describe`).
  Duration mean() const;

 private:
  std::vector<double> speed_;                 // (nodes), 1 = nominal, 0.5 = half as fast
  std::function<double(NodeId, Step)> base_;  // seconds before speed factor
  std::function<Duration(NodeId, Step)> delay_;
  double mean_seconds_ = 0;
};

}  // namespace starling
