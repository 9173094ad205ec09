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
// One-sided, a request says nothing of x, the answer is what its node has published, and only who asked averages; the sum is not
// kept (PopSGD).
//
// A lattice code is read beside the own x; or, if the node has an older vector that is nearer to
// the other's older vector than models are to each other, that one is sent as a second code and
// read beside the own older one, and x beside what was read.
//
// The form and the reasons are those of AD-PSGD (Lian et al., ICML 2018); used by AD-PSGD,
// SwarmSGD and randomized gossip. Codes: Lu, De Sa, "Moniqua", ICML 2020; Nadiradze et al.,
// "Asynchronous Decentralized SGD with Quantized and Local Updates", NeurIPS 2021.
//
// At the end every node tells all who may wait for it that it starts no more exchanges. Where everybody may ask everybody, it
// is told along a binary tree over the nodes, up from a node when all below it are done, and down again when all are: two
// messages per node in place of one per pair.
//
// Where nodes fail: with `patience` an initiator waits no longer than that for an answer. It leaves
// a silent partner alone for 2, 4, 8, .. times as long, and completes the exchange when the answer
// comes after all, so the sum is conserved with partners that pause. At the end, who hears nothing
// for that long does not wait for the others' end; all tell all, then, as a tree could break.
// Without patience a partner that has stopped holds up its initiator for ever.
//
// Requests of a pair are numbered, and every message tells the last number that its sender has seen (the last bits of either).
// So requests that crossed are told from requests whose answer was lost, and those that come twice
// have no effect. An exchange of which one message is lost changes the sum. Pieces of a model take
// turns: the number tells which one it is.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
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
  /// One-sided: what answers are of; outlives the exchanges. Null: x, on both sides.
  const Vector* published = nullptr;
  /// x is kept in host memory, so that exchanges stage nothing (whoever computes does).
  bool is_on_host = false;
};

/// The number nearest to one that is `known` of whose last 25 bits a message has told the `remainder`.
std::int64_t number_near(std::int64_t known, std::int64_t remainder);

class PairAveraging {
 public:
  /// `x` is the vector that exchanges average; like the node, it outlives this object.
  PairAveraging(Node& node, Vector& x, PairRules rules = {});

  /// Starts to answer requests; once, before the first exchange.
  void begin();
  /// How many this node may ask: by default all it ever sends to in the topology.
  std::size_t peers() const { return rules_.peers ? rules_.peers->size() : neighbors_.size(); }
  /// The i-th of them, in order.
  NodeId peer(std::size_t i) const;
  /// Averages with one of them; one exchange at a time. Takes a round trip for
  /// every piece of the model; with a peer that is left alone nothing happens.
  Task<> exchange(NodeId peer);
  /// No more exchanges from this node. Answers the others until they, too, are done; the object may
  /// go then.
  Task<> finish();

 private:
  enum class Kind : std::uint8_t { request, reply, done, deadline_set };
  /// What a node knows of its requests to another one and of that one's to it.
  struct Pair {
    std::int64_t sent = 0;  // number of the last request, from 1
    std::int64_t seen = 0;  // largest number received
    int silences = 0;       // requests given up since something came
    Time left_alone_until{};
  };
  /// An exchange of one piece: the `number`-th request of `initiator` to `partner`.
  struct Name {
    NodeId initiator;
    NodeId partner;
    std::int64_t number;
  };
  /// What this node said of a piece of its x in one message, and takes it for.
  struct Offer {
    Name name;
    Vector x;
    Vector decoded;  // Q(x)
  };

  /// What the number of a message tells.
  struct Told {
    Kind kind;
    std::int64_t number;  // of the request
    std::int64_t seen;    // of this node's requests by its sender
  };

  Task<> serve();
  Told told_by(const Message& message);
  /// Whether a code is made for an answer to it: not if it came twice, or crossed a request of this node.
  bool will_offer(const Message& message);
  /// That one message holds.
  std::size_t codes() const { return rules_.base == nullptr ? 1 : 2; }
  void end_of(NodeId peer);
  void handle(const Message& message);
  void answer(const Name& name, std::int64_t seen, const Vector& words);
  std::size_t piece_of(const Name& name) const;
  Random stream_of(const Name& name) const;
  /// Asks for what is published, of one piece.
  Offer ask(const Name& name);
  /// Sends the piece of x, or of what is published, to `peer`.
  Offer offer(NodeId peer, Kind kind, const Name& name);
  /// Q of the piece of the sender.
  Vector read(const Vector& words, const Name& name) const;
  void average(const Offer& ours, const Vector& theirs);
  double pack(NodeId to, Kind kind);
  void tell(NodeId to, Kind kind);
  /// The open request that a message of `peer` completes; open_.end() if there is none.
  std::vector<Offer>::iterator find_open(NodeId peer, std::int64_t number);
  std::vector<Offer>::iterator find_crossed(const Name& theirs, std::int64_t seen);
  void complete(std::vector<Offer>::iterator request, const Vector& theirs);
  /// Drops requests up to `number`: their answers can come no more.
  void forget(NodeId peer, std::int64_t number);
  void stop_waiting();
  void give_up();

  Node& node_;
  Vector& x_;
  PairRules rules_;
  Neighbors neighbors_;
  std::unordered_map<NodeId, Pair> pairs_;  // looked up only
  /// Requests not answered yet: one may be waited for, the others are given up.
  std::vector<Offer> open_;
  NodeId partner_;                // whom the exchange under way is with
  std::optional<Time> deadline_;  // for its answer; at the end, for a sign of the others
  bool is_told_by_tree_;
  /// Who may still ask, and this node; by tree, who has still to tell this node, and it itself.
  std::unordered_set<NodeId> unfinished_;  // looked up only
  bool is_serving_ = false;
  Signal changed_;
};

}  // namespace starling::algorithms
