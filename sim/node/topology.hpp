// Topology: who talks with whom, logically, and with which mixing weight. A directed graph that may
// change with the step, periodically; an immutable value. Physical networks live in
// network_models/.
//
// Convention: W_ij is the weight that node i gives to what it receives from j; W_ii is the self
// weight.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sim/base/types.hpp"

namespace starling {

/// One end of a connection as its node sees it.
struct Edge {
  NodeId peer;
  /// In in() W_ij, the weight of what arrives; in out() W_ji, which the receiver will give.
  float weight;

  friend bool operator==(const Edge&, const Edge&) = default;
};

class Topology {
 public:
  /// A weighted arc: `receiver` gives `weight` to what it gets from `sender`.
  struct Arc {
    NodeId sender;
    NodeId receiver;
    double weight;
  };

  /// `phases[p]` are the arcs in force at steps k with k mod phases.size() == p (one phase:
  /// static), without self-loops; `self_weights[p][i]` is W_ii in phase p. Edges of a node are kept
  /// in order of peer. Weights are rounded to float. Throws std::invalid_argument on a self-loop, a
  /// double arc, a node out of range, no node, no phase, or self weights of another shape.
  Topology(NodeId nodes, const std::vector<std::vector<Arc>>& phases,
           const std::vector<std::vector<double>>& self_weights);

  NodeId nodes() const { return nodes_; }
  /// Number of phases; 1 if the topology does not change.
  std::size_t period() const { return phases_.size(); }

  /// Whom `node` sends to at `step`, in order of peer.
  std::span<const Edge> out(NodeId node, Step step = 0) const {
    const Phase& phase = phase_at(step);
    return edges_of(phase.out_begin, phase.out, node);
  }
  /// From whom `node` receives at `step`, in order of peer.
  std::span<const Edge> in(NodeId node, Step step = 0) const {
    const Phase& phase = phase_at(step);
    return edges_of(phase.in_begin, phase.in, node);
  }
  /// W_ii at `step`.
  float self_weight(NodeId node, Step step = 0) const {
    return phase_at(step).self[static_cast<std::size_t>(node)];
  }
  /// All peers `node` ever sends to, over the whole period, sorted, each once.
  std::vector<NodeId> neighbors(NodeId node) const;

  /// Number of arcs, summed over the period.
  std::size_t arc_count() const;
  /// Whether W_ij == W_ji, to the bit, at every step.
  bool is_symmetric() const;

 private:
  struct Phase {
    std::vector<std::size_t> out_begin, in_begin;  // (nodes + 1)
    std::vector<Edge> out, in;
    std::vector<float> self;  // (nodes)
  };

  const Phase& phase_at(Step step) const {
    return phases_.size() == 1 ? phases_.front()
                               : phases_[static_cast<std::size_t>(step) % phases_.size()];
  }
  static std::span<const Edge> edges_of(const std::vector<std::size_t>& begin,
                                        const std::vector<Edge>& edges, NodeId node) {
    const std::size_t* first = &begin[static_cast<std::size_t>(node)];
    return {edges.data() + first[0], edges.data() + first[1]};
  }

  NodeId nodes_;
  std::vector<Phase> phases_;
};

}  // namespace starling
