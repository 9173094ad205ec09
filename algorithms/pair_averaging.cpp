#include "algorithms/pair_averaging.hpp"

#include <array>
#include <utility>
#include <vector>

#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

constexpr NodeId nobody = -1;
constexpr Tag tag = tag_of(Channel::pairwise);

// What a message is, in Message::number: the kind, and the number of kinds times which piece of the model it is or, for a
// code, how many requests its initiator had sent before.
enum Kind : std::size_t { request, reply, done };
constexpr std::size_t kinds = 3;

double code(Kind kind, std::size_t piece) { return static_cast<double>(kinds * piece + kind); }

/// x with `part` in the place of its piece.
Vector with_part(const Vector& x, const Piece& piece, Vector part) {
  if (piece.size == x.size()) return part;
  const std::size_t end = piece.offset + piece.size;
  std::vector<Vector> parts;
  if (piece.offset > 0) parts.push_back(x.slice(0, piece.offset));
  parts.push_back(std::move(part));
  if (end < x.size()) parts.push_back(x.slice(end, x.size() - end));
  return concatenate(parts);
}

}  // namespace

PairAveraging::PairAveraging(Node& node, Vector& x, PairCoding coding, bool is_on_host)
    : node_(node),
      x_(x),
      coding_(std::move(coding)),
      peers_(node.topology().neighbors(node.id())),
      is_on_host_(is_on_host),
      is_plain_(coding_.codec->is_exact()),
      partner_(nobody),
      changed_(node) {
  if (!coding_.codec->needs_reference()) coding_.base = nullptr;
}

void PairAveraging::begin() {
  is_serving_ = true;
  node_.spawn(serve());
}

void PairAveraging::send(NodeId to, Vector values, double what) {
  if (is_on_host_) return node_.send_from_host(to, tag, std::move(values), what);
  node_.send(to, tag, std::move(values), what);
}

Task<> PairAveraging::exchange(NodeId peer) {
  if (is_plain_) {
    for (std::size_t i = 0; i < node_.pieces().size(); ++i) co_await exchange_piece(peer, i);
    co_return;
  }
  partner_ = peer;
  offered_ = offer(peer, {node_.id(), begun_++}, false);
  while (partner_ != nobody) co_await changed_.wait();
}

Task<> PairAveraging::exchange_piece(NodeId peer, std::size_t i) {
  partner_ = peer;
  piece_ = i;
  sent_ = Cut(node_, x_).part(i);
  send(peer, sent_, code(request, i));
  while (partner_ != nobody) co_await changed_.wait();
}

Task<> PairAveraging::finish() {
  for (const NodeId peer : peers_) node_.send(peer, tag, {}, code(done, 0));
  node_.send(node_.id(), tag, {}, code(done, 0));
  while (is_serving_) co_await changed_.wait();
}

/// x <- x + (theirs - ours) / 2 in piece i
void PairAveraging::average(std::size_t i, const Vector& ours, const Vector& theirs) {
  const Cut cut(node_, x_);
  Vector part = cut.part(i);
  part.add_scaled(0.5, theirs);
  part.add_scaled(-0.5, ours);
  x_ = with_part(x_, cut[i], std::move(part));
}

Task<> PairAveraging::serve() {
  // Those who may ask, and this node, which waits for answers.
  std::size_t unfinished = senders_to(node_).size() + 1;
  while (unfinished > 0) {
    const Message m = co_await node_.receive(any_source, tag);
    const auto number = static_cast<std::size_t>(m.number);
    const std::size_t piece = is_plain_ ? number / kinds : 0;
    if (number % kinds == done) {
      --unfinished;
    } else if (m.source == partner_ && piece == piece_) {  // an answer, or a request that crossed ours
      if (is_plain_) {
        average(piece, sent_, m.values);
      } else {
        average_codes(offered_, read(m));
      }
      partner_ = nobody;
      sent_ = {};
      offered_ = {};
      changed_.notify();
    } else if (is_plain_) {
      const Vector ours = Cut(node_, x_).part(piece);
      average(piece, ours, m.values);
      send(m.source, ours, code(reply, piece));
    } else {
      const Offer ours = offer(m.source, named(m), true);
      average_codes(ours, read(m));
    }
  }
  is_serving_ = false;
  changed_.notify();
}

PairAveraging::Name PairAveraging::named(const Message& message) const {
  const auto number = static_cast<std::size_t>(message.number);
  return {number % kinds == reply ? node_.id() : message.source, static_cast<Step>(number / kinds)};
}

PairAveraging::Offer PairAveraging::offer(NodeId peer, Name name, bool is_reply) {
  const Random stream = code_stream(node_, name.initiator, name.k);
  Encoded encoded = encode(*coding_.codec, x_, stream, x_);
  if (coding_.base != nullptr) {
    const Code base = coding_.codec->encode(*coding_.base, stream);
    const Vector words[] = {base.words, encoded.code.words};
    encoded.code = {concatenate(words), base.bytes + encoded.code.bytes};
  }
  node_.send_code(peer, tag, encoded.code, code(is_reply ? reply : request, static_cast<std::size_t>(name.k)));
  return {x_, encoded.decoded};
}

Vector PairAveraging::read(const Message& message) const {
  const Name name = named(message);
  const Codec& codec = *coding_.codec;
  const Random stream = code_stream(node_, name.initiator, name.k);
  const Vector& words = message.values;
  if (coding_.base == nullptr) return codec.decode(words, x_.size(), stream, x_);
  const std::size_t half = words.size() / 2;
  const Vector base = codec.decode(words.slice(0, half), x_.size(), stream, *coding_.base);
  return codec.decode(words.slice(half, half), x_.size(), stream, base);
}

void PairAveraging::average_codes(const Offer& ours, const Vector& theirs) {
  if (coding_.rule == PairCoding::Rule::difference) {
    x_.add_scaled(0.5, theirs);
    x_.add_scaled(-0.5, ours.decoded);
    return;
  }
  // Half of either first: it is the same on both sides to the bit, and most often nothing else has moved.
  Vector moved = x_;
  moved.add_scaled(-1, ours.x);
  const std::array<Weighted, 3> terms{Weighted{0.5, ours.decoded}, Weighted{0.5, theirs},
                                      Weighted{1, moved}};
  x_ = weighted_sum(terms);
}

}  // namespace starling::algorithms
