// Pairwise averaging of a vector that its node may change at any time: (x_i, x_j) <- the average of
// both, without locks and without waiting for what the other node computes.
//
//   initiator   a <- x;  send a;  on the answer b:    x <- x + (b - a) / 2
//   partner     on a request m:   a <- x;             x <- x + (m - a) / 2;  answer a
//
// The difference form keeps what either node adds to x meanwhile, so an exchange conserves x_i +
// x_j whatever happens beside it. A node answers while it waits for its own answer, so no circle of
// waits can form; two nodes whose requests cross have exchanged already: each takes the other's
// request for its answer. All messages of a pair have one tag, so they keep their order.
//
// The form and the reasons are those of AD-PSGD (Lian et al., ICML 2018); used by AD-PSGD,
// SwarmSGD and randomized gossip.
#pragma once

#include <vector>

#include "sim/node/node.hpp"

namespace starling::algorithms {

class PairAveraging {
 public:
  /// `x` is the vector that exchanges average; like the node, it outlives this object.
  PairAveraging(Node& node, Vector& x);
  /// Over other pairs than the topology's: `peers` of this node, sorted; i is among j's if j is among i's.
  PairAveraging(Node& node, Vector& x, std::vector<NodeId> peers);

  /// Starts to answer requests; once, before the first exchange.
  void begin();
  /// Whom this node may ask: by default all it ever sends to in the topology.
  const std::vector<NodeId>& peers() const { return peers_; }
  /// Averages with one of peers(); one exchange at a time. Takes a round trip.
  Task<> exchange(NodeId peer);
  /// No more exchanges from this node. Answers the others until they, too, are done; the object may
  /// go then.
  Task<> finish();

 private:
  Task<> serve();

  Node& node_;
  Vector& x_;
  std::vector<NodeId> peers_;
  std::size_t askers_;  // nodes that may ask this one
  Vector sent_;         // model in the request under way
  NodeId partner_;      // to whom it went
  bool is_serving_ = false;
  Signal changed_;
};

}  // namespace starling::algorithms
