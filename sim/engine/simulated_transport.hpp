// SimulatedTransport: nodes live in virtual time. One calendar of events drives everything: fibres that go on,
// messages that arrive, timers of the network model. Gradients are only recorded here; how long they take comes
// from the compute-time model. One thread.
//
// With a replay (replay.hpp) the events of a node happen in the order in which they did in a real run. With failures
// (failures.hpp) the events of a node that is away wait, in their order, until it is back; those of a
// node that has stopped are dropped.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "sim/engine/calendar.hpp"
#include "sim/engine/failures.hpp"
#include "sim/engine/network_model.hpp"
#include "sim/engine/replay.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/transport.hpp"

namespace starling {

class SimulatedTransport final : public Transport, private NetworkClock {
 public:
  struct Settings {
    NodeId nodes;
    bool closed_form_collectives = false;
    /// Bytes of the longest message that does not wait for its receiver (Rendezvous).
    std::int64_t eager_limit = Rendezvous::no_limit;
    /// Staging, sums and entries; null: they take no time. Outlives the transport.
    Host* host = nullptr;
    /// How much of a gradient's duration, at its end, is the backward pass; empty: nothing.
    GradientDuration backward = {};
    /// Added to a gradient's duration for each episode that ended in its rollout, so that virtual time waits for the
    /// numbers; empty: nothing.
    GradientDuration per_episode = {};
    /// Virtual time at which the run ends, unless is_done() says that nothing is left that counts: then it goes to its own
    /// end, up to which nodes serve others, and events that nobody waits for pass.
    Time until = Time::max();
    std::function<bool()> is_done = {};
    /// Called every few hundred events, the same ones in every run; may throw to end the run (Interrupted).
    std::function<void()> pulse;
    /// Who fails and when; null: nobody. Outlives the transport.
    Failures* failures = nullptr;
    /// Called once for every node that has stopped although its program had not ended, as soon as that matters.
    std::function<void(NodeId)> on_stop = {};
    /// The order of a real run; null: that of virtual time. Outlives the transport. What only a simulation has would
    /// be in the way: no closed forms, no rendezvous, no host, no backward pass of its own, no failures beside it.
    Replay* replay = nullptr;
  };

  struct FailureCounts {
    std::int64_t lost_messages = 0;  // by chance, or because the receiver had stopped
    std::int64_t duplicated_messages = 0;
    std::vector<NodeId> stopped_nodes;
  };

  /// `network` and `graph` outlive the transport.
  SimulatedTransport(Settings settings, NetworkModel& network, ComputeGraph& graph,
                     GradientDuration duration);

  /// Tells of what is kept of every node elsewhere and used when one acts; for prefetching.
  void add_records(const std::vector<NodeRecords>& records) {
    for (const NodeRecords& each : records) {
      if (each.bytes > 0) records_.push_back(each);
    }
  }
  /// (nodes) The same of vectors that the nodes work with.
  void add_models(std::span<const Vector> models) {
    models_ = models;
    add_records({{models.data(), sizeof(Vector)}});
  }
  /// Runs until every fibre has ended, but for those of nodes that stopped, or `until`. Throws Stalled when nothing can
  /// happen any more although others wait.
  void run();
  /// From within the run: it ends with what happens at this instant.
  void end_now() { settings_.until = now_; }
  /// Whether the run ended at `until`, or by end_now(); that is now(), then.
  bool is_cut() const { return is_cut_; }
  /// Whether nodes have met, or announced, without messages.
  bool has_used_closed_forms() const { return has_used_closed_forms_; }
  std::int64_t events() const { return events_; }
  const FailureCounts& failures() const { return failed_; }

