#include "network_models/loggp_ports.hpp"

#include <algorithm>
#include <utility>

#include "network_models/byte_cost.hpp"

namespace starling::network_models {
namespace {

constexpr Time never = Time::max();

}  // namespace

inline LogGP::EndCost LogGP::cost_at(NodeId node, std::int64_t rest) const {
  const double factor = slowdown_.empty() ? 1 : slowdown_[static_cast<std::size_t>(node)];
  if (factor == 1) [[likely]]
    return {costs_.overhead, costs_.gap,
            costs_.overhead_per_byte == 0 ? Duration{} : byte_cost(rest, costs_.overhead_per_byte),
            byte_cost(rest, costs_.gap_per_byte)};
  return {byte_cost(costs_.overhead.count(), factor), byte_cost(costs_.gap.count(), factor),
          byte_cost(rest, factor * costs_.overhead_per_byte),
          byte_cost(rest, factor * costs_.gap_per_byte)};
}

/// Whether the planned arrival has not begun: one that came at this instant lets sends go before it.
inline bool LogGP::has_plan(const Ports& ports, Time now) const {
  if (ports.planned == none || ports.planned_begin < now) return false;
  return ports.planned_begin > now || (ports.cpu > now && messages_[ports.planned].since == now);
}

void LogGP::start(const Transfer& transfer, NetworkClock& clock) {
  const Time now = clock.now();
  if (transfer.id >= messages_.size()) messages_.resize(transfer.id + std::size_t{1});
  Message& message = messages_[transfer.id];  // one by one: no record is copied
  message.rest = std::max<std::int64_t>(transfer.bytes - 1, 0);
  message.since = now;
  message.wake = Time{};
  message.destination = transfer.destination;
  Ports& ports = ports_of(transfer.source);
  const EndCost cost = cost_at(transfer.source, message.rest);
  const bool goes_now =
      ports.is_idle() &&
      (has_plan(ports, now) ? std::max(messages_[ports.planned].cpu_before, ports.tx) <= now &&
                                  fits(ports, cost, now)
                            : std::max(ports.cpu, ports.tx) <= now);
  if (goes_now) return send(transfer.source, transfer.id, cost, now, clock);
  join(ports.last_send, transfer.id);
  serve(transfer.source, clock);
}

void LogGP::on_timer(std::uint64_t cookie, NetworkClock& clock) {
  const auto event = static_cast<TimerKind>(cookie % 4);
  if (event == TimerKind::wake_up) return serve(static_cast<NodeId>(cookie / 4), clock);
  const auto id = static_cast<std::uint32_t>(cookie / 4);
  const NodeId node = messages_[id].destination;
  Ports& ports = ports_of(node);
  const Time now = clock.now();
  --ports.coming;
  if (has_plan(ports, now)) {
    const Time planned = messages_[ports.planned].since;
    // Only where nodes differ in o or G: this message has overtaken the planned one.
    const bool has_overtaken = planned > now;
    // Its own plan was taken back, so the planned one, which came at the same instant, left later.
    const bool was_first = event == TimerKind::first_byte_again && planned == now;
    if (has_overtaken || was_first) withdraw_plan(node, clock);
  }
  if (ports.is_idle() && !has_plan(ports, now)) {
    const EndCost cost = cost_at(node, messages_[id].rest);
    plan(ports, id, std::max({now, ports.cpu, ports.rx}), cost, clock);
  } else if (event == TimerKind::first_byte) {
    join(ports.last_arrival, id);
    serve(node, clock);
  } else {
    rejoin(ports, id);
    serve(node, clock);
  }
}

/// Whether a send at `begin` leaves the cpu before the planned arrival needs it.
bool LogGP::fits(const Ports& ports, const EndCost& cost, Time begin) {
  return after(after(begin, cost.overhead), cost.bytes_overhead) <= ports.planned_begin;
}

/// Sends now: the ports are free, and if an arrival is planned, the send fits in before.
void LogGP::send(NodeId node, std::uint32_t id, const EndCost& cost, Time now,
                 NetworkClock& clock) {
  Message& message = messages_[id];
  const Time sent = after(now, cost.overhead);
  Ports& source = ports_of(node);
  (has_plan(source, now) ? messages_[source.planned].cpu_before : source.cpu) =
      after(sent, cost.bytes_overhead);
  source.tx = after(after(now, cost.gap), cost.bytes_gap);

  const EndCost here = slowdown_.empty() ? cost : cost_at(message.destination, message.rest);
  const Duration trickle = std::max(Duration{}, cost.bytes_gap - here.bytes_gap);
  const Time arrival = after(after(sent, costs_.latency), trickle);
  message.since = arrival;
  Ports& ports = ports_of(message.destination);
  if (!has_plan(ports, now) && ports.coming == 0 && ports.is_idle()) {
    plan(ports, id, std::max({arrival, ports.cpu, ports.rx}), here, clock);
  } else {
    ++ports.coming;
    set_timer(arrival, id, TimerKind::first_byte, clock);
  }
}

/// Settles that an arrival begins at `begin`, now or later, unless a send comes in between.
void LogGP::plan(Ports& ports, std::uint32_t id, Time begin, const EndCost& cost,
                 NetworkClock& clock) {
  messages_[id].cpu_before = ports.cpu;
  messages_[id].rx_before = ports.rx;
  ports.planned = id;
  ports.planned_begin = begin;
  receive(ports, id, begin, cost, clock);
}

void LogGP::receive(Ports& ports, std::uint32_t id, Time begin, const EndCost& cost,
                    NetworkClock& clock) {
  ports.cpu = after(after(begin, cost.overhead), std::max(cost.bytes_overhead, cost.bytes_gap));
  ports.rx = after(after(begin, cost.gap), cost.bytes_gap);
  clock.deliver(ports.cpu, id);
}

void LogGP::withdraw_plan(NodeId node, NetworkClock& clock) {
  Ports& ports = ports_of(node);
  const std::uint32_t id = std::exchange(ports.planned, none);
  ports.cpu = messages_[id].cpu_before;
  ports.rx = messages_[id].rx_before;
  clock.put_off(id);
  if (messages_[id].since <= clock.now()) return rejoin(ports, id);
  ++ports.coming;
  set_timer(messages_[id].since, id, TimerKind::first_byte_again, clock);
}

/// Puts a message at the end of a circular queue.
void LogGP::join(std::uint32_t& last, std::uint32_t id) {
  messages_[id].next = last == none ? id : std::exchange(messages_[last].next, id);
  last = id;
}

/// Puts an arrival whose plan was withdrawn before all that came to its node since.
void LogGP::rejoin(Ports& ports, std::uint32_t id) {
  const std::uint32_t last = ports.last_arrival;
  if (last == none || messages_[last].since < messages_[id].since)
    return join(ports.last_arrival, id);
  std::uint32_t before = last;
  while (messages_[messages_[before].next].since < messages_[id].since)
    before = messages_[before].next;
  messages_[id].next = std::exchange(messages_[before].next, id);
}

std::uint32_t LogGP::take_first(std::uint32_t& last) {
  const std::uint32_t id = messages_[last].next;
  if (id == last) {
    last = none;
  } else {
    messages_[last].next = messages_[id].next;
  }
  return id;
}

/// When the first send that waits can go. A planned arrival that it would collide with is not planned any more
/// then.
Time LogGP::send_ready(NodeId node, NetworkClock& clock) {
  Ports& ports = ports_of(node);
  if (ports.last_send == none) return never;
  if (has_plan(ports, clock.now())) {
    const std::uint32_t id = messages_[ports.last_send].next;
    const Time early = std::max({clock.now(), messages_[ports.planned].cpu_before, ports.tx});
    const bool is_behind =
        early > ports.planned_begin ||
        (early == ports.planned_begin && messages_[ports.planned].since < messages_[id].since);
    if (!is_behind) {
      const EndCost cost = cost_at(node, messages_[id].rest);
      if (early < ports.planned_begin && fits(ports, cost, early)) return early;
      withdraw_plan(node, clock);
    }
  }
  return std::max(ports.cpu, ports.tx);
}

/// Does what can be done at this node now; plans or sets a wake-up for what must wait.
void LogGP::serve(NodeId node, NetworkClock& clock) {
  Ports& ports = ports_of(node);
  const Time now = clock.now();
  while (true) {
    const Time can_send = send_ready(node, clock);  // first: what it withdraws may be an arrival
    const Time can_receive = ports.last_arrival == none ? never : std::max(ports.cpu, ports.rx);
    const Time ready = std::min(can_send, can_receive);
    if (ready > now) {
      if (ready == never) return;
      if (can_send == never && !has_plan(ports, now)) {
        const std::uint32_t id = take_first(ports.last_arrival);
        plan(ports, id, ready, cost_at(node, messages_[id].rest), clock);
        continue;
      }
      Time& wake = first(can_send <= can_receive ? ports.last_send : ports.last_arrival).wake;
      if (!(now < wake && wake <= ready)) {
        wake = ready;
        clock.set_timer(ready, 4 * static_cast<std::uint64_t>(node) +
                                   static_cast<std::uint64_t>(TimerKind::wake_up));
      }
      return;
    }
    const bool sends_first =
        can_receive > now ||
        (can_send <= now && first(ports.last_send).since <= first(ports.last_arrival).since);
    const std::uint32_t id = take_first(sends_first ? ports.last_send : ports.last_arrival);
    const EndCost cost = cost_at(node, messages_[id].rest);
    if (sends_first) {
      send(node, id, cost, now, clock);
    } else {
      receive(ports, id, now, cost, clock);
    }
  }
}

void LogGP::set_timer(Time time, std::uint32_t id, TimerKind kind, NetworkClock& clock) {
  clock.set_timer(time, 4 * std::uint64_t{id} + static_cast<std::uint64_t>(kind));
}

}  // namespace starling::network_models
