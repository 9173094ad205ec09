// CodedPhases: an allreduce in two phases, both compressed, both with error feedback if wanted. Node s owns the s-th of n pieces:
//
//   every node i   p_i <- v_i + e_i;   piece s of it goes to node s as Q(p_i[s]);   e_i <- p_i - Q(p_i)
//   owner s        r_s <- what it makes of mean_i Q(p_i[s]), + f_s;   Q(r_s) goes to everybody;   f_s <- r_s - Q(r_s)
//
// Each node sends 2 (n - 1) / n of a code of the whole vector, and all get the same bits. What a code has beside its entries, each
// piece has; so of a stand-in (`wire_parameters`), whose bytes all count more, pieces cost more than those of the model would.
//
// Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of
// Speech DNNs", Interspeech 2014; Tang et al., "DoubleSqueeze", ICML 2019, and "1-bit Adam", ICML 2021 (compressed allreduce).
#pragma once

#include <vector>

#include "algorithms/codec.hpp"

namespace starling::algorithms {

class CodedPhases {
 public:
  /// One allreduce. Other rounds may be under way, by tags of their own.
  struct Round {
    Tag tag;  // as for allreduce()
    Step number;
    bool is_exact = false;  // nothing is compressed
  };

  /// Of vectors of `size` floats, cut as shards are (shards.hpp). Pieces are coded by `codecs`: one for all, or one for each.
  CodedPhases(Node& node, std::size_t size, std::vector<SharedCodec> codecs, bool has_feedback);

  /// Sends every owner its piece of `p`. Unless it `takes_residual`, what was held back stays here.
  Task<> send_pieces(Round round, Vector p, bool takes_residual = true);
  /// The mean of what all nodes sent of the piece that this one owns; nothing of an empty piece.
  Task<Vector> mean_of_own(Round round);
  /// Sends everybody what this node made of its piece, which is not empty.
  Task<> send_result(Round round, Vector r);
  /// The results of all pieces.
  Task<Vector> receive_results(Round round);
  /// What phase 1 held back counts so many times from now on.
  void scale_residual(double factor);

 private:
  enum class Phase { pieces, results };
  NodeId me() const { return node_.id(); }
  static Tag tag_of_results(const Round& round) { return tag_of_part(round.tag, 1); }
  std::size_t size_of(NodeId owner) const;
  const Codec& codec(NodeId owner, const Round& round) const;
  Random stream(const Round& round, NodeId sender, NodeId owner, Phase phase) const;
  Vector decoded(const Message& m, const Round& round, NodeId owner, Phase phase) const;

  Node& node_;
  std::size_t size_;
  bool has_feedback_;
  SharedCodec exact_ = exact_codec();
  std::vector<SharedCodec> codecs_;
  std::vector<ErrorFeedback> feedback_;  // (owners), of phase 1
  ErrorFeedback own_feedback_;           // of phase 2
};

}  // namespace starling::algorithms