  Time now() const override { return now_; }  // NetworkClock's
  Time read_clock(NodeId node) override {
    return settings_.replay == nullptr ? now_ : settings_.replay->read_clock(node);
  }
  void send(NodeId to, Message&& message) override;
  void receive(ReceiveWait& wait) override;
  bool is_sending(NodeId node, Tag tag) const override;
  void finish_sends(TimedWait& wait, Tag tag) override;
  void post(NodeId node, Tag tag) override;
  void ask(NodeId node, const Pattern& pattern) override;
  void compute(GradientWait& wait) override;
  void compute(GradientWait& wait, ReceiveWait& unless) override;
  void wake(Fibre& fibre, Time time) override;
  Time finish(NodeId node, Time begin, Duration work) override;
  bool meet(MeetWait& wait) override;
  bool announce(NodeId source, Tag tag, double number) override;

 private:
  /// Finds out when the gradient will be there.
  void time(GradientWait& wait);
  /// What an event's payload means; in its low bits.
  enum class Kind : std::uint64_t { resume, delivery, network_timer, deadline, back, leave };
  static constexpr int kind_bits = 3;
  /// Of a delivery the payload says, above its kind, the message's place in in_flight_ and, above that, its
  /// destination: so it is known early what to prefetch.
  static constexpr int place_bits = 32;
  static constexpr NodeId most_nodes = NodeId{1} << (64 - kind_bits - place_bits - 1);
  static Kind kind_of(std::uint64_t payload) {
    return static_cast<Kind>(payload & ((1U << kind_bits) - 1));
  }
  static std::uint64_t payload_of(Kind kind, std::uint64_t what) {
    return what << kind_bits | static_cast<std::uint64_t>(kind);
  }
  static std::uint64_t delivery_of(NodeId destination, std::uint32_t place) {
    const auto what = static_cast<std::uint64_t>(destination) << place_bits | place;
    return payload_of(Kind::delivery, what);
  }
  static std::uint32_t place_of(std::uint64_t delivery) {
    return static_cast<std::uint32_t>(delivery >> kind_bits);
  }
  static NodeId destination_of(std::uint64_t delivery) {
    return static_cast<NodeId>(delivery >> (kind_bits + place_bits));
  }
  /// Of a fibre that goes on it says, above its kind, which: the address has room for the kind.
  static std::uint64_t going_on(const Fibre& fibre) {
    static_assert(alignof(Fibre) >= (1U << kind_bits));
    return reinterpret_cast<std::uint64_t>(&fibre) | static_cast<std::uint64_t>(Kind::resume);
  }
  static Fibre& fibre_of(std::uint64_t payload) {
    return *reinterpret_cast<Fibre*>(payload >> kind_bits << kind_bits);
  }

  /// Where a message is: copied out of the sender's device, on the network, copied into the receiver's.
  enum class Leg : std::uint8_t { out, network, in };
  static constexpr std::uint32_t no_message = ~std::uint32_t{0};
  /// A negative time that stands for `time`, which may be 0; and back.
  static Time opposite(Time time) { return Time{Duration{~time.time_since_epoch().count()}}; }
  struct InFlight {
    Message message;
    // When it will be delivered; the opposite if it was to be then, but has been put off, as long as its event is to come.
    Time due{};
    NodeId destination = 0;
    std::uint32_t next = no_message;  // delivered right behind it, by the same event
    Failures::Fate fate{};
    Leg leg = Leg::network;
    bool is_in_lane = false;
  };
  /// Messages of one (source, destination, tag) under way of which some are staged. Notices have nothing to copy, but wait
  /// for what was sent before them, at either end.
  struct Lane {
    int messages = 0;
    Time out{}, in{};  // when the last one leaves the sender's host, and the receiver's
  };
  using LaneName = std::tuple<NodeId, NodeId, Tag>;
  struct Meeting {
    std::vector<MeetWait*> waits;
    std::span<const NodeId> members;  // as the first who came brought them
    std::size_t arrived = 0;
  };

  void set_timer(Time time, std::uint64_t cookie) override;
  void deliver(Time time, std::uint32_t id) override;
  void put_off(std::uint32_t id) override;
  void end_turns(NodeId source, std::uint64_t stream) override;

