// Mean of compressed vectors over all nodes, of which all get the same bits. Codes do not add:
//
//   gather   each node's code goes around a ring to all others (allgather), who decode all and sum in order of node:
//            n - 1 codes for every node to send
//   owners   in two phases, of pieces and of their means (coded_phases.hpp): 2 (n - 1) / n codes
//   sums     of half precision alone: a collective adds up numbers of two bytes, and rounds every sum of two; every node divides by n
//            before, so that no sum is out of range. What mixed precision does (torch.distributed's fp16_compress_hook, for one).
//
// A model in pieces (ExchangePlan) is coded piece by piece, each by itself when the backward pass has come to it, as frameworks
// compress that are handed buckets or tensors (Xu et al., "GRACE: A Compressed Communication Framework for Distributed Machine
// Learning", ICDCS 2021): norms, shares and random numbers are of the piece.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "algorithms/codec.hpp"
#include "algorithms/coded_phases.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/context.hpp"

namespace starling::algorithms {

/// (1/n) sum_i of what the code of node i says, for vectors of `size` floats, gathered. `own` is this node's code at
/// step `k`, made with code_stream(node, node.id(), k). `members` are all nodes; `tag` as for allreduce().
Task<Vector> mean_of_codes(Node& node, std::span<const NodeId> members, Tag tag, SharedCodec codec,
                           Code own, std::size_t size, Step k);

enum class CodeRoute { gather, owners, sums };

/// Means of one vector after the other, all of one size.
class CodedMean {
 public:
  struct Settings {
    Compression compression{};
    CodeRoute route = CodeRoute::gather;
    CollectiveKind collective{};  // of sums

    bool is_exact() const { return compression.is_exact(); }
  };

  /// Both outlive it. What codes lose is kept here, if there is error feedback.
  CodedMean(Node& node, const Settings& settings);

  /// `number` tells the means of a run apart, `tag` is as for allreduce().
  Task<Vector> of(Tag tag, Vector v, Step number);

 private:
  /// What codes of one piece lose.
  struct OfPiece {
    Compressor compressor;
    std::optional<CodedPhases> phases{};  // of owners
  };
  Task<Vector> sum(Tag tag, Vector v, Step number);
  Task<Vector> of_piece(OfPiece& piece, Tag tag, Vector v, Step number);

  Node& node_;
  const Settings& settings_;
  std::vector<OfPiece> pieces_;
  ErrorFeedback feedback_;  // of sums
};

/// Tag and number, for code_stream(), of the code of the i-th of `count` pieces, where those of the whole are `tag` and `number`. It
/// has a tag for each hop around the ring, and for two phases.
struct NameOfPiece {
  Tag tag;
  Step number;
};
NameOfPiece name_of_piece(const Node& node, Tag tag, Step number, std::size_t i, std::size_t count);

/// Reads read_compression() and, if it compresses, `code_route`, with `collective` for sums. Warns of codes that are gathered although sums would be smaller.
CodedMean::Settings read_mean_compression(const Section& section, const Context& context,
                                          bool feeds_back = true, Tensors tensors = nullptr);

}  // namespace starling::algorithms
