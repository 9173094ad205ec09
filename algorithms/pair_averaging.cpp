#include "algorithms/pair_averaging.hpp"

#include <algorithm>

#include "algorithms/exchange.hpp"

namespace starling::algorithms {
namespace {

constexpr NodeId nobody = -1;
constexpr Tag tag = tag_of(Channel::pairwise);

// What a message is, in Message::number.
constexpr double request = 0;
constexpr double reply = 1;
constexpr double done = 2;
constexpr double deadline_set = 3;  // of a node to itself

/// x <- x + (theirs - ours) / 2
void average(Vector& x, const Vector& ours, const Vector& theirs) {
  x.add_scaled(0.5, theirs);
  x.add_scaled(-0.5, ours);
}

}  // namespace

PairAveraging::PairAveraging(Node& node, Vector& x, Duration patience)
    : node_(node),
      x_(x),
      peers_(node.topology().neighbors(node.id())),
      patience_(patience),
      partner_(nobody),
      unfinished_(senders_to(node)),
      changed_(node) {
  unfinished_.push_back(node.id());
}

void PairAveraging::begin() {
  is_serving_ = true;
  node_.spawn(serve());
}

Task<> PairAveraging::exchange(NodeId peer) {
  const bool is_overdue =
      std::ranges::any_of(overdue_, [peer](const auto& request) { return request.first == peer; });
  if (is_overdue) co_return;
  partner_ = peer;
  sent_ = x_;
  node_.send(peer, tag, sent_, request);
  answer_due_ = patience_ends(node_, patience_);
  if (answer_due_) node_.send(node_.id(), tag, {}, deadline_set);
  while (partner_ != nobody) co_await changed_.wait();
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

void PairAveraging::handle(const Message& m) {
  if (m.number == deadline_set) return;
  const bool is_finished = std::ranges::find(unfinished_, node_.id()) == unfinished_.end();
  if (m.number == done) std::erase(unfinished_, m.source);
  if (is_finished || (m.number == done && m.source == node_.id()))
    end_due_ = patience_ends(node_, patience_);
  if (m.number == done) return;

  const auto late = std::ranges::find(overdue_, m.source, &std::pair<NodeId, Vector>::first);
  if (m.source == partner_) {  // an answer, or a request that crossed ours
    average(x_, sent_, m.values);
    partner_ = nobody;
    sent_ = {};
    changed_.notify();
  } else if (late != overdue_.end()) {
    average(x_, late->second, m.values);
    overdue_.erase(late);
  } else if (m.number == request) {  // else an answer that came twice
    const Vector ours = x_;
    average(x_, ours, m.values);
    node_.send(m.source, tag, ours, reply);
  }
}

std::optional<Time> PairAveraging::deadline() const {
  return partner_ != nobody ? answer_due_ : end_due_;
}

void PairAveraging::give_up() {
  if (partner_ == nobody) {  // at the end
    unfinished_.clear();
    return;
  }
  overdue_.emplace_back(partner_, sent_);
  partner_ = nobody;
  sent_ = {};
  changed_.notify();
}

}  // namespace starling::algorithms
