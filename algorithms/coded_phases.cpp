#include "algorithms/coded_phases.hpp"

#include <utility>

#include "algorithms/shards.hpp"

namespace starling::algorithms {

CodedPhases::CodedPhases(Node& node, std::size_t size, std::vector<SharedCodec> codecs,
                         bool has_feedback)
    : node_(node), size_(size), has_feedback_(has_feedback), codecs_(std::move(codecs)) {
  if (has_feedback) feedback_.resize(static_cast<std::size_t>(node.nodes()));
}

Task<> CodedPhases::send_pieces(Round round, Vector p, bool takes_residual) {
  node_.post_receives(round.tag);
  node_.post_receives(tag_of_results(round));
  co_await encoding(node_, codec(me(), round), p);
  for (NodeId owner = 0; owner < node_.nodes(); ++owner) {
    if (size_of(owner) == 0) continue;
    const Vector piece = shard(p, owner, node_.nodes());
    const Random random = stream(round, me(), owner, Phase::pieces);
    ErrorFeedback* feedback =
        has_feedback_ && takes_residual ? &feedback_[static_cast<std::size_t>(owner)] : nullptr;
    const Codec& coder = codec(owner, round);
    const Code code = feedback == nullptr ? coder.encode(piece, random)
                                          : feedback->encode(coder, piece, random).code;
    node_.send_code(owner, round.tag, code);
  }
}

Task<Vector> CodedPhases::mean_of_own(Round round) {
  const NodeId senders = size_of(me()) == 0 ? 0 : node_.nodes();
  std::vector<Vector> pieces;
  for (NodeId i = 0; i < senders; ++i) {
    const Message m = co_await node_.receive(i, round.tag);
    pieces.push_back(decoded(m, round, me(), Phase::pieces));
  }
  node_.close_receives(round.tag);
  co_await node_.sent(round.tag);
  if (senders == 0) co_return Vector{};
  co_await decoding(node_, codec(me(), round), pieces[0], pieces.size());
  co_return mean(pieces);
}

Task<> CodedPhases::send_result(Round round, Vector r) {
  co_await encoding(node_, codec(me(), round), r);
  const Random random = stream(round, me(), me(), Phase::results);
  const Code code = has_feedback_ ? own_feedback_.encode(codec(me(), round), r, random).code
                                  : codec(me(), round).encode(r, random);
  for (NodeId i = 0; i < node_.nodes(); ++i) node_.send_code(i, tag_of_results(round), code);
}

Task<Vector> CodedPhases::receive_results(Round round) {
  std::vector<Vector> results;
  for (NodeId owner = 0; owner < node_.nodes(); ++owner) {
    if (size_of(owner) == 0) continue;
    const Message m = co_await node_.receive(owner, tag_of_results(round));
    results.push_back(decoded(m, round, owner, Phase::results));
  }
  node_.close_receives(tag_of_results(round));
  co_await node_.sent(tag_of_results(round));
  const Vector all = join_shards(results);
  co_await decoding(node_, codec(me(), round), all);
  co_return all;
}

void CodedPhases::scale_residual(double factor) {
  for (ErrorFeedback& each : feedback_) each.scale_residual(factor);
}

std::size_t CodedPhases::size_of(NodeId owner) const {
  return shard_begin(owner + 1, node_.nodes(), size_) - shard_begin(owner, node_.nodes(), size_);
}

const Codec& CodedPhases::codec(NodeId owner, const Round& round) const {
  if (round.is_exact) return *exact_;
  return *codecs_[codecs_.size() == 1 ? 0 : static_cast<std::size_t>(owner)];
}

/// Of the code that `sender` makes of an owner's piece.
Random CodedPhases::stream(const Round& round, NodeId sender, NodeId owner, Phase phase) const {
  return code_stream(node_, sender, round.number * node_.nodes() + owner,
                     phase == Phase::pieces ? "code" : "downlink");
}

/// What the message says: of an owner's piece, or from the owner.
Vector CodedPhases::decoded(const Message& m, const Round& round, NodeId owner, Phase phase) const {
  return codec(owner, round)
      .decode(m.values, size_of(owner), stream(round, m.source, owner, phase), {});
}

}  // namespace starling::algorithms
