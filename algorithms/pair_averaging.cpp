#include "algorithms/pair_averaging.hpp"

#include <vector>

#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

constexpr NodeId nobody = -1;
constexpr Tag tag = tag_of(Channel::pairwise);

// What a message is, in Message::number: the kind, and which piece of the model times the number of kinds.
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

PairAveraging::PairAveraging(Node& node, Vector& x, bool is_on_host)
    : node_(node),
      x_(x),
      peers_(node.topology().neighbors(node.id())),
      is_on_host_(is_on_host),
      partner_(nobody),
      changed_(node) {}

void PairAveraging::begin() {
  is_serving_ = true;
  node_.spawn(serve());
}

void PairAveraging::send(NodeId to, Vector values, double what) {
  if (is_on_host_) return node_.send_from_host(to, tag, std::move(values), what);
  node_.send(to, tag, std::move(values), what);
}

Task<> PairAveraging::exchange(NodeId peer) {
  for (std::size_t i = 0; i < node_.pieces().size(); ++i) co_await exchange_piece(peer, i);
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
    const std::size_t piece = number / kinds;
    if (number % kinds == done) {
      --unfinished;
    } else if (m.source == partner_ &&
               piece == piece_) {  // an answer, or a request that crossed ours
      average(piece, sent_, m.values);
      partner_ = nobody;
      sent_ = {};
      changed_.notify();
    } else {
      const Vector ours = Cut(node_, x_).part(piece);
      average(piece, ours, m.values);
      send(m.source, ours, code(reply, piece));
    }
  }
  is_serving_ = false;
  changed_.notify();
}

}  // namespace starling::algorithms
