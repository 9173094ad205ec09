// Topology: who talks with whom, logically, and with which mixing weight. A directed graph that may
// change with the step, periodically; an immutable value. Physical networks live in
// network_models/.
//
// Convention: W_ij is the weight that node i gives to what it receives from j; W_ii is the self
// weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "sim/base/prefetch.hpp"
#include "sim/base/types.hpp"

namespace starling {

/// One end of a connection as its node sees it.
struct Edge {
  NodeId peer;
  /// In in() W_ij, the weight of what arrives; in out() W_ji, which the receiver will give.
  float weight;

  friend bool operator==(const Edge&, const Edge&) = default;
};

/// The i-th edge of a node in a list, which may be everybody's but for one entry.
struct EdgeAt {
  const Edge* list;
  NodeId left_out;

  const Edge& operator()(NodeId i) const { return list[i + (i >= left_out ? 1 : 0)]; }
};

/// Edges of a node, in order of peer: a random-access range.
using Edges = std::ranges::transform_view<std::ranges::iota_view<NodeId, NodeId>, EdgeAt>;
/// Their peers.
using Neighbors = std::ranges::transform_view<Edges, decltype(&Edge::peer)>;

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

  /// Everybody sends to everybody, always, and all weights between two nodes are `weight`. Takes memory for a node each, not
  /// for an arc. Throws std::invalid_argument if there is no node.
  static Topology complete(NodeId nodes, double weight, double self_weight);

  NodeId nodes() const { return nodes_; }
  /// Number of phases; 1 if the topology does not change.
  std::size_t period() const { return phases_.size(); }

  /// Whom `node` sends to at `step`, in order of peer.
  Edges out(NodeId node, Step step = 0) const { return edges_of(phase_at(step).out, node); }
  /// From whom `node` receives at `step`, in order of peer.
  Edges in(NodeId node, Step step = 0) const { return edges_of(phase_at(step).in, node); }
  /// In which order `node` best sends to out(node, step), as places there: nobody then is sent to by two at a time, as long as all
  /// send messages of one length and none leaves out a turn. Empty: from the one above the node on, and around.
  std::span<const std::uint32_t> turns(NodeId node, Step step = 0) const;
  /// W_ii at `step`.
  float self_weight(NodeId node, Step step = 0) const {
    return phase_at(step).self[static_cast<std::size_t>(node)];
  }
  /// All peers `node` ever sends to, over the whole period, in order, each once.
  Neighbors neighbors(NodeId node) const { return peers_of(ever().out, node); }
  /// All that ever send to it, likewise.
  Neighbors senders(NodeId node) const { return peers_of(ever().in, node); }

  /// Number of arcs, summed over the period.
  std::size_t arc_count() const;
  /// Whether W_ij == W_ji, to the bit, at every step.
  bool is_symmetric() const;
  /// Whether it was made by complete().
  bool is_complete() const { return phases_[0].out.begin.empty(); }
  /// What is kept of every node, where edges stay, and these where all nodes have as many; for prefetching.
  std::vector<NodeRecords> node_records() const;

 private:
  /// Edges of all nodes: those of node i are list[begin[i]] up to list[begin[i + 1]]; without `begin`, all but its own.
  struct EdgeLists {
    std::vector<std::size_t> begin;  // (nodes + 1)
    std::vector<Edge> list;

    friend bool operator==(const EdgeLists&, const EdgeLists&) = default;
  };
  struct Phase {
    EdgeLists out, in;
    std::vector<float> self;  // (nodes)
  };

  /// The lists of all phases joined, made when they are asked for: most algorithms never do.
  struct Joined {
    std::once_flag is_made;
    Phase lists;
  };

  /// Of each phase the places of turns(), node by node; empty where they go around.
  struct Turns {
    std::once_flag is_made;
    std::vector<std::vector<std::uint32_t>> of_phase;
  };

  explicit Topology(NodeId nodes);
  static EdgeLists sorted(NodeId nodes, const std::vector<Arc>& arcs, NodeId Arc::*node_of,
                          NodeId Arc::*peer_of);
  /// Of each node those of all phases, each once, without weights.
  static EdgeLists joined(const std::vector<Phase>& phases, EdgeLists Phase::*lists);
  void check_no_double_arc(const Phase& phase) const;
  const Phase& ever() const;

  const Phase& phase_at(Step step) const {
    return phases_.size() == 1 ? phases_.front()
                               : phases_[static_cast<std::size_t>(step) % phases_.size()];
  }
  static Edges edges_of(const EdgeLists& lists, NodeId node) {
    if (lists.begin.empty()) {
      const auto others = static_cast<NodeId>(lists.list.size() - 1);
      return Edges({0, others}, EdgeAt{lists.list.data(), node});
    }
    const std::size_t* first = &lists.begin[static_cast<std::size_t>(node)];
    return Edges({0, static_cast<NodeId>(first[1] - first[0])},
                 EdgeAt{lists.list.data() + first[0], std::numeric_limits<NodeId>::max()});
  }
  static Neighbors peers_of(const EdgeLists& lists, NodeId node) {
    return Neighbors(edges_of(lists, node), &Edge::peer);
  }

  NodeId nodes_;
  std::vector<Phase> phases_;
  // Made on demand, once for all copies.
  std::shared_ptr<Joined> joined_ = std::make_shared<Joined>();
  std::shared_ptr<Turns> turns_ = std::make_shared<Turns>();
};

}  // namespace starling
