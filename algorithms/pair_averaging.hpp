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
//
// Where nodes fail: with `patience` an initiator waits no longer than that for an answer. It leaves a
// silent partner alone for 2, 4, 8, .. times as long, and completes the exchange when the answer
// comes after all, so the sum is conserved with partners that pause. At the end, who hears nothing
// for that long does not wait for the others' end. Without patience a partner that has stopped holds
// up its initiator for ever.
//
// Requests of a pair are numbered, and every message tells the last number that its sender has seen.
// So requests that crossed are told from requests whose answer was lost, and those that come twice
// have no effect. An exchange of which one message is lost changes the sum.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
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
  /// Averages with one of peers(); one exchange at a time. Takes a round trip; with a peer that is
  /// left alone nothing happens.
  Task<> exchange(NodeId peer);
  /// No more exchanges from this node. Answers the others until they, too, are done; the object may
  /// go then.
  Task<> finish();

 private:
  /// What a node knows of its requests to another one and of that one's to it.
  struct Pair {
    std::int64_t sent = 0;  // number of the last request, from 1
    std::int64_t seen = 0;  // largest number received
    int silences = 0;       // requests given up since something came
    Time left_alone_until{};
  };
  /// Not answered yet; one of them may be waited for, the others are given up.
  struct Request {
    NodeId peer;
    std::int64_t number;
    Vector sent;
  };
  enum class Kind : std::uint8_t { request, reply, done, deadline_set };

  Task<> serve();
  void handle(const Message& m);
  /// Completes the request, if it is open, with the model that came for it.
  bool complete(NodeId peer, std::int64_t number, const Vector& theirs);
  /// Drops requests up to `number`: their answers can come no more.
  void forget(NodeId peer, std::int64_t number);
  void stop_waiting();
  void tell(NodeId to, Kind kind, const Vector& values = {});
  void give_up();

  Node& node_;
  Vector& x_;
  std::vector<NodeId> peers_;
  Duration patience_;
  std::unordered_map<NodeId, Pair> pairs_;  // looked up only
  std::vector<Request> open_;
  NodeId partner_;                  // whom the exchange under way is with
  std::optional<Time> deadline_;    // for its answer; at the end, for a sign of the others
  std::vector<NodeId> unfinished_;  // who may still ask, and this node
  bool is_serving_ = false;
  Signal changed_;
};

}  // namespace starling::algorithms
