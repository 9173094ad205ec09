#include "algorithms/pair_averaging.hpp"

#include <array>
#include <utility>

#include "algorithms/exchange.hpp"

namespace starling::algorithms {
namespace {

constexpr NodeId nobody = -1;
constexpr Tag tag = tag_of(Channel::pairwise);

// What a message is: Message::number modulo `kinds`. The rest of it counts the initiator's requests.
constexpr double request = 0;
constexpr double reply = 1;
constexpr double done = 2;
constexpr Step kinds = 3;

double kind_of(const Message& message) {
  return static_cast<double>(static_cast<Step>(message.number) % kinds);
}

}  // namespace

PairAveraging::PairAveraging(Node& node, Vector& x, PairCoding coding)
    : node_(node),
      x_(x),
      coding_(std::move(coding)),
      peers_(node.topology().neighbors(node.id())),
      partner_(nobody),
      changed_(node) {
  if (!coding_.codec->needs_reference()) coding_.base = nullptr;
}

void PairAveraging::begin() {
  is_serving_ = true;
  node_.spawn(serve());
}

Task<> PairAveraging::exchange(NodeId peer) {
  partner_ = peer;
  offered_ = offer(peer, request, {node_.id(), begun_++});
  while (partner_ != nobody) co_await changed_.wait();
}

Task<> PairAveraging::finish() {
  for (const NodeId peer : peers_) node_.send(peer, tag, {}, done);
  node_.send(node_.id(), tag, {}, done);
  while (is_serving_) co_await changed_.wait();
}

Task<> PairAveraging::serve() {
  // Those who may ask, and this node, which waits for answers.
  std::size_t unfinished = senders_to(node_).size() + 1;
  while (unfinished > 0) {
    const Message m = co_await node_.receive(any_source, tag);
    if (kind_of(m) == done) {
      --unfinished;
    } else if (m.source == partner_) {  // an answer, or a request that crossed ours
      average(offered_, read(m));
      partner_ = nobody;
      offered_ = {};
      changed_.notify();
    } else {
      const Offer ours = offer(m.source, reply, named(m));
      average(ours, read(m));
    }
  }
  is_serving_ = false;
  changed_.notify();
}

PairAveraging::Name PairAveraging::named(const Message& message) const {
  return {kind_of(message) == reply ? node_.id() : message.source,
          static_cast<Step>(message.number) / kinds};
}

PairAveraging::Offer PairAveraging::offer(NodeId peer, double kind, Name name) {
  const Random stream = code_stream(node_, name.initiator, name.k);
  Encoded encoded = encode(*coding_.codec, x_, stream, x_);
  if (coding_.base != nullptr) {
    const Code base = coding_.codec->encode(*coding_.base, stream);
    const Vector words[] = {base.words, encoded.code.words};
    encoded.code = {concatenate(words), base.bytes + encoded.code.bytes};
  }
  node_.send_code(peer, tag, encoded.code, static_cast<double>(kinds * name.k) + kind);
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

void PairAveraging::average(const Offer& ours, const Vector& theirs) {
  if (coding_.rule == PairCoding::Rule::difference || coding_.codec->is_exact()) {
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
