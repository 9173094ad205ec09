#include "algorithms/pair_averaging.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

constexpr NodeId nobody = -1;
constexpr Tag tag = tag_of(Channel::pairwise);
constexpr int most_silences = 10;  // then left alone 1,024 times as long as patience

// Message::number holds kind + 4 * (number of the request + 2^25 * last number seen), exactly; of the numbers the last 25 bits.
constexpr std::int64_t kinds = 4;
constexpr std::int64_t numbers = std::int64_t{1} << 25;

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

/// A binary tree over all nodes.
NodeId above(NodeId node) { return (node - 1) / 2; }

std::vector<NodeId> below(NodeId node, NodeId nodes) {
  std::vector<NodeId> result;
  for (const NodeId child : {2 * node + 1, 2 * node + 2}) {
    if (child < nodes) result.push_back(child);
  }
  return result;
}

}  // namespace

std::int64_t number_near(std::int64_t known, std::int64_t remainder) {
  const std::int64_t ahead = (remainder - known % numbers + numbers) % numbers;
  return known + (ahead < numbers / 2 ? ahead : ahead - numbers);
}

PairAveraging::PairAveraging(Node& node, Vector& x, PairRules rules)
    : node_(node),
      x_(x),
      rules_(std::move(rules)),
      neighbors_(node.topology().neighbors(node.id())),
      partner_(nobody),
      is_told_by_tree_(!rules_.peers && node.topology().is_complete() &&
                       rules_.patience == Duration{}),
      changed_(node) {
  const auto wait_for = [this](const auto& nodes) {
    unfinished_.insert(nodes.begin(), nodes.end());
  };
  if (is_told_by_tree_) {
    wait_for(below(node.id(), node.nodes()));
  } else if (rules_.peers) {
    wait_for(*rules_.peers);
  } else {
    wait_for(node.topology().senders(node.id()));
  }
  unfinished_.insert(node.id());
  if (!rules_.codec->needs_reference()) rules_.base = nullptr;
}

NodeId PairAveraging::peer(std::size_t i) const {
  return rules_.peers ? (*rules_.peers)[i] : neighbors_[static_cast<NodeId>(i)];
}

void PairAveraging::begin() {
  is_serving_ = true;
  node_.spawn(serve());
}

Task<> PairAveraging::exchange(NodeId peer) {
  const auto pieces = static_cast<std::int64_t>(Cut(node_, x_).count());
  Pair& pair = pairs_[peer];
  for (std::int64_t i = 0; i < pieces && node_.now() >= pair.left_alone_until; ++i) {
    if (!rules_.published) co_await encoding(node_, *rules_.codec, x_, codes());
    partner_ = peer;
    ++pair.sent;
    const Name name{node_.id(), peer, pair.sent};
    open_.push_back(rules_.published ? ask(name) : offer(peer, Kind::request, name));
    deadline_ = patience_ends(node_, rules_.patience);
    if (deadline_) tell(node_.id(), Kind::deadline_set);
    while (partner_ != nobody) co_await changed_.wait();
  }
  pair.sent += (pieces - pair.sent % pieces) % pieces;  // the next exchange begins with piece 0
}

Task<> PairAveraging::finish() {
  for (std::size_t i = 0; !is_told_by_tree_ && i < peers(); ++i) tell(peer(i), Kind::done);
  tell(node_.id(), Kind::done);
  while (is_serving_) co_await changed_.wait();
}

double PairAveraging::pack(NodeId to, Kind kind) {
  const Pair& pair = pairs_[to];
  const std::int64_t number = kind == Kind::request ? pair.sent : 0;
  return static_cast<double>(static_cast<std::int64_t>(kind) +
                             kinds * (number % numbers + numbers * (pair.seen % numbers)));
}

void PairAveraging::tell(NodeId to, Kind kind) { node_.send(to, tag, {}, pack(to, kind)); }

Task<> PairAveraging::serve() {
  const Pattern patterns[] = {{any_source, tag}};
  while (!unfinished_.empty() || !open_.empty()) {
    const std::optional<Time> until = deadline_;
    const Node::Select::Result got = co_await node_.select(patterns, until);
    if (got.index == 0) {
      if (!rules_.codec->is_exact()) {
        const std::size_t read = got.message.values ? codes() : 0;
        co_await node_.decode(x_, read);
        const std::size_t made = will_offer(got.message) ? codes() : 0;
        co_await node_.encode(x_, made);
      }
      handle(got.message);
    } else {
      give_up();
    }
  }
  is_serving_ = false;
  changed_.notify();
}

/// `peer`, and by tree all below or above it, have said that they are done.
void PairAveraging::end_of(NodeId peer) {
  if (unfinished_.erase(peer) == 0 || !is_told_by_tree_ || !unfinished_.empty()) return;
  const NodeId id = node_.id();
  if (id != 0 && peer != above(id)) {  // all below are
    tell(above(id), Kind::done);
    unfinished_.insert(above(id));
  } else {  // all are
    for (const NodeId child : below(id, node_.nodes())) tell(child, Kind::done);
  }
}

PairAveraging::Told PairAveraging::told_by(const Message& message) {
  const auto packed = static_cast<std::int64_t>(message.number);
  const Pair& pair = pairs_[message.source];
  return {static_cast<Kind>(packed % kinds), number_near(pair.seen, packed / kinds % numbers),
          number_near(pair.sent, packed / kinds / numbers)};
}

bool PairAveraging::will_offer(const Message& message) {
  const Told told = told_by(message);
  if (told.kind != Kind::request || told.number <= pairs_[message.source].seen) return false;
  const Name name{message.source, node_.id(), told.number};
  return rules_.published || find_crossed(name, told.seen) == open_.end();
}

