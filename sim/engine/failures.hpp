// Failures: which nodes are away from when to when, and which messages are lost or come twice. The
// [failures] section. Everything is named by the seed, so it is known in advance and repeats itself.
//
// A node that is away does nothing: none of its fibres runs.
//
//   It stops      for ever. Messages that reach it from then on are lost; those it sent before are
//                 delivered. Its last model stays in the results, evaluations go on without it.
//   It pauses     and goes on where it was, with its model, its step and its memory. Messages that
//                 reach it meanwhile wait and are delivered in their order when it is back. What was
//                 left of a gradient is computed then; a sleep that has passed ends at once, a wait
//                 whose deadline has passed before the messages that came after it. Its network card
//                 works on: what it sent before travels, transfers arrive.
//   It joins late begins its program later than time zero, with the initial model and its step 0;
//                 messages that were sent to it before wait for it.
//
// A lost message costs the network what every message costs and vanishes where it would arrive. One
// that comes twice is delivered again right behind itself, before anything else of its pair.
// Messages of a node to itself are safe.
//
//   stop, pause, join             lists: "3 @ 2 s, 5 @ 3 s"; "3 @ 2 s for 500 ms"; "4 @ 1 s"
//   outages                       CSV file: node,begin,end in seconds; end "inf": stops
//   mean_time_between_failures    from the end of an outage to the next; exponential, of each node
//   mean_time_to_repair           length of an outage; exponential; 0 s: a failed node stops
//   reliable_nodes                nodes 0 .. reliable_nodes - 1 never fail at random
//   lose, duplicate               chance of every message
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"

namespace starling {

/// A node is away for begin <= t < end.
struct Outage {
  NodeId node;
  Time begin;
  Time end;
};

/// The end of an outage without end.
inline constexpr Time never = Time::max();

struct FailureSettings {
  std::vector<Outage> outages{};
  Duration mean_time_between_failures{};  // zero: no random outages
  Duration mean_time_to_repair{};         // zero: random outages have no end
  NodeId reliable_nodes = 0;
  double lose = 0;
  double duplicate = 0;
};

/// Reads the [failures] section of a run with `nodes` nodes. Throws ScenarioError, and Error if a
/// file is wrong.
FailureSettings read_failures(const Section& section, NodeId nodes);

class Failures {
 public:
  Failures(FailureSettings settings, NodeId nodes, std::uint64_t seed);

  /// Until when `node` is away at `time`: nothing if it is up, `never` if it has stopped. Outages
  /// that touch or overlap are one.
  std::optional<Time> away_until(NodeId node, Time time);
  /// When `node` has stopped, if it has at `time`.
  std::optional<Time> stopped(NodeId node, Time time);
  /// When work of that duration, begun at `begin`, is done by a node that rests while it is away; if it
  /// stops before, when it does, and nothing more happens.
  Time finish(NodeId node, Time begin, Duration work);
  /// The first stretch of begin <= t < end in which `node` is up; an empty one at the end if there is none.
  std::pair<Time, Time> presence(NodeId node, Time begin, Time end);
  /// How long `node` is away until `end`.
  Duration absence(NodeId node, Time end);

  /// How many outages, of those that are not random, begin at `time` or later.
  std::int64_t scheduled_from(Time time) const;

  enum class Fate : std::uint8_t { delivered, lost, duplicated };
  /// Of the next message that `source` sends.
  Fate next_message(NodeId source);

 private:
  struct Agenda {
    std::vector<Outage> scheduled;  // by begin; disjoint, none touches another
    std::vector<Outage> random;     // the same, as far as anybody has asked
    std::uint64_t messages = 0;     // sent so far
  };

  /// First outage of `node` that ends after `time`, if any begins before the end of the clock.
  std::optional<Outage> next(NodeId node, Time time);
  void extend(NodeId node, Agenda& agenda, Time time);

  FailureSettings settings_;
  std::uint64_t seed_;
  std::vector<Agenda> agendas_;  // (nodes)
};

}  // namespace starling
