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
// With `patience` an initiator gives up on a partner that does not answer in time and asks it no
// more, until something comes from it: then the exchange is completed as if it had been in time, so
// the sum is conserved with partners that pause. At the end, who hears nothing for that long does
// not wait for the others' end. Without patience a partner that has stopped holds up its initiator
// for ever. Lost and doubled messages can change the sum, but end no exchange twice.
//
// The form and the reasons are those of AD-PSGD (Lian et al., ICML 2018); used by AD-PSGD,
// SwarmSGD and randomized gossip.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "algorithms/patience.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

class PairAveraging {
 public:
  /// `x` is the vector that exchanges average; like the node, it outlives this object. `patience`
  /// as from read_patience().
  PairAveraging(Node& node, Vector& x, Duration patience);

  /// Starts to answer requests; once, before the first exchange.
  void begin();
  /// Whom this node may ask: all it ever sends to in the topology.
  const std::vector<NodeId>& peers() const { return peers_; }
  /// Averages with one of peers(); one exchange at a time. Takes a round trip; nothing happens with
  /// a peer that still owes an answer.
  Task<> exchange(NodeId peer);
  /// No more exchanges from this node. Answers the others until they, too, are done; the object may
  /// go then.
  Task<> finish();

 private:
  Task<> serve();
  void handle(const Message& m);
  std::optional<Time> deadline() const;
  void give_up();

  Node& node_;
  Vector& x_;
  std::vector<NodeId> peers_;
  Duration patience_;
  Vector sent_;                                     // model in the request under way
  NodeId partner_;                                  // to whom it went
  std::optional<Time> answer_due_;                  // by when we expect the answer
  std::vector<std::pair<NodeId, Vector>> overdue_;  // requests given up, and their models
  std::vector<NodeId> unfinished_;                  // who may still ask, and this node
  std::optional<Time> end_due_;                     // by when we expect to hear from the others
  bool is_serving_ = false;
  Signal changed_;
};

}  // namespace starling::algorithms
