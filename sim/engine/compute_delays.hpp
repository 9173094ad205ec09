// Injected delays: some gradients take longer by a constant, as in the experiments of the papers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"

namespace starling {

struct DelaySettings {
  Duration delay{};
  double probability = 0;    // of each node at each step
  NodeId delayed_nodes = 0;  // or: exactly so many at each step
};

/// Reads delay, delay_probability and delayed_nodes.
DelaySettings read_delays(const Section& section, NodeId nodes);

class ComputeDelays {
 public:
  ComputeDelays(DelaySettings settings, NodeId nodes, std::uint64_t seed);

  /// Zero for most. One thread at a time may ask.
  Duration delay(NodeId node, Step step) const;

 private:
  /// The delayed nodes of a step, sorted.
  const std::vector<NodeId>& chosen(Step step) const;

  struct Choice {
    Step step = -1;
    std::vector<NodeId> nodes;
  };

  DelaySettings settings_;
  NodeId nodes_;
  std::uint64_t seed_;
  // Nodes are at much the same step, so the choices of a few steps answer nearly all questions.
  mutable std::array<Choice, 64> choices_;  // place: step mod 64
};

}  // namespace starling
