#include "algorithms/partial_allreduce.hpp"

#include <algorithm>
#include <bit>

#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

/// The sum of a group formed as its members form it, round by round: over bits[0] first, lower node first.
Vector combine_by_bits(std::span<const Vector> values, std::span<const NodeId> members,
                       std::span<const int> bits) {
  std::vector<Vector> ordered(values.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::size_t place = 0;
    for (std::size_t r = 0; r < bits.size(); ++r) {
      place |= static_cast<std::size_t>((members[i] >> bits[r]) & 1) << r;
    }
    ordered[place] = values[i];
  }
  return combine(ordered, CollectiveKind::recursive_doubling);
}

}  // namespace

void expect_power_of_two(const Section& section, std::string_view kind, NodeId nodes) {
  section.expect(std::has_single_bit(static_cast<std::uint32_t>(nodes)), "kind",
                 "= {} needs a number of nodes that is a power of two, got {}", kind, nodes);
}

PartialAllreduce::PartialAllreduce(Node& node, Settings settings, const Vector& initial)
    : node_(node), settings_(std::move(settings)), changed_(node) {
  const Cut cut(node, initial);
  slots_.resize(cut.count());
  set_buffer(initial, -1);
}

void PartialAllreduce::begin() { node_.spawn(serve()); }

void PartialAllreduce::set_buffer(const Vector& v, Step t) {
  const Cut cut(node_, v);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].buffer = cut.part(i);
    slots_[i].made = t;
  }
}

bool PartialAllreduce::waits_for_all(Step t) const {
  return settings_.activation == ActivationPolicy::full ||
         (settings_.is_full && settings_.is_full(t));
}

/// The initiators of a step are all different: the number of nodes is a power of two, and the stride is odd.
const PartialAllreduce::Link& PartialAllreduce::link(Step t) {
  if (t == linked_) return link_;  // once per step, not per piece
  const auto nodes = static_cast<std::uint64_t>(node_.nodes());
  Random random = node_.shared_random("initiator", t);
  std::uint64_t at = random.below(nodes);
  const std::uint64_t stride = settings_.initiators == 1 ? 0 : 2 * random.below(nodes / 2) + 1;
  link_ = {};
  for (NodeId i = 0; i < settings_.initiators && !link_.is_in; ++i) {
    const std::uint64_t next = (at + stride) % nodes;
    if (static_cast<NodeId>(at) == node_.id()) {
      const bool is_last = i + 1 == settings_.initiators;
      link_ = {.is_in = true, .is_first = i == 0, .next = is_last ? -1 : static_cast<NodeId>(next)};
    }
    at = next;
  }
  linked_ = t;
  return link_;
}

Task<std::vector<PartialAllreduce::Result>> PartialAllreduce::enter(Step t, Vector v) {
  const Cut cut(node_, std::move(v));
  const Time begin = node_.begin_exchange();
  std::vector<Result> results;
  results.reserve(cut.count());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Vector part = cut.part(i);
    co_await node_.stage_out(cut[i], part, begin);
    Result result = co_await enter_piece(t, i, part);
    results.push_back(std::move(result));
  }
  co_await node_.staged_in();
  co_return results;
}

Task<PartialAllreduce::Result> PartialAllreduce::enter_piece(Step t, std::size_t i, Vector v) {
  co_await node_.enter_operation();
  Slot& slot = slots_[i];
  if (settings_.late == LatePolicy::accumulate) {
    slot.buffer.add(v);
  } else {
    slot.buffer = v;
  }
  slot.made = t;
  const Step n = number(t, i);
  // The communication fibre waits for messages, so the program wakes it by one to itself.
  if (settings_.activation == ActivationPolicy::chain && !waits_for_all(t)) {
    if (link(t).is_in) node_.send(node_.id(), tag_of(Channel::chain, n));
  } else if (done_ < n) {
    node_.send(node_.id(), tag_of(Channel::entry), {}, static_cast<double>(n));
  }
  while (done_ < n) co_await changed_.wait();
  const bool is_included = slot.taken == t;
  const Vector sum = is_included ? slot.taken_sum : slot.latest;
  co_await node_.operate(sum, 1);  // the program's result, of sums that are in the cache
  node_.stage_in(sum);
  co_return Result{sum, is_included, group_size_};
}

Task<> PartialAllreduce::finish() {
  while (!is_over_) co_await changed_.wait();
}

Task<> PartialAllreduce::serve() {
  for (Step t = 0; t < settings_.steps; ++t) {
    if (!settings_.has_operation(t)) continue;
    for (std::size_t i = 0; i < slots_.size(); ++i) co_await run(t, i);
  }
  is_over_ = true;
  changed_.notify();
}

