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

#include <optional>
#include <vector>

#include "algorithms/codec.hpp"
#include "algorithms/patience.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// How exchanges go.
struct PairRules {
  enum class Average { difference, mean };

  /// Other pairs than the topology's: the peers of this node; i is among j's if j is among i's.
  std::optional<std::vector<NodeId>> peers{};

  /// As from read_patience().
  Duration patience{};
  SharedCodec codec = exact_codec();
  Average average = Average::difference;
  /// The older vector that codecs with a reference send, too; outlives the exchanges. Null: none.
  const Vector* base = nullptr;
  /// x is kept in host memory, so that exchanges stage nothing (whoever computes does).
  bool is_on_host = false;
};

class PairAveraging {
 public:
  /// `x` is the vector that exchanges average; like the node, it outlives this object.
  PairAveraging(Node& node, Vector& x, PairRules rules = {});

  /// Starts to answer requests; once, before the first exchange.
  void begin();
  /// Whom this node may ask: by default all it ever sends to in the topology.
  const std::vector<NodeId>& peers() const { return peers_; }
  /// Averages with one of peers(); one exchange at a time. Takes a round trip for
  /// every piece of the model; nothing happens with a peer that still owes an answer.
  Task<> exchange(NodeId peer);
  /// No more exchanges from this node. Answers the others until they, too, are done; the object may
  /// go then.
  Task<> finish();

 private:
  /// What this node said of a piece of its x in one message, and takes it for.
  struct Offer {
    NodeId peer;
    std::size_t piece;
    Vector x;
    Vector decoded;  // Q(x)
  };
  /// An exchange of one piece: the k-th that `initiator` began; names its random numbers. Pieces
  /// take turns, so k tells which one it is.
  struct Name {
    NodeId initiator;
    Step k;
  };

  Task<> serve();
  void handle(const Message& message);
  /// The exchange that a request or reply belongs to.
  Name named(const Message& message) const;
  std::size_t piece_of(Name name) const;
  /// Sends a piece of x to `peer` as a message of that `kind`.
  Offer offer(NodeId peer, Step kind, Name name);
  /// Q(x) of the sender, a piece.
  Vector read(const Message& message) const;
  void average(const Offer& ours, const Vector& theirs);
  std::optional<Time> deadline() const;
  void give_up();

  Node& node_;
  Vector& x_;
  PairRules rules_;
  std::vector<NodeId> peers_;
  Step begun_ = 0;                  // requests so far, and those left out
  std::optional<Offer> offered_;    // in the request under way
  std::optional<Time> answer_due_;  // by when we expect its answer
  std::vector<Offer> overdue_;      // in requests given up
  std::vector<NodeId> unfinished_;  // who may still ask, and this node
  std::optional<Time> end_due_;     // by when we expect to hear from the others
  bool is_serving_ = false;
  Signal changed_;
};

}  // namespace starling::algorithms
