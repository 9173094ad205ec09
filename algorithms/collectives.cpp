#include "algorithms/collectives.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "algorithms/codec.hpp"
#include "algorithms/collective_hosts.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

/// How numbers travel: as floats or, with a codec, as codes, and then all sums are of what codes can say.
class Numbers {
 public:
  explicit Numbers(const Codec* codec) : codec_(codec) {}

  void send(Node& node, NodeId to, Tag tag, Vector v, double number = 0) const {
    if (is_coded(v.size())) {
      node.send_in_turn(to, tag, encoded(v), number);
    } else {
      node.send_in_turn(to, tag, std::move(v), number);
    }
  }
  /// The vector of `size` floats that was sent.
  Vector received(Message m, std::size_t size) const { return decoded(std::move(m.values), size); }
  /// Both, as members meet.
  Node::Meet meet(Node& node, Tag tag, std::span<const NodeId> members, CollectiveKind kind,
                  const Vector& v) const {
    return is_coded(v.size()) ? node.meet(tag, members, kind, encoded(v))
                              : node.meet(tag, members, kind, v);
  }
  void decode(std::span<Vector> words, std::size_t size) const {
    for (Vector& each : words) each = decoded(std::move(each), size);
  }

  Vector rounded(Vector v) const {
    return is_coded(v.size()) ? decoded(encoded(v).words, v.size()) : std::move(v);
  }
  Vector sum(Vector lower, const Vector& upper) const {
    lower.add(upper);
    return rounded(std::move(lower));
  }
  /// Bytes of `v`, on the wire and in the host's memory.
  std::int64_t bytes_of(const Vector& v) const {
    return is_coded(v.size()) ? bytes_on_wire({v, code_bytes(v)}) : v.wire_bytes();
  }

 private:
  bool is_coded(std::size_t size) const { return codec_ != nullptr && size > 0; }
  std::int64_t code_bytes(const Vector& v) const {
    return static_cast<std::int64_t>((v.size() * codec_->bits_of_entry() + 7) / 8);
  }
  // Codes whose entries stand by themselves draw no random numbers. Without numbers a vector, whose size may have a fraction,
  // stands for its code.
  Code encoded(const Vector& v) const {
    return v.has_numbers() ? codec_->encode(v, Random(0, "code")) : Code{v, code_bytes(v)};
  }
  Vector decoded(Vector words, std::size_t size) const {
    if (!is_coded(size) || !words.has_numbers()) return words;
    return codec_->decode(words, size, Random(0, "code"), {});
  }

  const Codec* codec_;
};

/// All chunks of a vector like `whole`; without numbers `whole` itself, for fractions of floats need not add up.
Vector joined(std::span<const Vector> chunks, const Vector& whole) {
  return whole.has_numbers() ? concatenate(chunks) : whole;
}

/// Size of a vector's i-th share of n.
std::size_t size_of_share(std::size_t size, std::size_t i, std::size_t n) {
  return (i + 1) * size / n - i * size / n;
}

/// A member's place in a collective over a power of two of "seats", after folding.
struct Seats {
  std::size_t count;  // largest power of two <= members
  std::size_t extra;  // members - count: the first 2 * extra members fold in pairs

  explicit Seats(std::size_t members) : count(std::bit_floor(members)), extra(members - count) {}
  /// Member index that sits on `seat`: the lower of a pair, or the member itself.
  std::size_t member(std::size_t seat) const { return seat < extra ? 2 * seat : seat + extra; }
};

/// Where two members exchange more than one message in a collective, they number them, and a receiver
/// leaves out what it does not expect: a message that came twice has no effect, and behind one that was
/// lost the collective waits in vain, which the run's end tells, rather than adding up the wrong parts.
double number_of(std::size_t message) { return static_cast<double>(message); }

/// Where a member's own sum is among the chunks of a ring: chunk c starts at member c and ends, complete, at member c - 1.
std::size_t chunk_of(std::size_t me, std::size_t members) { return (me + 1) % members; }