void PairAveraging::handle(const Message& message) {
  const auto [kind, number, seen] = told_by(message);
  if (kind == Kind::deadline_set) return;
  const NodeId peer = message.source;
  Pair& pair = pairs_[peer];
  pair.silences = 0;
  pair.left_alone_until = Time{};

  if (kind == Kind::done) {
    end_of(peer);
  } else if (kind == Kind::reply) {
    const auto request = find_open(peer, seen);
    if (request != open_.end()) complete(request, read(message.values, {node_.id(), peer, seen}));
    forget(peer, seen);
  } else if (number > pair.seen) {  // else it came twice
    pair.seen = number;
    forget(peer, seen);
    answer({peer, node_.id(), number}, seen, message.values);
  }
  const bool is_finished = !unfinished_.contains(node_.id());
  if (is_finished) deadline_ = patience_ends(node_, rules_.patience);
}

/// A request with `words`, whose sender has seen this node's requests up to number `seen`.
void PairAveraging::answer(const Name& name, std::int64_t seen, const Vector& words) {
  if (rules_.published) {
    offer(name.initiator, Kind::reply, name);
    return;
  }
  const Vector theirs = read(words, name);
  const auto crossed = find_crossed(name, seen);
  if (crossed != open_.end()) {
    complete(crossed, theirs);
  } else {
    average(offer(name.initiator, Kind::reply, name), theirs);
  }
}

std::size_t PairAveraging::piece_of(const Name& name) const {
  return static_cast<std::size_t>(name.number - 1) % Cut(node_, x_).count();
}

Random PairAveraging::stream_of(const Name& name) const {
  return code_stream(node_, name.initiator, name.number * node_.nodes() + name.partner);
}

PairAveraging::Offer PairAveraging::ask(const Name& name) {
  tell(name.partner, Kind::request);
  const Vector part = Cut(node_, x_).part(piece_of(name));
  return {name, part, part};
}

PairAveraging::Offer PairAveraging::offer(NodeId peer, Kind kind, const Name& name) {
  const std::size_t piece = piece_of(name);
  const Vector part = Cut(node_, rules_.published ? *rules_.published : x_).part(piece);
  const double number = pack(peer, kind);
  if (rules_.codec->is_exact()) {
    rules_.is_on_host ? node_.send_from_host(peer, tag, part, number)
                      : node_.send(peer, tag, part, number);
    return {name, part, part};
  }
  Encoded encoded = encode(*rules_.codec, part, stream_of(name), part);
  if (rules_.base != nullptr) {
    const Code base = rules_.codec->encode(Cut(node_, *rules_.base).part(piece), stream_of(name));
    const Vector words[] = {base.words, encoded.code.words};
    encoded.code = {concatenate(words), base.bytes + encoded.code.bytes};
  }
  node_.send_code(peer, tag, encoded.code, number);
  return {name, part, encoded.decoded};
}

Vector PairAveraging::read(const Vector& words, const Name& name) const {
  const std::size_t piece = piece_of(name);
  const Vector part = Cut(node_, x_).part(piece);
  const Codec& codec = *rules_.codec;
  const Random stream = stream_of(name);
  if (rules_.base == nullptr) return codec.decode(words, part.size(), stream, part);
  const std::size_t half = words.size() / 2;
  const Vector own_base = Cut(node_, *rules_.base).part(piece);
  const Vector base = codec.decode(words.slice(0, half), part.size(), stream, own_base);
  return codec.decode(words.slice(half, half), part.size(), stream, base);
}

void PairAveraging::average(const Offer& ours, const Vector& theirs) {
  const Cut cut(node_, x_);
  const std::size_t piece = piece_of(ours.name);
  Vector part = cut.part(piece);
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
  const Piece place = cut[piece];
  x_ = with_part(x_, place, std::move(part));
}

std::vector<PairAveraging::Offer>::iterator PairAveraging::find_open(NodeId peer,
                                                                     std::int64_t number) {
  return std::ranges::find_if(open_, [=](const Offer& request) {
    return request.name.partner == peer && request.name.number == number;
  });
}

std::vector<PairAveraging::Offer>::iterator PairAveraging::find_crossed(const Name& theirs,
                                                                        std::int64_t seen) {
  // The first one that the other had not seen, if it was of the same piece.
  const auto first = std::ranges::find_if(open_, [&theirs, seen](const Offer& request) {
    return request.name.partner == theirs.initiator && request.name.number > seen;
  });
  if (first == open_.end() || piece_of(first->name) != piece_of(theirs)) return open_.end();
  return first;
}

void PairAveraging::complete(std::vector<Offer>::iterator request, const Vector& theirs) {
  const Name name = request->name;
  average(*request, theirs);
  open_.erase(request);
  if (name.partner == partner_ && name.number == pairs_[name.partner].sent) stop_waiting();
}

void PairAveraging::forget(NodeId peer, std::int64_t number) {
  const auto forgotten = std::erase_if(open_, [=](const Offer& request) {
    return request.name.partner == peer && request.name.number <= number;
  });
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
    open_.clear();
    return;
  }
  Pair& pair = pairs_[partner_];
  pair.silences = std::min(pair.silences + 1, most_silences);
  const std::int64_t times =
      std::min(std::int64_t{1} << pair.silences, Duration::max() / rules_.patience);
  pair.left_alone_until = after(node_.now(), rules_.patience * times);
  stop_waiting();
}

}  // namespace starling::algorithms
