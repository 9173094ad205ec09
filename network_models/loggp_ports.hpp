// LogGP: every node has one processor for messages (cpu) and one port per direction (tx, rx); the
// fabric between is ideal. For a message of k bytes, k' = max(k - 1, 0):
//
//   send at t     cpu = t + o + k' O               tx = t + g + k' G    first byte: t + o + L
//   arrival at t  cpu = t + o + max(k' O, k' G)    rx = t + g + k' G    delivered: the new cpu
//
// so an undisturbed message takes L + 2 o + k' max(O, G). A send waits until cpu and tx are
// free, an arrival until cpu and rx are; whoever waits longest goes first among those that can, a
// send before an arrival of the same instant. Both queues are first come, first served, what comes at
// one instant in the order in which its events were set; hence so is each pair of nodes. Computing gradients
// does not occupy this cpu. A node with a slowdown pays o, g, O and G times that, at its own end. Bytes come no faster than they
// leave: behind a slow sender an arrival begins by k' (G there - G here) later, so that it takes the last byte when that has come.
//
// Rules of LogGOPSim (Hoefler, Schneider, Lumsdaine, "LogGOPSim: simulating large-scale
// applications in the LogGOPS model", HPDC 2010), which extends Alexandrov et al., "LogGP", SPAA
// 1995. Its S, the size from which a message waits until its receiver is ready, is `network.eager_limit`, before this model
// sees the message (sim/node/rendezvous.hpp).
//
// Planned arrivals. When a message leaves for a node at which nothing waits and to which nothing
// else is on its way, its arrival is settled at once: only a send of that node before the arrival
// begins can still change it. So its delivery is announced when it leaves, one event instead of
// two or three (first byte, ports free, delivery). A send that would still be at the cpu when the
// planned arrival begins takes the plan back, and the message arrives event by event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "network_models/clock_range.hpp"
#include "sim/engine/network_model.hpp"

namespace starling::network_models {

struct LogGPCosts {
  Duration latency;          // L
  Duration overhead;         // o
  Duration gap;              // g
  double overhead_per_byte;  // O, ps
  double gap_per_byte;       // G, ps
};

class LogGP final : public NetworkModel {
 public:
  /// `slowdown`: by node, empty if there are none.
  LogGP(const LogGPCosts& costs, NodeId nodes, std::vector<double> slowdown)
      : costs_(costs), slowdown_(std::move(slowdown)), ports_(static_cast<std::size_t>(nodes)) {}

  void start(const Transfer& transfer, NetworkClock& clock) override;
  void on_timer(std::uint64_t cookie, NetworkClock& clock) override;
  LinkCost link_cost() const override {
    return {sum(sum(costs_.overhead, costs_.overhead), costs_.latency),
            1e-12 * std::max(costs_.overhead_per_byte, costs_.gap_per_byte),
            1e-12 * costs_.overhead_per_byte, costs_.latency};
  }

  NodeRecords node_records() const override { return {ports_.data(), sizeof(Ports)}; }
  const void* transfer_record(std::uint32_t id) const override {
    return id < messages_.size() ? &messages_[id] : nullptr;
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// A timer's cookie is 4 * what + kind: of a transfer its first byte, also where that had been planned; of a
  /// node that its ports may be free.
  enum class TimerKind : std::uint8_t { first_byte, first_byte_again, wake_up };

  struct alignas(cache_line) Message {
    std::int64_t rest;  // k'
    Time since;         // waits to be sent from then; once sent, its first byte comes then
    Time cpu_before;    // if its arrival is planned: the cpu is free from then until planned_begin
    Time rx_before;     // and this is rx without it
    Time wake;          // a wake-up of its node is set for then, if that is still to come
    NodeId destination;
    std::uint32_t next;  // behind it in its queue; the first, if it is the last
  };

  struct Ports {  // every node has them: what only a message needs is kept with the message
    Time cpu{};   // each is free from that time on, after what is planned
    Time tx{};
    Time rx{};
    Time planned_begin{};          // of the planned arrival
    std::uint32_t planned = none;  // the message whose arrival was planned last
    std::uint32_t last_send = none;
    std::uint32_t last_arrival = none;  // of a queue
    std::uint32_t coming = 0;           // messages for whose first byte an event is set

    bool is_idle() const { return last_send == none && last_arrival == none; }
  };

  /// What a message costs one of its ends.
  struct EndCost {
    Duration overhead;        // o
    Duration gap;             // g
    Duration bytes_overhead;  // k' O
    Duration bytes_gap;       // k' G
  };
  EndCost cost_at(NodeId node, std::int64_t rest) const;

  Ports& ports_of(NodeId node) { return ports_[static_cast<std::size_t>(node)]; }
  Message& first(std::uint32_t last) { return messages_[messages_[last].next]; }
  bool has_plan(const Ports& ports, Time now) const;
  static bool fits(const Ports& ports, const EndCost& cost, Time begin);

  void send(NodeId node, std::uint32_t id, const EndCost& cost, Time now, NetworkClock& clock);
  void receive(Ports& ports, std::uint32_t id, Time begin, const EndCost& cost,
               NetworkClock& clock);
  void plan(Ports& ports, std::uint32_t id, Time begin, const EndCost& cost, NetworkClock& clock);
  void withdraw_plan(NodeId node, NetworkClock& clock);
  void join(std::uint32_t& last, std::uint32_t id);
  void rejoin(Ports& ports, std::uint32_t id);
  std::uint32_t take_first(std::uint32_t& last);
  Time send_ready(NodeId node, NetworkClock& clock);
  void serve(NodeId node, NetworkClock& clock);
  static void set_timer(Time time, std::uint32_t id, TimerKind kind, NetworkClock& clock);

  LogGPCosts costs_;
  std::vector<double> slowdown_;   // (nodes), of o, g, O and G; or empty
  std::vector<Ports> ports_;       // (nodes)
  std::vector<Message> messages_;  // by id of the transfer
};

}  // namespace starling::network_models
