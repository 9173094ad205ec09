// Push-sum shares: what push-sum algorithms (SGP, overlap SGP) exchange at a step, and with whom. A
// node holds a mass (x, w) and estimates by x / w; it keeps the share p_ii of both and sends p_ji
// of both to each out-peer j. Columns of P sum to one, so the sums of x and of w over nodes and
// messages never change, whoever sends to whom.
//
//   one_peer   at step k, i sends half to i + 2^(k mod L), with L powers of two below n
//   two_peer   at step k, i sends thirds to the peers of steps k and k + 1
//   four_peer  at step k, i sends fifths to the peers of steps k to k + 3; with L below two or four both have L peers
//   both_ways  i sends half to i + 1, i - 1, i + 2, i - 2, i + 4, .. in turn, each node once per round
//   topology   i sends to its out-neighbors in the scenario's topology
//
// With two or four peers the authors' code moves on by as many as it sends to: 1, 2, then 4, 8 away, where here 2, 4 come
// between. Its class DynamicDirectedExponentialGraph is both_ways.
// With `distances` below L the schedule is that much shorter, and nodes further apart never meet at one step; a peer whose
// turn comes twice at a step gets two shares.
//
// A compressed share is subtracted as its receiver reads it, so nothing is lost; but codecs that leave entries out move w
// without them, and only fine ones (half, many levels) keep x / w near the model.
//
// Kempe, Dobra, Gehrke, "Gossip-Based Computation of Aggregate Information", FOCS 2003; schedules:
// Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019.
#pragma once

#include <string>
#include <vector>

#include "algorithms/codec.hpp"
#include "algorithms/context.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// The mass of one node.
struct Mass {
  Vector x;      // numerator
  double w = 1;  // denominator, travels in the header of a message

  /// x / w
  Vector model() const;
  /// Throws Error where nobody sent the node anything for so long that x, of floats, has no digits left after step k.
  void expect_weight(Step k) const;
  /// Adds a share that has arrived.
  void fold(const Message& share);
  /// The same for a compressed share of step k.
  void fold(const Node& node, const Message& share, Step k, const Codec& codec);
};

/// One node's part in the exchange of one step.
struct Shares {
  struct Out {
    NodeId peer;
    double weight;  // p_ji
  };
  double kept = 1;  // p_ii = 1 - sum_j p_ji
  std::vector<Out> out;
  std::vector<NodeId> in;  // sorted

  /// Sends the shares of `mass` in step k, compressed, and keeps the rest: all that receivers do not read.
  void send(Node& node, Mass& mass, Step k, const Codec& codec) const;
  /// Sends the shares of `mass` with `tag` as they are, and keeps the rest.
  void send(Node& node, Mass& mass, Tag tag) const;
  /// Sends the shares and waits for those of the in-peers, piece by piece (pieces.hpp); w travels with the first.
  Task<> exchange(Node& node, Mass& mass, Tag tag) const;
  /// The same for step k, compressed, in one piece.
  Task<> exchange(Node& node, Mass& mass, Step k, const Codec& codec) const;
};

class PushSchedule {
 public:
  /// Reads the keys `peers`, `distances`, `weights` and `compression`; the caller calls section.finish().
  PushSchedule(const Section& section, const Context& context);

  /// Shares of `node` at step k.
  Shares at(const Node& node, Step k) const;
  /// How shares are compressed.
  const Codec& codec() const { return *codec_; }
  /// Whether every node keeps a share, and sends none that is negative.
  bool has_positive_shares(const Topology& topology) const;

 private:
  SharedCodec codec_;
  int peers_;                      // 1, 2, 4, or 0: those of the topology
  std::vector<NodeId> distances_;  // of exponential peers from their node, modulo the nodes
  bool is_uniform_;
};

}  // namespace starling::algorithms