/// First half of a ring: the sum of the member's chunk.
Task<Vector> ring_scatter(Node& node, const Numbers& numbers, std::span<const NodeId> members,
                          std::size_t me, Tag tag, Vector v) {
  const std::size_t n = members.size();
  const NodeId right = members[(me + 1) % n];
  const NodeId left = members[(me + n - 1) % n];
  Vector part = v.share(me, n);
  for (std::size_t s = 0; s + 1 < n; ++s) {
    numbers.send(node, right, tag, std::move(part), number_of(s));
    Message m = co_await node.receive(left, tag);
    while (m.number != number_of(s)) m = co_await node.receive(left, tag);
    co_await node.sent(tag);
    const Vector own = v.share((me + n - s - 1) % n, n);
    part = numbers.sum(numbers.received(std::move(m), own.size()), own);
    co_await node.reduce(numbers.bytes_of(part));
  }
  co_return part;
}

/// Second half: all chunks of a vector of `size` floats, of which the member brings its own.
Task<std::vector<Vector>> ring_gather(Node& node, const Numbers& numbers,
                                      std::span<const NodeId> members, std::size_t me, Tag tag,
                                      Vector part, std::size_t size) {
  const std::size_t n = members.size();
  const NodeId right = members[(me + 1) % n];
  const NodeId left = members[(me + n - 1) % n];
  std::vector<Vector> chunks(n);
  std::size_t at = chunk_of(me, n);
  chunks[at] = std::move(part);
  for (std::size_t s = 0; s + 1 < n; ++s) {
    numbers.send(node, right, tag, chunks[at], number_of(n + s));
    Message m = co_await node.receive(left, tag);
    while (m.number != number_of(n + s)) m = co_await node.receive(left, tag);
    co_await node.sent(tag);
    at = (at + n - 1) % n;
    chunks[at] = numbers.received(std::move(m), size_of_share(size, at, n));
  }
  co_return chunks;
}

Task<Vector> ring(Node& node, const Numbers& numbers, std::span<const NodeId> members,
                  std::size_t me, Tag tag, Vector v) {
  Vector part = co_await ring_scatter(node, numbers, members, me, tag, v);
  const std::vector<Vector> chunks =
      co_await ring_gather(node, numbers, members, me, tag, std::move(part), v.size());
  co_return joined(chunks, v);
}

Task<Vector> recursive_doubling(Node& node, const Numbers& numbers, std::span<const NodeId> members,
                                std::size_t seat, const Seats& seats, Tag tag, Vector v) {
  for (std::size_t bit = 1; bit < seats.count; bit *= 2) {
    const NodeId peer = members[seats.member(seat ^ bit)];
    numbers.send(node, peer, tag, v);
    Message m = co_await node.receive(peer, tag);
    co_await node.sent(tag);
    Vector other = numbers.received(std::move(m), v.size());
    v = (seat & bit) == 0 ? numbers.sum(std::move(v), other) : numbers.sum(std::move(other), v);
    co_await node.reduce(numbers.bytes_of(v));
  }
  co_return v;
}

Task<Vector> rabenseifner(Node& node, const Numbers& numbers, std::span<const NodeId> members,
                          std::size_t seat, const Seats& seats, Tag tag, Vector v) {
  Vector whole;
  if (!v.has_numbers())
    whole = v;  // as in joined(); a handle would keep numbers from being added up in place
  const std::size_t size = v.size();
  /// Of what the peer at this distance keeps, of the part that both have a half of.
  const auto size_of_other = [seat, size](std::size_t bit) {
    std::size_t part = size;
    for (std::size_t b = 1; b < bit; b *= 2) part = size_of_share(part, (seat & b) == 0 ? 0 : 1, 2);
    return size_of_share(part, (seat & bit) == 0 ? 1 : 0, 2);
  };
  for (std::size_t bit = 1; bit < seats.count; bit *= 2) {
    const NodeId peer = members[seats.member(seat ^ bit)];
    const Vector low = v.share(0, 2);
    const Vector high = v.share(1, 2);
    const bool keeps_low = (seat & bit) == 0;
    numbers.send(node, peer, tag, keeps_low ? high : low, number_of(bit));
    Message m = co_await node.receive(peer, tag);
    while (m.number != number_of(bit)) m = co_await node.receive(peer, tag);
    co_await node.sent(tag);
    Vector other = numbers.received(std::move(m), (keeps_low ? low : high).size());
    v = keeps_low ? numbers.sum(low, other) : numbers.sum(std::move(other), high);
    co_await node.reduce(numbers.bytes_of(v));
  }
  for (std::size_t bit = seats.count / 2; bit > 0; bit /= 2) {
    const NodeId peer = members[seats.member(seat ^ bit)];
    numbers.send(node, peer, tag, v, number_of(seats.count + bit));
    Message m = co_await node.receive(peer, tag);
    while (m.number != number_of(seats.count + bit)) m = co_await node.receive(peer, tag);
    co_await node.sent(tag);
    const Vector other = numbers.received(std::move(m), size_of_other(bit));
    const bool is_low = (seat & bit) == 0;
    const Vector halves[] = {is_low ? v : other, is_low ? other : v};
    v = concatenate(halves);
  }
  co_return whole ? whole : v;
}

