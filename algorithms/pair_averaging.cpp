#include "algorithms/pair_averaging.hpp"

#include <algorithm>

#include "algorithms/exchange.hpp"
#include "sim/base/error.hpp"

namespace starling::algorithms {
namespace {

constexpr NodeId nobody = -1;
constexpr Tag tag = tag_of(Channel::pairwise);
constexpr int most_silences = 10;  // then left alone 1,024 times as long as patience

// Message::number holds kind + 4 * (number of the request + 2^25 * last number seen), exactly.
constexpr std::int64_t kinds = 4;
constexpr std::int64_t numbers = std::int64_t{1} << 25;

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
  Pair& pair = pairs_[peer];
  if (node_.now() < pair.left_alone_until) co_return;
  partner_ = peer;
  open_.push_back({peer, ++pair.sent, x_});
  tell(peer, Kind::request, x_);
  deadline_ = patience_ends(node_, patience_);
  if (deadline_) tell(node_.id(), Kind::deadline_set);
  while (partner_ != nobody) co_await changed_.wait();
}

Task<> PairAveraging::finish() {
  for (const NodeId peer : peers_) tell(peer, Kind::done);
  tell(node_.id(), Kind::done);
  while (is_serving_) co_await changed_.wait();
}

void PairAveraging::tell(NodeId to, Kind kind, const Vector& values) {
  const Pair& pair = pairs_[to];
  const std::int64_t number = kind == Kind::request ? pair.sent : 0;
  ensure(pair.sent < numbers && pair.seen < numbers,
         "more exchanges of a pair than can be counted");
  node_.send(to, tag, values,
             static_cast<double>(static_cast<std::int64_t>(kind) +
                                 kinds * (number + numbers * pair.seen)));
}

Task<> PairAveraging::serve() {
  const Pattern patterns[] = {{any_source, tag}};
  while (!unfinished_.empty()) {
    const std::optional<Time> until = deadline_;
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
  const auto packed = static_cast<std::int64_t>(m.number);
  const auto kind = static_cast<Kind>(packed % kinds);
  const std::int64_t number = packed / kinds % numbers;
  const std::int64_t seen = packed / kinds / numbers;
  if (kind == Kind::deadline_set) return;
  Pair& pair = pairs_[m.source];
  pair.silences = 0;
  pair.left_alone_until = Time{};

  if (kind == Kind::done) {
    std::erase(unfinished_, m.source);
  } else if (kind == Kind::reply) {
    complete(m.source, seen, m.values);
    forget(m.source, seen);
  } else if (number > pair.seen) {  // else it came twice
    pair.seen = number;
    forget(m.source, seen);
    const bool has_crossed = complete(m.source, seen + 1, m.values);
    if (!has_crossed) {
      const Vector ours = x_;
      average(x_, ours, m.values);
      tell(m.source, Kind::reply, ours);
    }
  }
  const bool is_finished = std::ranges::find(unfinished_, node_.id()) == unfinished_.end();
  if (is_finished) deadline_ = patience_ends(node_, patience_);
}

bool PairAveraging::complete(NodeId peer, std::int64_t number, const Vector& theirs) {
  const auto request = std::ranges::find_if(
      open_, [=](const Request& r) { return r.peer == peer && r.number == number; });
  if (request == open_.end()) return false;
  average(x_, request->sent, theirs);
  open_.erase(request);
  if (peer == partner_ && number == pairs_[peer].sent) stop_waiting();
  return true;
}

void PairAveraging::forget(NodeId peer, std::int64_t number) {
  const auto forgotten =
      std::erase_if(open_, [=](const Request& r) { return r.peer == peer && r.number <= number; });
  if (forgotten > 0 && peer == partner_ && number >= pairs_[peer].sent) stop_waiting();
}

void PairAveraging::stop_waiting() {
  partner_ = nobody;
  deadline_.reset();
  changed_.notify();
}

void PairAveraging::give_up() {
  if (partner_ == nobody) {  // at the end
    unfinished_.clear();
    return;
  }
  Pair& pair = pairs_[partner_];
  pair.silences = std::min(pair.silences + 1, most_silences);
  pair.left_alone_until = after(node_.now(), patience_ * (std::int64_t{1} << pair.silences));
  stop_waiting();
}

}  // namespace starling::algorithms
