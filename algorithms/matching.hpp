// Random matchings: in every round, disjoint pairs of neighbors, the same on all nodes, so that
// both of a pair know of it without asking. Nodes in random order take a random neighbor that is
// still free: a maximal matching, and a perfect one on the complete graph with an even number of
// nodes.
//
// Ghosh, Muthukrishnan, "Dynamic Load Balancing by Random Matchings", J. Computer and System
// Sciences 53(3), 1996.
#pragma once

#include <vector>

#include "algorithms/codec.hpp"
#include "algorithms/round_cache.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

class Matching {
 public:
  explicit Matching(NodeId nodes)
      : rounds_(nodes, static_cast<std::size_t>(nodes) * sizeof(NodeId)) {}

  /// Partner of `node` in `round`, or itself. All callers are nodes of one run.
  NodeId partner(const Node& node, Step round);

 private:
  RoundCache<std::vector<NodeId>> rounds_;
};

/// Exchanges models with the partner of a round: the mean of both, lower node first, so that both
/// get the same bits.
Task<Vector> average_with(Node& node, NodeId peer, Step round, Vector x);
/// The same, compressed. As lattice codes: the mean of what both say. With other codecs: x +
/// (Q(theirs) - Q(x)) / 2, which keeps the sum of both.
Task<Vector> average_with(Node& node, NodeId peer, Step round, Vector x, SharedCodec codec);

}  // namespace starling::algorithms
