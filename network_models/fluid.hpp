// Fluid: messages as flows that share the links of a fabric max-min fairly. A message first pays
// the latency of its route, then joins the sharing with its bytes; it arrives when they are
// through. Messages of a pair of nodes share at once, as SimGrid's do, or follow each other, as in
// one connection; those of a collective always follow, whomever a node sends them to. `kind = fluid` shares equally, `kind = tcp` by
// the rules of SimGrid's model of TCP.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "network_models/link_schedule.hpp"
#include "network_models/links.hpp"
#include "network_models/max_min.hpp"
#include "network_models/size_factor.hpp"
#include "sim/engine/network_model.hpp"

namespace starling::network_models {

/// What a flow pays and how it shares. The defaults are plain max-min fairness.
struct FlowRules {
  Duration message_latency{};       // beside that of the route: paid before the first byte
  SizeFactor latency_factor = 1;    // times the latency of the route: paid before the first byte
  SizeFactor bandwidth_factor = 1;  // times the bandwidth of a link: what it carries of payload
  double window = 0;  // bytes in flight: rate <= bandwidth_factor window / (2 latency); 0: any rate
  bool is_weighted = false;  // share in proportion to 1 / (latency + sum over links of weight_bytes
  double weight_bytes = 0;   // / bandwidth), instead of equally
  double back_share = 0;     // of a flow's rate, that its acknowledgements take on the way back
};

/// How the sharing is worked out.
struct FluidSettings {
  double accuracy = 0;  // of capacities (max_min.hpp); 0: exact
  /// Messages of a pair share at once, each a flow of its own, instead of following each other. Those of a stream
  /// (Transfer) always follow, and pay their latency when the last one has arrived, as if their sender had waited.
  bool is_concurrent = true;
  bool collectives_block = true;  // until what a member has sent is through
  /// Verifies the invariants of the sharing at every change of it, which is slow.
  bool is_checked = false;
  LinkSchedule schedule = {};
};

class Fluid final : public NetworkModel {
 public:
  /// Joins nodes 0 .. nodes - 1 by `fabric`.
  Fluid(Fabric fabric, NodeId nodes, const FlowRules& rules, FluidSettings settings = {});

  void start(const Transfer& transfer, NetworkClock& clock) override;
  void on_timer(std::uint64_t cookie, NetworkClock& clock) override;
  /// The means over up to 16 other nodes, seen from node 0; for the largest messages, if factors differ by size.
  LinkCost link_cost() const override { return cost_; }
  void watch(NetworkLog& log) override;
  bool is_sending(NodeId source, std::uint64_t stream) const override;
  bool may_stand_still() const override { return settings_.schedule.is_there(); }
  std::string standstill() const override;

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  // Low bits of a cookie; above them, the message that joins.
  enum Kind : std::uint64_t { join_timer, settle_timer, finish_timer, schedule_timer };

  struct Message {
    std::int64_t bytes;
    std::uint64_t stream;          // see Transfer
    std::uint64_t sequence : 61;   // order of starting
    std::uint64_t is_in_turn : 1;  // see Transfer
    std::uint64_t is_ready : 1;    // has paid its latency, waits for an earlier one of its pair
    std::uint64_t is_through : 1;  // but an earlier one of its pair is not
    std::uint32_t route;
    std::uint32_t next;      // started after it by the same pair
    std::uint32_t follower;  // of its stream: sets off when this one has arrived
  };
  static_assert(sizeof(Message) == 40);
  // The messages of a pair of nodes that are not delivered yet, in order of starting.
  struct Pair {
    std::uint32_t first = none;
    std::uint32_t last = none;
  };
  // What the flows of a pair have in common beside their route.
  struct Terms {
    std::span<const LinkId> back;
    double weight = 0;  // 0: not agreed yet
    double bound = MaxMin::unbounded;
  };

  struct Stream {
    std::uint64_t name;
    std::uint32_t last;  // message
  };

  std::uint32_t find_pair(NodeId source, NodeId destination);
  void agree_terms(NodeId source, NodeId destination, std::uint32_t route);
  std::span<const LinkId> links_of(std::uint32_t route) const { return routes_.links_of(route); }
  const Terms& terms_of(std::uint32_t route) const { return terms_[has_terms_ ? route : 0]; }
  Duration latency_of(std::uint32_t route, std::int64_t bytes) const;
  double rate_alone(std::uint32_t route) const;
  void add_under_way(Time now, std::span<std::int64_t> bytes) const;
  std::uint32_t last_of(const Pair& pair, std::uint64_t stream) const;
  bool is_turn_of(std::uint32_t index);
  void pass_turn(const Message& message, NetworkClock& clock);
  void set_off(std::uint32_t index, NetworkClock& clock);
  void join(std::uint32_t index, NetworkClock& clock);
  void open_flow(std::uint32_t index, NetworkClock& clock);
  void finish(NetworkClock& clock);
  void arrive(std::uint32_t index, NetworkClock& clock);
  void settle_at_end_of_instant(NetworkClock& clock);
  void settle(NetworkClock& clock);
  void arm(NetworkClock& clock);
  void use_links(std::uint32_t route, NetworkClock& clock);
  void leave_links(std::uint32_t route);
  void apply_changes();
  void keep_schedule(NetworkClock& clock);
  bool is_stuck(std::uint32_t route) const;
  void wake_for_schedule(NetworkClock& clock);

  FlowRules rules_;
  FluidSettings settings_;
  Routes routes_;
  MaxMin sharing_;
  std::vector<Pair> pairs_;                   // by number of route
  bool has_terms_;                            // that differ from pair to pair
  std::vector<Terms> terms_;                  // by number of route; else one for all
  std::vector<Message> messages_;             // by id of the transfer
  std::vector<std::vector<Stream>> in_turn_;  // by source, streams that go in turn: few at a time
  std::uint64_t next_sequence_ = 0;
  std::vector<std::uint32_t> message_of_;  // (flows), or none
  std::size_t stuck_ = 0;  // flows over links that are away for good, if others fail at random
  std::vector<std::uint32_t> done_;  // flows, then their messages
  bool will_settle_ = false;
  Time armed_ = Time::max();        // the earliest finish timer that is still to come
  Time schedule_at_ = Time::max();  // the schedule timer that is still to come
  std::int64_t under_way_ = 0;      // messages not delivered yet
  std::vector<LinkChange> changes_;
  std::map<LinkId, Time> away_;  // links without bandwidth, since when
  NetworkLog* log_ = nullptr;
  double* deviation_ = nullptr;  // in its statistics, with an accuracy
  LinkCost cost_{};
};

/// Reads the keys that all fluid networks share, calls section.finish() and makes one that joins the
/// nodes by what `build` builds.
std::unique_ptr<NetworkModel> make_fluid(const Section& section, NodeId nodes,
                                         const std::function<Fabric()>& build,
                                         const FlowRules& rules, std::uint64_t seed);

}  // namespace starling::network_models
