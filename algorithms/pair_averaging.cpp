#include "algorithms/pair_averaging.hpp"

#include "algorithms/exchange.hpp"

namespace starling::algorithms {
namespace {

constexpr NodeId nobody = -1;
constexpr Tag tag = tag_of(Channel::pairwise);

// What a message is, in Message::number.
constexpr double request = 0;
constexpr double reply = 1;
constexpr double done = 2;

/// x <- x + (theirs - ours) / 2
void average(Vector& x, const Vector& ours, const Vector& theirs) {
  x.add_scaled(0.5, theirs);
  x.add_scaled(-0.5, ours);
}

}  // namespace

PairAveraging::PairAveraging(Node& node, Vector& x)
    : PairAveraging(node, x, node.topology().neighbors(node.id())) {
  askers_ = senders_to(node).size();
}

PairAveraging::PairAveraging(Node& node, Vector& x, std::vector<NodeId> peers)
    : node_(node),
      x_(x),
      peers_(std::move(peers)),
      askers_(peers_.size()),
      partner_(nobody),
      changed_(node) {}

void PairAveraging::begin() {
  is_serving_ = true;
  node_.spawn(serve());
}

Task<> PairAveraging::exchange(NodeId peer) {
  partner_ = peer;
  sent_ = x_;
  node_.send(peer, tag, sent_, request);
  while (partner_ != nobody) co_await changed_.wait();
}

Task<> PairAveraging::finish() {
  for (const NodeId peer : peers_) node_.send(peer, tag, {}, done);
  node_.send(node_.id(), tag, {}, done);
  while (is_serving_) co_await changed_.wait();
}

Task<> PairAveraging::serve() {
  // Those who may ask, and this node, which waits for answers.
  std::size_t unfinished = askers_ + 1;
  while (unfinished > 0) {
    const Message m = co_await node_.receive(any_source, tag);
    if (m.number == done) {
      --unfinished;
    } else if (m.source == partner_) {  // an answer, or a request that crossed ours
      average(x_, sent_, m.values);
      partner_ = nobody;
      sent_ = {};
      changed_.notify();
    } else {
      const Vector ours = x_;
      average(x_, ours, m.values);
      node_.send(m.source, tag, ours, reply);
    }
  }
  is_serving_ = false;
  changed_.notify();
}

}  // namespace starling::algorithms