/// Sums travel down the bits of a seat to seat 0, and the result back: one message each way between a seat and the one
/// with its lowest bit cleared.
Task<Vector> tree(Node& node, const Numbers& numbers, std::span<const NodeId> members,
                  std::size_t seat, const Seats& seats, Tag tag, Vector v) {
  const std::size_t size = v.size();
  std::size_t bit = 1;
  for (; bit < seats.count; bit *= 2) {
    const NodeId peer = members[seats.member(seat ^ bit)];
    if ((seat & bit) != 0) {
      numbers.send(node, peer, tag, std::move(v));
      Message m = co_await node.receive(peer, tag);
      v = numbers.received(std::move(m), size);
      break;
    }
    Message m = co_await node.receive(peer, tag);
    v = numbers.sum(std::move(v), numbers.received(std::move(m), size));
    co_await node.reduce(numbers.bytes_of(v));
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    numbers.send(node, members[seats.member(seat | bit)], tag, v);
    co_await node.sent(tag);
  }
  co_return v;
}

Vector combined(std::span<const Vector> values, CollectiveKind kind, const Numbers& numbers) {
  const std::size_t n = values.size();
  if (n == 1) return values[0];
  if (kind == CollectiveKind::ring) {
    std::vector<Vector> chunks;
    for (std::size_t c = 0; c < n; ++c) {
      // The chunk that starts at member c: x_c + x_{c+1} + .., as it travels around the ring.
      Vector part = values[c].share(c, n);
      for (std::size_t s = 1; s < n; ++s)
        part = numbers.sum(std::move(part), values[(c + s) % n].share(c, n));
      chunks.push_back(std::move(part));
    }
    return joined(chunks, values[0]);
  }
  const Seats seats(n);
  std::vector<Vector> sums;
  sums.reserve(seats.count);
  for (std::size_t seat = 0; seat < seats.count; ++seat) {
    const std::size_t member = seats.member(seat);
    sums.push_back(seat < seats.extra ? numbers.sum(values[member], values[member + 1])
                                      : values[member]);
  }
  for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
    for (std::size_t i = 0; 2 * i < sums.size(); ++i)
      sums[i] = numbers.sum(sums[2 * i], sums[2 * i + 1]);
  }
  return sums[0];
}

/// The sum of one piece, which is in host memory.
Task<Vector> sum_of_piece(Node& node, const Numbers& numbers, std::span<const NodeId> members,
                          Tag tag, Vector v, CollectiveKind kind) {
  const std::size_t n = members.size();
  const std::size_t size = v.size();
  const std::size_t me = place_of(node, members);
  const std::shared_ptr<Met> met = co_await numbers.meet(node, tag, members, kind, v);
  if (met) {
    if (!met->combined) {
      numbers.decode(met->values, size);
      met->combined = combined(met->values, kind, numbers);
    }
    co_return met->combined;
  }
  if (kind == CollectiveKind::ring) {
    Vector total = co_await ring(node, numbers, members, me, tag, std::move(v));
    co_return total;
  }

  const Seats seats(n);
  const bool is_folded = me < 2 * seats.extra;
  if (is_folded && me % 2 == 1) {
    numbers.send(node, members[me - 1], tag, std::move(v));
    Message m = co_await node.receive(members[me - 1], tag);
    co_return numbers.received(std::move(m), size);
  }
  if (is_folded) {
    Message m = co_await node.receive(members[me + 1], tag);
    v = numbers.sum(std::move(v), numbers.received(std::move(m), size));
    co_await node.reduce(numbers.bytes_of(v));
  }
  const std::size_t seat = is_folded ? me / 2 : me - seats.extra;
  Vector total;
  if (kind == CollectiveKind::recursive_doubling) {
    total = co_await recursive_doubling(node, numbers, members, seat, seats, tag, std::move(v));
  } else if (kind == CollectiveKind::tree) {
    total = co_await tree(node, numbers, members, seat, seats, tag, std::move(v));
  } else {
    total = co_await rabenseifner(node, numbers, members, seat, seats, tag, std::move(v));
  }
  if (is_folded) {
    numbers.send(node, members[me + 1], tag, total);
    co_await node.sent(tag);
  }
  co_return total;
}

