#include "sim/node/node.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/error.hpp"

namespace starling {
namespace {

/// Until when the time of a program that waits for other fibres of the node is accounted; null if it does not.
Time* find_joining(World& world, NodeId node) {
  if (world.joining.empty()) return nullptr;
  const auto joining = world.joining.find(node);
  return joining == world.joining.end() ? nullptr : &joining->second;
}

/// A fibre has waited, and for the network from `network_since` on. Of a program the time counts: as waiting for others until then,
/// communicating from there. What passes beside a backward pass is computing; the wait in which that ends counts it.
void account(World& world, Fibre& fibre, Time suspended, Time network_since) {
  const Time now = world.transport.now();
  fibre.has_waited(suspended, std::min(network_since, now));
  if (Time* joining = find_joining(world, fibre.node)) {
    suspended = std::exchange(*joining, now);
  } else if (!fibre.is_program()) {
    return;
  }
  const BackwardPass backward = world.backward_of(fibre.node);
  if (suspended < backward.end && backward.end <= now)
    world.observer.spend(fibre.node, Activity::compute, backward.begin, backward.end);
  const Time since = std::clamp(backward.end, suspended, now);
  world.observer.spend_waiting(fibre.node, since, std::clamp(network_since, since, now), now);
}

void account(World& world, const TimedWait& wait) {
  account(world, *wait.fibre, wait.since, wait.network_since);
}

std::int64_t bytes_on_wire(const Vector& values) {
  return values ? values.wire_bytes() : control_bytes;
}

}  // namespace

void account_until(World& world, Time until) {
  for (const auto& [node, suspended] : world.transport.suspended()) {
    const BackwardPass backward = world.backward_of(node);
    const Time* joining = find_joining(world, node);
    const Time accounted = joining == nullptr ? suspended.since : *joining;
    if (accounted < backward.end)
      world.observer.spend(node, Activity::compute, backward.begin, std::min(backward.end, until));
    const Time since = std::max(accounted, backward.end);
    if (since >= until) continue;
    world.observer.spend(node, suspended.is_computing ? Activity::compute : Activity::wait, since,
                         until);
  }
}

std::int64_t bytes_on_wire(const Code& code) {
  if (code.bytes == 0) return control_bytes;
  const double bytes_per_word =
      static_cast<double>(code.words.wire_bytes()) / static_cast<double>(code.words.size());
  return static_cast<std::int64_t>(static_cast<double>(code.bytes) * bytes_per_word / 4 + 0.5);
}

std::span<const NodeId> Node::everybody() const {
  if (world_.everybody.empty()) {
    world_.everybody.resize(static_cast<std::size_t>(nodes()));
    std::iota(world_.everybody.begin(), world_.everybody.end(), 0);
  }
  return world_.everybody;
}

std::span<const NodeId> Node::of_same_place() const {
  std::vector<std::vector<NodeId>>& lists = world_.of_place;
  const NodeId group = plan().collective_group;
  if (lists.empty()) {
    lists.resize(static_cast<std::size_t>(group));
    for (NodeId node = 0; node < nodes(); ++node)
      lists[static_cast<std::size_t>(node % group)].push_back(node);
  }
  return lists[static_cast<std::size_t>(id_ % group)];
}

Node::Sleep Node::sleep(Duration duration) {
  return {world_, after(world_.transport.now(), duration)};
}

Node::ComputeGradient Node::gradient(const Vector& x) { return gradient_of(id_, draws_, x); }

Node::ComputeGradient Node::gradient_of(NodeId owner, Step draw, const Vector& x) {
  return compute(owner, draw, x, false);
}

Node::GradientUnless Node::gradient_unless(NodeId source, Tag tag, NodeId owner, Step draw,
                                           const Vector& x) {
  check_gradient(owner, draw, x);
  return {*this, {source, tag}, owner, draw, x};
}

Node::ComputeGradient Node::gradient_in_pieces(const Vector& x) {
  return compute(id_, draws_, x, world_.plan.overlaps_backward);
}

Node::ComputeGradient Node::compute(NodeId owner, Step draw, const Vector& x, bool is_in_pieces) {
  check_gradient(owner, draw, x);
  return {world_, batch(owner, draw), x, is_in_pieces};
}

void Node::check_gradient(NodeId owner, Step draw, const Vector& x) const {
  ensure(owner >= 0 && owner < nodes() && draw >= 0, "a gradient of a mini-batch that nobody has");
  ensure(x.size() == parameters(), "a gradient at a vector that has not the size of a model");
}

Time Node::time_of(const Piece& piece) const {
  if (world_.backward.empty()) return {};
  const auto [begin, end, work] = world_.backward_of(id_);
  if (piece.ready >= 1) return end;
  const auto length = static_cast<double>(work.count());
  return world_.transport.finish(id_, begin, Duration{std::llround(piece.ready * length)});
}

Node::Until Node::enter_operation() {
  return spend([](Host& host) { return host.entry(); });
}

void Node::Sleep::await_resume() {
  account(world_, *world_.transport.current(), time_, Time::max());
}

void Node::Until::await_resume() {
  if (wait_.fibre != nullptr) account(world_, wait_);
}

void Node::Sent::await_resume() {
  if (wait_.fibre != nullptr) account(world_, wait_);
}

void Node::send(NodeId to, Tag tag, Vector values, double number, Where where) {
  const std::int64_t bytes = bytes_on_wire(values);
  send(to, {.tag = tag, .values = std::move(values), .number = number, .bytes = bytes}, where);
}

void Node::send_code(NodeId to, Tag tag, const Code& code, double number, Where where) {
  send(to, {.tag = tag, .values = code.words, .number = number, .bytes = bytes_on_wire(code)},
       where);
}

void Node::send_from_host(NodeId to, Tag tag, Vector values, double number, Where where) {
  const std::int64_t bytes = bytes_on_wire(values);
  send(to,
       {.is_on_host = true,
        .tag = tag,
        .values = std::move(values),
        .number = number,
        .bytes = bytes},
       where);
}

void Node::send_in_turn(NodeId to, Tag tag, Vector values, double number, Where where) {
  const std::int64_t bytes = bytes_on_wire(values);
  send(to,
       {.is_on_host = true,
        .is_in_turn = true,
        .tag = tag,
        .values = std::move(values),
        .number = number,
        .bytes = bytes},
       where);
}

void Node::send_in_turn(NodeId to, Tag tag, const Code& code, double number, Where where) {
  send(to,
       {.is_on_host = true,
        .is_in_turn = true,
        .tag = tag,
        .values = code.words,
        .number = number,
        .bytes = bytes_on_wire(code)},
       where);
}

void Node::send_from_host(NodeId to, Tag tag, const Code& code, double number, Where where) {
  send(to,
       {.is_on_host = true,
        .tag = tag,
        .values = code.words,
        .number = number,
        .bytes = bytes_on_wire(code)},
       where);
}

void Node::send(NodeId to, Message&& message, Where where) {
  ensure(to >= 0 && to < nodes(), "a message to a node that does not exist", where);
  ensure(message.tag != any_tag, "a message with the tag that stands for all", where);
  message.source = id_;
  const Fibre& sender = *world_.transport.current();
  message.network_since =
      world_.observer.present_since(id_, sender.network_since, world_.transport.now());
  if (to != id_) world_.observer.count_messages(id_, 1, message.bytes);
  world_.transport.send(to, std::move(message));
}

Node::Select Node::select(std::span<const Pattern> patterns, std::optional<Time> deadline) {
  return {world_, id_, patterns, deadline.value_or(Time::max())};
}

std::optional<Message> Node::poll(NodeId source, Tag tag) {
  const std::array<Pattern, 1> pattern{Pattern{source, tag}};
  std::uint32_t matched = 0;
  Message* message = world_.transport.mailbox().take(id_, pattern, matched);
  if (message != nullptr) return std::move(*message);
  if (world_.transport.rendezvous() != nullptr) world_.transport.ask(id_, pattern[0]);
  return std::nullopt;
}

void Node::spawn(Task<> task) {
  world_.transport.spawn(id_, static_cast<std::int32_t>(fibres_++), std::move(task));
}

void Node::begin_joining() { world_.joining[id_] = world_.transport.now(); }

void Node::end_joining() { world_.joining.erase(id_); }

Signal::Wait Signal::wait() { return Wait(*this); }

bool Node::announce(Tag tag, double number) {
  if (!world_.transport.announce(id_, tag, number)) return false;
  const auto hops =
      static_cast<std::int64_t>(std::bit_width(static_cast<std::uint32_t>(nodes() - 1)));
  world_.observer.count_messages(id_, hops, hops * control_bytes);
  return true;
}

Node::Meet Node::meet(Tag tag, std::span<const NodeId> members, CollectiveKind kind, Vector value) {
  const std::int64_t bytes = bytes_on_wire(value);
  return {world_, tag, members, kind, std::move(value), bytes};
}

Node::Meet Node::meet(Tag tag, std::span<const NodeId> members, CollectiveKind kind,
                      const Code& code) {
  return {world_, tag, members, kind, code.words, bytes_on_wire(code)};
}

void Node::ComputeGradient::account() {
  if (!wait_.fibre->is_program()) return;
  const bool goes_on = wait_.backward_begin < wait_.backward_end;  // beside what comes next
  world_.observer.spend(wait_.fibre->node, Activity::compute, wait_.since,
                        goes_on ? wait_.backward_begin : world_.transport.now());
}

Gradient Node::ComputeGradient::await_resume() {
  const NodeId node = wait_.fibre->node;
  if (wait_.is_in_pieces) {
    world_.backward[static_cast<std::size_t>(node)] = {wait_.backward_begin, wait_.backward_end,
                                                       wait_.backward};
  }
  account();
  wait_.fibre->network_since = world_.transport.now();
  Gradient result =
      wait_.x ? world_.graph.gradient(wait_.owner, wait_.draw, wait_.x) : std::move(wait_.result);
  world_.observer.record(node, "train_loss", step_, result.loss);
  return result;
}

void Node::GradientUnless::await_suspend(std::coroutine_handle<> handle) {
  World& world = node_.world_;
  GradientWait& wait =
      gradient_.emplace(world, node_.batch(owner_, draw_), x_, /*is_in_pieces=*/false).wait_;
  world.transport.suspend(wait, handle, true);
  unless_.fibre = wait.fibre;
  unless_.since = wait.since;
  world.transport.compute(wait, unless_);
}

Node::GradientUnless::Result Node::GradientUnless::await_resume() {
  if (unless_.message == nullptr) return {gradient_->await_resume(), {}};
  if (gradient_) {
    unless_.fibre->has_waited(unless_.since, unless_.message->network_since);
    gradient_->account();
  }
  return {std::nullopt, std::move(*unless_.message)};
}

Message Node::Select::message() {
  Message* message = wait_.message;
  if (wait_.fibre != nullptr) {  // it had to wait
    if (message != nullptr) wait_.network_since = message->network_since;
    account(world_, wait_);
  }
  return message == nullptr ? Message{} : std::move(*message);
}

Node::Select::Result Node::Select::await_resume() { return {wait_.matched, message()}; }

std::shared_ptr<Met> Node::Meet::await_resume() {
  if (wait_.met) {
    account(world_, wait_);
    world_.observer.count_messages(wait_.fibre->node, wait_.messages, wait_.bytes);
  }
  return std::move(wait_.met);
}

void Signal::notify() {
  Transport& transport = node_.world_.transport;
  last_ = nullptr;
  for (Wait* each = std::exchange(first_, nullptr); each != nullptr; each = each->next_) {
    TimedWait& wait = each->wait_;
    if (transport.current() != nullptr) wait.network_since = transport.current()->network_since;
    transport.wake(*wait.fibre, transport.now());
  }
}

void Signal::Wait::await_resume() { account(signal_.node_.world_, wait_); }

}  // namespace starling