Task<> PartialAllreduce::run(Step t, std::size_t i) {
  Slot& slot = slots_[i];
  const Step n = number(t, i);
  co_await wait_for_start(t, n);
  activate_others(t, n);

  const bool is_included = slot.made == t;
  const Vector contribution = slot.buffer;
  if (i == 0) node_.record("staleness", t, static_cast<double>(t - slot.made));
  if (settings_.late != LatePolicy::replace) slot.buffer = node_.zeros(slot.buffer.size());

  slot.latest = co_await exchange(t, n, contribution);
  done_ = n;
  if (is_included) {
    slot.taken = t;
    slot.taken_sum = slot.latest;
  }
  changed_.notify();
}

Task<> PartialAllreduce::wait_for_start(Step t, Step n) {
  const Pattern patterns[] = {{node_.id(), tag_of(Channel::entry)},
                              {any_source, tag_of(Channel::activation)},
                              {any_source, tag_of(Channel::partial, n)},
                              {any_source, tag_of(Channel::chain, n)}};
  // Where all are waited for, activations never come, and data stay in the mailbox until the exchange asks for them.
  const std::span<const Pattern> accepted(patterns, waits_for_all(t) ? 1 : 4);
  // By the own program, and by the one before in the chain, whose message may come twice.
  bool has_entered = false;
  bool is_reached = false;
  while (activated_ < n) {
    Node::Select::Result got = co_await node_.select(accepted);
    if (got.index == 2) {
      early_.push_back(std::move(got.message));
      activated_ = n;
    } else if (got.index == 3) {
      const Link& own = link(t);
      const auto is_linked = [&] { return has_entered && (is_reached || own.is_first); };
      const bool was_linked = is_linked();
      (got.message.source == node_.id() ? has_entered : is_reached) = true;
      if (was_linked || !is_linked()) continue;
      if (own.next < 0) {
        activated_ = n;
      } else {
        node_.send(own.next, tag_of(Channel::chain, n));
      }
    } else {
      activated_ = std::max(activated_, static_cast<Step>(got.message.number));
    }
  }
}

void PartialAllreduce::activate_others(Step t, Step n) {
  if (waits_for_all(t)) return;
  const Tag tag = tag_of(Channel::activation);
  const auto number = static_cast<double>(n);
  if (node_.announce(tag, number)) return;
  for (NodeId bit = 1; bit < node_.nodes(); bit *= 2) node_.send(node_.id() ^ bit, tag, {}, number);
}

/// The nodes whose numbers differ from this one's in `bits` alone, in order.
std::span<const NodeId> PartialAllreduce::group_of(std::vector<int> bits) {
  if (NodeId{1} << bits.size() == node_.nodes()) return node_.everybody();
  std::ranges::sort(bits);
  NodeId first = node_.id();
  for (const int bit : bits) first &= ~(NodeId{1} << bit);
  group_.assign(1, first);
  for (const int bit : bits) {
    const std::size_t count = group_.size();
    for (std::size_t i = 0; i < count; ++i) group_.push_back(group_[i] + (NodeId{1} << bit));
  }
  return group_;
}

Task<Vector> PartialAllreduce::exchange(Step t, Step n, Vector v) {
  if (t != grouped_) {  // once per step, not per piece
    bits_ = settings_.bits(t);
    members_ = group_of(bits_);
    grouped_ = t;
  }
  group_size_ = 1 << bits_.size();
  const Tag tag = tag_of(Channel::partial, n);
  const std::shared_ptr<Met> met =
      co_await node_.meet(tag, members_, CollectiveKind::recursive_doubling, v);
  if (met) {
    if (!met->combined) met->combined = combine_by_bits(met->values, members_, bits_);
    co_return met->combined;
  }

  for (const int bit : bits_) {
    const NodeId peer = node_.id() ^ (NodeId{1} << bit);
    node_.send_from_host(peer, tag, v);
    Message m;
    const auto kept = std::find_if(early_.begin(), early_.end(),
                                   [peer](const Message& e) { return e.source == peer; });
    if (kept != early_.end()) {
      m = std::move(*kept);
      early_.erase(kept);
    } else {
      m = co_await node_.receive(peer, tag);
    }
    co_await node_.sent(tag);
    if (node_.id() > peer) std::swap(v, m.values);  // the lower node's comes first
    v.add(m.values);
    co_await node_.reduce(v.wire_bytes());
  }
  co_return v;
}

}  // namespace starling::algorithms
