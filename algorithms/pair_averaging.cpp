#include "algorithms/pair_averaging.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

constexpr Tag tag = tag_of(Channel::pairwise);

// What a message is: Message::number is this, plus `kinds` times the number of the exchange.
constexpr Step request = 0;
constexpr Step reply = 1;
constexpr Step done = 2;
constexpr Step deadline_set = 3;  // of a node to itself
constexpr Step kinds = 4;

Step kind_of(const Message& message) { return static_cast<Step>(message.number) % kinds; }

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

PairAveraging::PairAveraging(Node& node, Vector& x, PairRules rules)
    : node_(node),
      x_(x),
      rules_(std::move(rules)),
      peers_(rules_.peers ? *rules_.peers : node.topology().neighbors(node.id())),
      unfinished_(rules_.peers ? *rules_.peers : senders_to(node)),
      changed_(node) {
  unfinished_.push_back(node.id());
  if (!rules_.codec->needs_reference()) rules_.base = nullptr;
}

void PairAveraging::begin() {
  is_serving_ = true;
  node_.spawn(serve());
}

Task<> PairAveraging::exchange(NodeId peer) {
  const auto pieces = static_cast<Step>(Cut(node_, x_).count());
  const Step end = begun_ + pieces;
  while (begun_ < end && std::ranges::find(overdue_, peer, &Offer::peer) == overdue_.end()) {
    offered_ = offer(peer, request, {node_.id(), begun_++});
    answer_due_ = patience_ends(node_, rules_.patience);
    if (answer_due_) node_.send(node_.id(), tag, {}, deadline_set);
    while (offered_) co_await changed_.wait();
  }
  begun_ = end;
}

Task<> PairAveraging::finish() {
  for (const NodeId peer : peers_) node_.send(peer, tag, {}, done);
  node_.send(node_.id(), tag, {}, done);
  while (is_serving_) co_await changed_.wait();
}

Task<> PairAveraging::serve() {
  const Pattern patterns[] = {{any_source, tag}};
  while (!unfinished_.empty()) {
    const std::optional<Time> until = deadline();
    const Node::Select::Result got = co_await node_.select(patterns, until);
    if (got.index == 0) {
      handle(got.message);
    } else {
      give_up();
    }
  }
  is_serving_ = false;
  changed_.notify();
}

void PairAveraging::handle(const Message& message) {
  const Step kind = kind_of(message);
  if (kind == deadline_set) return;
  const bool is_finished = std::ranges::find(unfinished_, node_.id()) == unfinished_.end();
  if (kind == done) std::erase(unfinished_, message.source);
  if (is_finished || (kind == done && message.source == node_.id()))
    end_due_ = patience_ends(node_, rules_.patience);
  if (kind == done) return;

  const Name name = named(message);
  const auto belongs = [&message, piece = piece_of(name)](const Offer& offer) {
    return offer.peer == message.source && offer.piece == piece;
  };
  const auto late = std::ranges::find_if(overdue_, belongs);
  if (offered_ && belongs(*offered_)) {  // an answer, or a request that crossed ours
    average(*offered_, read(message));
    offered_.reset();
    changed_.notify();
  } else if (late != overdue_.end()) {
    average(*late, read(message));
    overdue_.erase(late);
  } else if (kind == request) {  // else an answer that came twice
    const Offer ours = offer(message.source, reply, name);
    average(ours, read(message));
  }
}

std::size_t PairAveraging::piece_of(Name name) const {
  return static_cast<std::size_t>(name.k) % Cut(node_, x_).count();
}

PairAveraging::Name PairAveraging::named(const Message& message) const {
  return {kind_of(message) == reply ? node_.id() : message.source,
          static_cast<Step>(message.number) / kinds};
}

PairAveraging::Offer PairAveraging::offer(NodeId peer, Step kind, Name name) {
  const std::size_t piece = piece_of(name);
  const Vector part = Cut(node_, x_).part(piece);
  const double number = static_cast<double>(kinds * name.k + kind);
  if (rules_.codec->is_exact()) {
    rules_.is_on_host ? node_.send_from_host(peer, tag, part, number)
                      : node_.send(peer, tag, part, number);
    return {peer, piece, part, part};
  }
  const Random stream = code_stream(node_, name.initiator, name.k);
  Encoded encoded = encode(*rules_.codec, part, stream, part);
  if (rules_.base != nullptr) {
    const Code base = rules_.codec->encode(Cut(node_, *rules_.base).part(piece), stream);
    const Vector words[] = {base.words, encoded.code.words};
    encoded.code = {concatenate(words), base.bytes + encoded.code.bytes};
  }
  node_.send_code(peer, tag, encoded.code, number);
  return {peer, piece, part, encoded.decoded};
}

Vector PairAveraging::read(const Message& message) const {
  const Name name = named(message);
  const std::size_t piece = piece_of(name);
  const Vector part = Cut(node_, x_).part(piece);
  const Codec& codec = *rules_.codec;
  const Random stream = code_stream(node_, name.initiator, name.k);
  const Vector& words = message.values;
  if (rules_.base == nullptr) return codec.decode(words, part.size(), stream, part);
  const std::size_t half = words.size() / 2;
  const Vector own_base = Cut(node_, *rules_.base).part(piece);
  const Vector base = codec.decode(words.slice(0, half), part.size(), stream, own_base);
  return codec.decode(words.slice(half, half), part.size(), stream, base);
}

void PairAveraging::average(const Offer& ours, const Vector& theirs) {
  const Cut cut(node_, x_);
  Vector part = cut.part(ours.piece);
  if (rules_.average == PairRules::Average::difference || rules_.codec->is_exact()) {
    part.add_scaled(0.5, theirs);
    part.add_scaled(-0.5, ours.decoded);
  } else {
    // Half of either first: it is the same on both sides to the bit, and most often nothing else
    // has moved.
    Vector moved = part;
    moved.add_scaled(-1, ours.x);
    const std::array<Weighted, 3> terms{Weighted{0.5, ours.decoded}, Weighted{0.5, theirs},
                                        Weighted{1, moved}};
    part = weighted_sum(terms);
  }
  const Piece piece = cut[ours.piece];
  x_ = with_part(x_, piece, std::move(part));
}

std::optional<Time> PairAveraging::deadline() const { return offered_ ? answer_due_ : end_due_; }

void PairAveraging::give_up() {
  if (!offered_) {  // at the end
    unfinished_.clear();
    return;
  }
  overdue_.push_back(*std::exchange(offered_, std::nullopt));
  changed_.notify();
}

}  // namespace starling::algorithms
