#include "algorithms/partial_allreduce.hpp"

#include <algorithm>

#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"

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

PartialAllreduce::PartialAllreduce(Node& node, Settings settings, Vector initial)
    : node_(node), settings_(std::move(settings)), changed_(node), buffer_(std::move(initial)) {}

void PartialAllreduce::begin() { node_.spawn(serve()); }

void PartialAllreduce::set_buffer(Vector v, Step t) {
  buffer_ = std::move(v);
  buffer_step_ = t;
}

Task<PartialAllreduce::Result> PartialAllreduce::enter(Step t, Vector v) {
  if (settings_.late == LatePolicy::accumulate) {
    buffer_.add(v);
  } else {
    buffer_ = std::move(v);
  }
  buffer_step_ = t;
  const auto nodes = static_cast<std::uint64_t>(node_.nodes());
  const bool may_start =
      settings_.activation != ActivationPolicy::majority ||
      node_.shared_random("initiator", t).below(nodes) == static_cast<std::uint64_t>(node_.id());
  // The communication fibre waits for messages, so the program wakes it by one to itself.
  if (done_ < t && may_start)
    node_.send(node_.id(), tag_of(Channel::entry), {}, static_cast<double>(t));
  while (done_ < t) co_await changed_.wait();
  const bool is_included = included_ == t;
  co_return Result{is_included ? included_sum_ : latest_, is_included, group_size_};
}

Task<> PartialAllreduce::finish() {
  while (!is_over_) co_await changed_.wait();
}

Task<> PartialAllreduce::serve() {
  for (Step t = 0; t < settings_.steps; ++t) {
    if (!settings_.has_operation(t)) continue;
    co_await wait_for_start(t);
    activate_others(t);

    const bool is_included = buffer_step_ == t;
    const Vector contribution = buffer_;
    node_.record("staleness", t, static_cast<double>(t - buffer_step_));
    if (settings_.late != LatePolicy::replace) buffer_ = node_.zeros(buffer_.size());

    latest_ = co_await exchange(t, contribution);
    done_ = t;
    if (is_included) {
      included_ = t;
      included_sum_ = latest_;
    }
    changed_.notify();
  }
  is_over_ = true;
  changed_.notify();
}

Task<> PartialAllreduce::wait_for_start(Step t) {
  const bool waits_for_own_entry = settings_.activation == ActivationPolicy::full;
  const Pattern patterns[] = {{node_.id(), tag_of(Channel::entry)},
                              {any_source, tag_of(Channel::activation)},
                              {any_source, tag_of(Channel::partial, t)}};
  // With `full`, activations never come, and data stay in the mailbox until the exchange asks for them.
  const std::span<const Pattern> accepted(patterns, waits_for_own_entry ? 1 : 3);
  while (activated_ < t) {
    Node::Select::Result got = co_await node_.select(accepted);
    if (got.index == 2) {
      early_.push_back(std::move(got.message));
      activated_ = t;
    } else {
      activated_ = std::max(activated_, static_cast<Step>(got.message.number));
    }
  }
}

void PartialAllreduce::activate_others(Step t) {
  if (settings_.activation == ActivationPolicy::full) return;
  const Tag tag = tag_of(Channel::activation);
  const auto number = static_cast<double>(t);
  if (node_.announce(tag, number)) return;
  for (NodeId bit = 1; bit < node_.nodes(); bit *= 2) node_.send(node_.id() ^ bit, tag, {}, number);
}

std::vector<NodeId> PartialAllreduce::group_of(const std::vector<int>& bits) const {
  std::vector<NodeId> members{node_.id()};
  for (const int bit : bits) {
    const std::size_t count = members.size();
    for (std::size_t i = 0; i < count; ++i) members.push_back(members[i] ^ (NodeId{1} << bit));
  }
  std::sort(members.begin(), members.end());
  return members;
}

Task<Vector> PartialAllreduce::exchange(Step t, Vector v) {
  const std::vector<int> bits = settings_.bits(t);
  group_size_ = 1 << bits.size();
  const Tag tag = tag_of(Channel::partial, t);

  const std::vector<NodeId> members = group_of(bits);
  const std::shared_ptr<Met> met =
      co_await node_.meet(tag, members, CollectiveKind::recursive_doubling, v);
  if (met) {
    if (!met->combined) met->combined = combine_by_bits(met->values, members, bits);
    co_return met->combined;
  }

  for (const int bit : bits) {
    const NodeId peer = node_.id() ^ (NodeId{1} << bit);
    node_.send(peer, tag, v);
    Message m;
    const auto kept = std::find_if(early_.begin(), early_.end(),
                                   [peer](const Message& e) { return e.source == peer; });
    if (kept != early_.end()) {
      m = std::move(*kept);
      early_.erase(kept);
    } else {
      m = co_await node_.receive(peer, tag);
    }
    Vector lower = node_.id() < peer ? std::move(v) : std::move(m.values);
    lower.add(node_.id() < peer ? m.values : v);
    v = std::move(lower);
  }
  co_return v;
}

}  // namespace starling::algorithms
