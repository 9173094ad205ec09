// Compressed exchanges with the neighbors, and messages that may be compressed. Q(v) is what a code says of the vector v, the
// same on the sender and on every receiver.
//
//   CodedExchange   sum_j W_ij Q(v_j): what CHOCO-SGD and its relatives need
//   Mixing          x_i + rate * sum_j W_ij (Q(x_j) - Q(x_i)): mixing of models; every node counts its own model as
//                   the others see it, so that the mean model stays (Lu, De Sa, "Moniqua", ICML 2020)
//
// A model, unlike CHOCO's differences, does not become small, and neither does what a coarse code loses of it: half precision,
// lattice codes and many levels suit Mixing; 7 levels or ternary codes make it diverge (D-PSGD, 32 nodes, digits).
// Mixing's codecs draw the same random numbers on all nodes, so that equal models make equal codes and stay as they are;
// in CHOCO-SGD and its relatives every node draws for itself.
#pragma once

#include "algorithms/codec.hpp"
#include "algorithms/exchange.hpp"

namespace starling::algorithms {

/// Sends `v` with `tag` and `number`: as send_in_pieces() does, or its code, made with `stream`.
void send_compressed(Node& node, NodeId to, Tag tag, const Vector& v, double number,
                     Compressor& compressor, const Random& stream);
/// The message that begins with `first`, with the vector of `size` floats that was given to send_compressed(), as its code
/// tells it.
Task<Message> receive_compressed(Node& node, Message first, std::size_t size,
                                 const Compression& compression, Random stream);

class CodedExchange {
 public:
  /// Whether codes of different nodes come from random numbers of their own.
  enum class Draws { own, shared };

  /// `node` outlives the exchange. Two exchanges of one step need a channel each.
  CodedExchange(Node& node, SharedCodec codec, Draws draws, Channel channel = Channel::program);

  /// Sends the code of `v` to every neighbor of step `k`; answers Q(v).
  Task<Vector> send(Step k, Vector v);
  /// sum_j W_ij Q(v_j) over the node itself, `decoded` being its Q(v), and what its neighbors sent at step `k`: itself
  /// first, then in order of peer. `reference` is a vector near all v_j, for codecs that need one.
  Task<Vector> mix(Step k, Vector decoded, Vector reference = {});

 private:
  Random stream(NodeId sender, Step k) const;

  Node& node_;
  SharedCodec codec_;
  Draws draws_;
  Channel channel_;
};

class Mixing {
 public:
  /// `node` outlives the mixing.
  Mixing(Node& node, SharedCodec codec, Channel channel = Channel::program, double rate = 1);

  /// Sends `x` to every neighbor of step `k`.
  Task<> send(Step k, Vector x);
  /// The mixed model; `x` is what was sent. With the exact codec and rate 1 mix_with_neighbors(), to the bit.
  Task<Vector> mix(Step k, Vector x);

 private:
  Task<> send_code(Step k, Vector x);
  Task<Vector> mix_codes(Step k, Vector x);

  Node& node_;
  bool is_plain_;
  CodedExchange exchange_;
  Channel channel_;
  double rate_;
  Vector decoded_;  // Q(x), between send and mix
};

}  // namespace starling::algorithms
