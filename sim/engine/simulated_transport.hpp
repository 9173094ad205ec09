// SimulatedTransport: nodes live in virtual time. One calendar of events drives everything: fibres that go on,
// messages that arrive, timers of the network model. Gradients are only recorded here; how long they take comes
// from the compute-time model. One thread.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "sim/engine/calendar.hpp"
#include "sim/engine/network_model.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/transport.hpp"

namespace starling {

class SimulatedTransport final : public Transport, private NetworkClock {
 public:
  struct Settings {
    NodeId nodes;
    bool closed_form_collectives = false;
    /// Staging, sums and entries; null: they take no time. Outlives the transport.
    Host* host = nullptr;
    /// How much of a gradient's duration, at its end, is the backward pass; empty: nothing.
    GradientDuration backward = {};
    /// Called every few thousand events; may throw to end the run (Interrupted).
    std::function<void()> pulse;
  };

  /// `network` and `graph` outlive the transport.
  SimulatedTransport(Settings settings, NetworkModel& network, ComputeGraph& graph,
                     GradientDuration duration);

  /// Runs until every fibre has ended. Throws Error when nothing can happen any more although fibres wait.
  void run();
  std::int64_t events() const { return events_; }

  Time now() const override { return now_; }
  void send(NodeId to, Message message) override;
  void receive(ReceiveWait& wait) override;
  void compute(GradientWait& wait) override;
  void wake(Suspension& wait, Time time) override;
  bool meet(MeetWait& wait) override;
  bool announce(NodeId source, Tag tag, double number) override;

 private:
  /// What an event's payload means; in its low bits.
  enum class Kind : std::uint64_t { resume, delivery, network_timer, deadline };
  static constexpr int kind_bits = 2;

  /// Where a message is: copied out of the sender's device, on the network, copied into the receiver's.
  enum class Leg : std::uint8_t { out, network, in };
  struct InFlight {
    Message message;
    NodeId destination = 0;
    Leg leg = Leg::network;
  };
  struct Meeting {
    std::vector<MeetWait*> waits;
    std::vector<NodeId> members;
    std::size_t arrived = 0;
  };

  void set_timer(Time time, std::uint64_t cookie) override;
  void deliver(Time time, std::uint32_t id) override;

  void schedule(Time time, Kind kind, std::uint64_t what);
  std::uint32_t take_off(NodeId to, Message&& message);
  bool is_staged(const Message& message) const;
  void pass_on(std::uint32_t id);
  void arrive(std::uint32_t id);
  void pass(std::uint32_t timer);

  Settings settings_;
  NetworkModel& network_;
  ComputeGraph& graph_;
  GradientDuration duration_;
  Calendar calendar_;
  Time now_{};
  std::int64_t events_ = 0;

  std::vector<InFlight> in_flight_;
  std::vector<std::uint32_t> free_in_flight_;
  std::vector<ReceiveWait*> timers_;  // null: the receive was served before its deadline
  std::vector<std::uint32_t> free_timers_;
  std::unordered_map<Tag, std::vector<Meeting>> meetings_;  // looked up only, never walked
  std::unordered_map<Tag, double> announced_;               // the newest number of each tag
};

}  // namespace starling
