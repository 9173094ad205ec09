// Injected delays: some gradients take longer by a constant, as in the experiments of the papers, or by what a file
// says of each (delay_trace, a file as compute_trace.hpp reads it), or both.
//
// delay_draws is what the code of eager-SGD and WAGMA-SGD does (their input stages, with two draws). Every node has a
// generator of its own, but all have the same seed. At each step a node draws up to so many numbers of nodes and stops at
// its own, upon which it is delayed. So all draw the same at first, and exactly those drawn are late; who was late early
// among its draws lags behind in the stream, and once all have drifted apart nodes are late independently, each with
// probability 1 - (1 - 1/n)^draws, which holds throughout. Drifting takes n steps, as every n-th step a node is late.
// Such steps without a late node are what synchronous algorithms gain: on 256 nodes 2 % of them, where independent draws of the
// same probability would leave 13 %, which no constant makes up for. Asking for an earlier step draws anew from the last start.
// With delay_restart all generators are seeded anew after so many steps, as where a program trains, evaluates and trains on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/engine/compute_trace.hpp"

namespace starling {

struct DelaySettings {
  Duration delay{};
  double probability = 0;    // of each node at each step
  NodeId delayed_nodes = 0;  // or: exactly so many at each step
  int draws = 0;             // or: who draws itself among so many of a stream that all seed alike
  Step restart = 0;          // these streams begin anew after so many steps; 0: never
  std::string trace;         // file of further delays by node and step; empty: none
};

/// Reads delay, delay_probability, delayed_nodes, delay_draws, delay_restart and delay_trace.
DelaySettings read_delays(const Section& section, NodeId nodes);

class ComputeDelays {
 public:
  /// Throws ScenarioError of delay_trace if that file is wrong.
  ComputeDelays(const Section& section, const DelaySettings& settings, NodeId nodes,
                std::uint64_t seed);

  /// Zero for most. One thread at a time may ask. Throws std::invalid_argument past the clock's end.
  Duration delay(NodeId node, Step step) const;
  /// Seconds that delays add to a gradient, on the mean over nodes and steps.
  double mean_seconds() const;

 private:
  /// Whether the constant delay hits.
  bool is_delayed(NodeId node, Step step) const;
  /// The delayed nodes of a step, sorted.
  const std::vector<NodeId>& chosen(Step step) const;
  /// Whether the node draws itself in the step.
  bool draws_itself(NodeId node, Step step) const;
  /// How many nodes it draws, from `place` of the stream since `begin`, until it has drawn itself or all its draws; and
  /// whether it has.
  struct Drawn {
    int count;
    bool is_self;
  };
  Drawn draw(NodeId node, Step begin, std::int64_t place) const;

  struct Choice {
    Step step = -1;
    std::vector<NodeId> nodes;
  };

  DelaySettings settings_;
  std::optional<DurationTrace> trace_;
  NodeId nodes_;
  std::uint64_t seed_;
  // Nodes are at much the same step, so the choices of a few steps answer nearly all questions.
  mutable std::array<Choice, 64> choices_;  // place: step mod 64
  /// How far a node has drawn: at the beginning of `step`, `place` nodes since the streams began.
  struct Cursor {
    Step step = 0;
    std::int64_t place = 0;
  };
  mutable std::vector<Cursor> cursors_;  // (nodes), with delay_draws
};

}  // namespace starling
