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
  /// `is_on_host`: x is kept in host memory, so that exchanges stage nothing (whoever computes does).
  PairAveraging(Node& node, Vector& x, bool is_on_host = false);

  /// Starts to answer requests; once, before the first exchange.
  void begin();
  /// Whom this node may ask: all it ever sends to in the topology.
  const std::vector<NodeId>& peers() const { return peers_; }
  /// Averages with one of peers(); one exchange at a time. Takes a round trip for every piece of the model.
  Task<> exchange(NodeId peer);
  /// No more exchanges from this node. Answers the others until they, too, are done; the object may
  /// go then.
  Task<> finish();

 private:
  Task<> serve();
  Task<> exchange_piece(NodeId peer, std::size_t i);
  void send(NodeId to, Vector values, double what);
  void average(std::size_t i, const Vector& ours, const Vector& theirs);

  Node& node_;
  Vector& x_;
  std::vector<NodeId> peers_;
  bool is_on_host_;
  Vector sent_;            // piece in the request under way
  std::size_t piece_ = 0;  // which one
  NodeId partner_;         // to whom it went
  bool is_serving_ = false;
  Signal changed_;
};

}  // namespace starling::algorithms