/// The sum of one piece by hosts.
Task<Vector> sum_by_hosts(Node& node, const Numbers& numbers, const Hosts& hosts, Tag tag,
                          Vector v) {
  const std::span<const NodeId> own = hosts.own();
  const std::size_t n = own.size();
  const std::size_t me = place_of(node, own);
  Vector part = v;
  if (n > 1) {
    const std::shared_ptr<Met> met =
        co_await numbers.meet(node, tag, own, CollectiveKind::ring_scatter, v);
    if (met) {
      if (!met->combined) {
        numbers.decode(met->values, v.size());
        met->combined = combined(met->values, CollectiveKind::ring, numbers);
      }
      part = met->combined.share(chunk_of(me, n), n);
    } else {
      part = co_await ring_scatter(node, numbers, own, me, tag, v);
    }
  }
  if (hosts.across().size() > 1) {
    part = co_await sum_of_piece(node, numbers, hosts.across(), tag, std::move(part),
                                 CollectiveKind::ring);
  }
  if (n == 1) co_return part;
  const std::shared_ptr<Met> met =
      co_await numbers.meet(node, tag, own, CollectiveKind::allgather, part);
  if (met) {
    // In order of member; the last one has the first chunk.
    if (!met->combined) {
      std::ranges::rotate(met->values, met->values.end() - 1);
      for (std::size_t c = 0; c < n; ++c)
        numbers.decode({&met->values[c], 1}, size_of_share(v.size(), c, n));
      met->combined = joined(met->values, v);
    }
    co_return met->combined;
  }
  const std::vector<Vector> chunks =
      co_await ring_gather(node, numbers, own, me, tag, std::move(part), v.size());
  co_return joined(chunks, v);
}

/// What every member brought, passed on around the ring: in host memory, or from device to device, where the engine
/// copies it out and in for each hop.
Task<std::vector<Vector>> pass_around(Node& node, std::span<const NodeId> members, Tag tag,
                                      Code own, bool is_on_host) {
  const std::size_t n = members.size();
  std::size_t at = place_of(node, members);
  const NodeId right = members[(at + 1) % n];
  const NodeId left = members[(at + n - 1) % n];
  std::vector<Vector> words(n);
  words[at] = own.words;
  for (std::size_t s = 0; s + 1 < n; ++s) {
    const Tag hop = tag_of_part(tag, s);
    const auto bytes = static_cast<double>(own.bytes);
    if (is_on_host) {
      node.send_from_host(right, hop, own, bytes);
    } else {
      node.send_code(right, hop, own, bytes);
    }
    const Message m = co_await node.receive(left, hop);
    co_await node.sent(hop);
    own = {m.values, static_cast<std::int64_t>(m.number)};
    at = (at + n - 1) % n;
    words[at] = own.words;
  }
  co_return words;
}

/// What `join` makes of all that the members brought.
Task<Vector> joined_lists(Node& node, std::span<const NodeId> members, Tag tag, Code own,
                          bool is_on_host, Join join) {
  const std::shared_ptr<Met> met = co_await node.meet(tag, members, CollectiveKind::allgather, own);
  if (met) {
    if (!met->combined) met->combined = join(met->values);
    co_return met->combined;
  }
  const std::vector<Vector> lists =
      co_await pass_around(node, members, tag, std::move(own), is_on_host);
  co_return join(lists);
}

