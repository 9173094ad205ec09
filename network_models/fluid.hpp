// Fluid: messages as flows that share the links of a fabric max-min fairly. A message first pays
// the latency of its route, then joins the sharing with its bytes; it arrives when they are
// through. `kind = fluid` shares equally, `kind = tcp` by the rules of SimGrid's model of TCP.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "network_models/links.hpp"
#include "network_models/max_min.hpp"
#include "sim/engine/network_model.hpp"

namespace starling::network_models {

/// What a flow pays and how it shares. The defaults are plain max-min fairness.
struct FlowRules {
  double latency_factor = 1;    // times the latency of the route: paid before the first byte
  double bandwidth_factor = 1;  // times the bandwidth of a link: what it carries of payload
  double window = 0;  // bytes in flight at most: rate <= window / (2 latency); 0: no such bound
  bool is_weighted = false;  // share in proportion to 1 / (latency + sum over links of weight_bytes
  double weight_bytes = 0;   // / bandwidth), instead of equally
  double back_share = 0;     // of a flow's rate, that its acknowledgements take on the way back
};

class Fluid final : public NetworkModel {
 public:
  /// Joins nodes 0 .. nodes - 1 by `fabric`. With `is_checked` the invariants of the sharing are
  /// verified at every change of it, which is slow.
  Fluid(Fabric fabric, NodeId nodes, const FlowRules& rules, bool is_checked);

  void start(const Transfer& transfer, NetworkClock& clock) override;
  void on_timer(std::uint64_t cookie, NetworkClock& clock) override;
  /// The means over up to 16 other nodes, seen from node 0.
  LinkCost link_cost() const override { return cost_; }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  // Low bits of a cookie; above them, the number of the message that joins.
  enum Kind : std::uint64_t { join_timer, settle_timer, finish_timer };

  struct Message {
    std::uint32_t id;
    std::uint32_t route;
    std::int64_t bytes;
    std::uint64_t sequence;  // order of starting
    std::uint32_t next;      // started after it by the same pair; or next free record
    bool is_through;         // but an earlier one of its pair is not
  };
  // The messages of a pair of nodes that are not delivered yet, in order of starting; and what its
  // flows have in common.
  struct Pair {
    std::uint32_t first = none;
    std::uint32_t last = none;
    Duration latency{};
    std::span<const LinkId> forward;
    std::span<const LinkId> back;
    double weight = 1;
    double bound = MaxMin::unbounded;
  };

  std::uint32_t find_pair(NodeId source, NodeId destination);
  Pair describe(NodeId source, NodeId destination, std::uint32_t route);
  std::uint32_t allocate();
  void join(std::uint32_t index, NetworkClock& clock);
  void finish(NetworkClock& clock);
  void arrive(std::uint32_t index, NetworkClock& clock);
  void settle_at_end_of_instant(NetworkClock& clock);
  void arm(NetworkClock& clock);

  FlowRules rules_;
  bool is_checked_;
  Routes routes_;
  MaxMin sharing_;
  std::vector<Pair> pairs_;  // by number of route
  std::vector<Message> messages_;
  std::uint32_t free_ = none;
  std::uint64_t next_sequence_ = 0;
  std::vector<std::uint32_t> message_of_;  // (flows)
  std::vector<FlowId> done_;
  std::vector<std::uint32_t> through_;
  bool will_settle_ = false;
  Time armed_ = Time::max();  // the earliest finish timer that is still to come
  LinkCost cost_{};
};

}  // namespace starling::network_models
