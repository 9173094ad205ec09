#include "algorithms/coded_exchange.hpp"

#include <utility>

namespace starling::algorithms {

void send_compressed(Node& node, NodeId to, Tag tag, const Vector& v, double number,
                     Compressor& compressor, const Random& stream) {
  if (compressor.is_exact() || v.size() == 0) return send_in_pieces(node, to, tag, v, number);
  node.send_code(to, tag, compressor.encode(v, stream), number);
}

Task<Message> receive_compressed(Node& node, Message first, std::size_t size,
                                 const Compression& compression, Random stream) {
  if (compression.is_exact() || size == 0) {
    Message whole = co_await receive_rest(node, std::move(first), size);
    co_return whole;
  }
  first.values = compression.codec->decode(first.values, size, stream, {});
  co_await decoding(node, *compression.codec, first.values);
  co_return first;
}

CodedExchange::CodedExchange(Node& node, SharedCodec codec, Draws draws, Channel channel)
    : node_(node), codec_(std::move(codec)), draws_(draws), channel_(channel) {}

Random CodedExchange::stream(NodeId sender, Step k) const {
  const char* purpose = channel_ == Channel::program ? "code" : "second code";
  return draws_ == Draws::shared ? node_.shared_random(purpose, k)
                                 : code_stream(node_, sender, k, purpose);
}

Task<Vector> CodedExchange::send(Step k, Vector v) {
  node_.post_receives(tag_of(channel_, k));
  co_await encoding(node_, *codec_, v);
  const Encoded encoded = encode(*codec_, v, stream(node_.id(), k), v);
  for_each_receiver(node_, k,
                    [&](NodeId peer) { node_.send_code(peer, tag_of(channel_, k), encoded.code); });
  co_return encoded.decoded;
}

Task<Vector> CodedExchange::mix(Step k, Vector decoded, Vector reference) {
  const std::size_t size = decoded.size();
  const Tag tag = tag_of(channel_, k);
  decoded.scale(node_.self_weight(k));
  for (const Edge& edge : node_.in(k)) {
    const Message m = co_await node_.receive(edge.peer, tag);
    decoded.add_scaled(edge.weight,
                       codec_->decode(m.values, size, stream(edge.peer, k), reference));
  }
  node_.close_receives(tag);
  co_await node_.sent(tag);
  co_await decoding(node_, *codec_, decoded, node_.in(k).size());
  co_return decoded;
}

Mixing::Mixing(Node& node, SharedCodec codec, Channel channel, double rate)
    : node_(node),
      is_plain_(codec->is_exact() && rate == 1),
      exchange_(node, std::move(codec), CodedExchange::Draws::shared, channel),
      channel_(channel),
      rate_(rate) {}

Task<> Mixing::send(Step k, Vector x) {
  return is_plain_ ? send_to_neighbors(node_, k, std::move(x), channel_)
                   : send_code(k, std::move(x));
}

Task<Vector> Mixing::mix(Step k, Vector x) {
  return is_plain_ ? mix_with_neighbors(node_, k, std::move(x), channel_)
                   : mix_codes(k, std::move(x));
}

Task<> Mixing::send_code(Step k, Vector x) {
  co_await node_.finish_backward();  // a code is made of the whole model
  decoded_ = co_await exchange_.send(k, x);
}

Task<Vector> Mixing::mix_codes(Step k, Vector x) {
  const Vector own = std::exchange(decoded_, {});
  const Vector mixed = co_await exchange_.mix(k, own, x);
  x.add_scaled(rate_, mixed);
  x.add_scaled(-rate_, own);
  co_return x;
}

}  // namespace starling::algorithms