/// The sum of lists of so many bytes, which are in host memory and go to the device, all of them.
Task<Vector> sum_of_lists(Node& node, std::span<const NodeId> members, Tag tag, Vector v,
                          std::int64_t bytes) {
  Code own{.words = std::move(v), .bytes = bytes};
  Join sum = [](std::span<const Vector> lists) {
    return combine(lists, CollectiveKind::recursive_doubling);
  };
  const bool is_on_host = true;
  Vector total =
      co_await joined_lists(node, members, tag, std::move(own), is_on_host, std::move(sum));
  node.stage_in(bytes * static_cast<std::int64_t>(members.size()));
  co_return total;
}

CollectiveKind kind_for(const Node& node, std::int64_t bytes, CollectiveKind kind) {
  if (kind != CollectiveKind::by_size) return kind;
  return bytes <= node.plan().collective_switch ? CollectiveKind::recursive_doubling
                                                : CollectiveKind::rabenseifner;
}

}  // namespace

Vector combine(std::span<const Vector> values, CollectiveKind kind) {
  return combined(values, kind, Numbers(nullptr));
}

Task<Vector> allreduce(Node& node, std::span<const NodeId> members, Tag tag, Vector v,
                       CollectiveKind kind, std::int64_t gathered, const Codec* codec,
                       const Piece* piece) {
  const Numbers numbers(codec);
  if (members.size() == 1) co_return numbers.rounded(std::move(v));
  const Cut cut(node, v, piece);
  std::optional<Hosts> hosts;
  if (kind == CollectiveKind::hierarchical) hosts.emplace(node, members);
  const Time begin = node.begin_exchange();
  Parts sums(cut.count());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Tag own = tag_of_part(tag, i);
    const Vector part = numbers.rounded(cut.part(i));
    const bool is_list = gathered > 0 && i + 1 == cut.count();
    const std::int64_t bytes = numbers.bytes_of(part);
    const std::int64_t staged = is_list ? gathered : bytes;
    co_await node.stage_out(cut[i], staged, begin);
    if (codec != nullptr) co_await encoding(node, *codec, part);
    if (is_list) {
      co_await node.copy(gathered);  // to its place among all lists
      Vector total = co_await sum_of_lists(node, members, own, part, gathered);
      sums.add(std::move(total));
      continue;
    }
    const std::int64_t copied = cut[i].is_bucket ? bytes : 0;
    co_await node.copy(copied);
    Vector total;
    if (hosts) {
      total = co_await sum_by_hosts(node, numbers, *hosts, own, part);
    } else {
      total = co_await sum_of_piece(node, numbers, members, own, part, kind_for(node, bytes, kind));
    }
    co_await node.operate(total, 1);
    co_await node.copy(copied);
    if (codec != nullptr) co_await decoding(node, *codec, total);
    node.stage_in(bytes);
    sums.add(std::move(total));
  }
  co_await node.staged_in();
  co_return sums.join();
}

Task<Vector> allgather(Node& node, std::span<const NodeId> members, Tag tag, Code own, Join join) {
  if (members.size() == 1) co_return join({&own.words, 1});
  const bool is_on_host = false;
  co_return co_await joined_lists(node, members, tag, std::move(own), is_on_host, std::move(join));
}

Task<Vector> broadcast(Node& node, Tag tag, Vector x) {
  // Node i gets the model from i without its highest bit.
  NodeId bit = 1;
  if (node.id() != 0) {
    bit = static_cast<NodeId>(std::bit_floor(static_cast<std::uint32_t>(node.id())));
    const Message m = co_await node.receive(node.id() - bit, tag);
    x = m.values;
    bit *= 2;
  }
  for (; node.id() + bit < node.nodes(); bit *= 2) node.send(node.id() + bit, tag, x);
  co_return x;
}

Task<double> sum_of_numbers(Node& node, Tag tag, double number) {
  const NodeId me = node.id();
  NodeId bit = 1;
  for (; bit < node.nodes() && (me & bit) == 0; bit *= 2) {
    if ((me | bit) >= node.nodes()) continue;
    const Message m = co_await node.receive(me | bit, tag);
    number += m.number;
  }
  if (me != 0) {  // `bit` is now the lowest bit of the own number: the way to the parent
    node.send(me ^ bit, tag, {}, number);
    const Message m = co_await node.receive(me ^ bit, tag);
    number = m.number;
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if ((me | bit) < node.nodes()) node.send(me | bit, tag, {}, number);
  }
  co_return number;
}

}  // namespace starling::algorithms
