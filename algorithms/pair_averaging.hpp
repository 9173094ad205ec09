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
// With a codec, either side sends Q(x), and knows its own Q(a) as the other sees it; both draw the
// same random numbers, so that equal models make equal codes:
//
//   difference   x <- x + (Q(b) - Q(a)) / 2             keeps x_i + x_j whatever Q loses (Moniqua)
//   mean         x <- x - a + (Q(a) + Q(b)) / 2         both have the same average (SwarmSGD)
//
// A lattice code is read beside the own x; or, if the node has an older vector that is nearer to
// the other's older vector than models are to each other, that one is sent as a second code and
// read beside the own older one, and x beside what was read.
//
// The form and the reasons are those of AD-PSGD (Lian et al., ICML 2018); used by AD-PSGD,
// SwarmSGD and randomized gossip. Codes: Lu, De Sa, "Moniqua", ICML 2020; Nadiradze et al.,
// "Asynchronous Decentralized SGD with Quantized and Local Updates", NeurIPS 2021.
#pragma once

#include <vector>

#include "algorithms/codec.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// How exchanges are compressed.
struct PairCoding {
  enum class Rule { difference, mean };

  SharedCodec codec = exact_codec();
  Rule rule = Rule::difference;
  /// The older vector that codecs with a reference send, too; outlives the exchanges. Null: none.
  const Vector* base = nullptr;
};

class PairAveraging {
 public:
  /// `x` is the vector that exchanges average; like the node, it outlives this object.
  /// `is_on_host`: x is kept in host memory, so that exchanges stage nothing (whoever computes does).
  PairAveraging(Node& node, Vector& x, PairCoding coding = {}, bool is_on_host = false);

  /// Starts to answer requests; once, before the first exchange.
  void begin();
  /// Whom this node may ask: all it ever sends to in the topology.
  const std::vector<NodeId>& peers() const { return peers_; }
  /// Averages with one of peers(); one exchange at a time. Takes a round trip for every piece of the
  /// model; a code is one piece.
  Task<> exchange(NodeId peer);
  /// No more exchanges from this node. Answers the others until they, too, are done; the object may
  /// go then.
  Task<> finish();

 private:
  /// What this node says of its x in one message, and takes it for.
  struct Offer {
    Vector x;
    Vector decoded;  // Q(x)
  };
  /// Names the random numbers of an exchange: the k-th that `initiator` began.
  struct Name {
    NodeId initiator;
    Step k;
  };

  Task<> serve();
  Task<> exchange_piece(NodeId peer, std::size_t i);
  void send(NodeId to, Vector values, double what);
  void average(std::size_t i, const Vector& ours, const Vector& theirs);
  /// The exchange that a request or reply belongs to.
  Name named(const Message& message) const;
  /// Sends x to `peer` as a message of that `kind`.
  Offer offer(NodeId peer, Name name, bool is_reply);
  /// Q(x) of the sender.
  Vector read(const Message& message) const;
  void average_codes(const Offer& ours, const Vector& theirs);

  Node& node_;
  Vector& x_;
  PairCoding coding_;
  std::vector<NodeId> peers_;
  bool is_on_host_;
  bool is_plain_;          // no codes
  Vector sent_;            // piece in the request under way
  std::size_t piece_ = 0;  // which one
  Offer offered_;          // or, coded, all of it
  NodeId partner_;         // to whom it went
  Step begun_ = 0;         // coded requests so far
  bool is_serving_ = false;
  Signal changed_;
};

}  // namespace starling::algorithms