  void start(Fibre& fibre) override;
  void schedule(Time time, std::uint64_t payload);
  void schedule(Time time, Kind kind, std::uint64_t what);
  bool cut();
  /// Asks for the memory that the next events will use.
  void look_near() const;
  void look_far() const;
  void fetch_records(NodeId node) const;
  /// The deliveries of one event: all messages but those that were put off since.
  void dispatch_deliveries(std::uint64_t payload);
  void dispatch(std::uint64_t payload);
  void happen(std::uint64_t payload);
  /// The same in the order of the real run: what comes too early waits, and goes on behind what it waited for.
  void follow(std::uint64_t payload);
  /// What an event is to the node whose it is.
  Act act_of(std::uint64_t payload) const;
  /// The receive has been served: its deadline, if it was held, will not pass.
  void withdraw_deadline(const ReceiveWait& wait);
  std::uint32_t take_off(NodeId to, Message&& message);
  /// A message goes to the network, now or when its receiver asks for it.
  void set_off(std::uint32_t id);
  void enter_network(std::uint32_t id);
  /// The same at the end of this instant, and the end of the instant.
  void leave(std::uint32_t id, Time network_since);
  void let_leave();
  static LaneName lane_of(const InFlight& flight);
  /// Begins the leg out of a message that is staged, or has to wait for one that is; else false.
  bool enter_lane(std::uint32_t id);
  void leave_lane(const InFlight& flight);
  void pass_on(std::uint32_t id);
  void arrive(std::uint32_t id);
  void hand_over(NodeId to, Message& message);
  void lose(std::uint32_t id);
  void pass(std::uint32_t timer);
  /// All have come: what they brought is shared, and each goes on when the collective ends.
  void end_meeting(CollectiveKind kind, const Meeting& meeting, Time network_since);

  /// Whose event it is; nobody's if it is the network's or does not matter any more.
  std::optional<NodeId> node_of(std::uint64_t payload) const;
  /// Whether an event must not happen now, because its node is away: kept for later, or dropped.
  bool is_held_back(std::uint64_t payload);
  void come_back(NodeId node);
  /// Whether the node is just back, and the deadline, which has passed, takes its place among what is held back for it.
  bool has_missed(const ReceiveWait& wait);
  void drop(NodeId stopped, std::uint64_t payload);
  void note_stop(NodeId node);
  /// Notes which nodes have stopped with a program that has not ended; answers with the others that have one.
  std::vector<NodeId> note_stops();
  std::string describe_failures() const;
  std::string describe_meetings() const;
  void check_followed() const;
  void end_run();

  Settings settings_;
  NetworkModel& network_;
  ComputeGraph& graph_;
  GradientDuration duration_;
  Calendar calendar_;
  NodeRecords network_records_;
  std::vector<NodeRecords> records_;  // others
  std::span<const Vector> models_;
  bool is_running_ = false;
  bool looks_far_ = false;
  bool is_cut_ = false;
  bool has_used_closed_forms_ = false;
  std::int64_t events_ = 0;

  std::vector<InFlight> in_flight_;
  std::vector<std::uint32_t> free_in_flight_;
  std::uint32_t newest_ = no_message;  // whose delivery is the newest event, if one may join it
  std::vector<ReceiveWait*> timers_;   // null: the receive was served before its deadline
  std::vector<std::uint32_t> free_timers_;
  std::map<LaneName, Lane> lanes_;
  /// By first member and tag; walked for the report of a stall alone, which sorts.
  std::unordered_map<StreamName, std::vector<Meeting>, StreamHash> meetings_;
  std::unordered_map<StreamName, TimedWait*, StreamHash> turn_waits_;  // for end_turns()
  std::unordered_map<Tag, double> announced_;  // the newest number of each tag

  struct HeldBack {
    Time time;  // when it would have happened
    std::uint64_t payload;
  };
  // Of nodes that come back; looked up only.
  std::unordered_map<NodeId, std::vector<HeldBack>> held_back_;
  std::deque<HeldBack> catching_up_;  // what is left of it for the node that is just back
  FailureCounts failed_;
  std::string last_loss_;
};

}  // namespace starling
