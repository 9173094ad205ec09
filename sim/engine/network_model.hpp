// NetworkModel: when does a message arrive? An instance decides that for every transfer, with whatever state of
// ports and links it keeps, and tells the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "sim/base/prefetch.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/engine/network_log.hpp"

namespace starling {

/// The bytes of one message on their way. `id` is the engine's name for it until it is delivered: a small number,
/// used again for others afterwards, so models may keep arrays by it.
struct Transfer {
  std::uint32_t id;
  NodeId source;
  NodeId destination;
  std::int64_t bytes;
  /// Not 0: of a stream, whose messages between two nodes set off when the one before has arrived, even if the network could
  /// carry them side by side.
  std::uint64_t stream = 0;
  /// So do all messages of the stream that its source sends, to whomever.
  bool is_in_turn = false;
};

/// What a network model may ask of the engine. The engine implements it; it is not an extension point.
class NetworkClock {
 public:
  virtual ~NetworkClock() = default;
  virtual Time now() const = 0;
  /// Calls NetworkModel::on_timer(cookie), cookie < 2^61, at `time` >= now. A timer cannot be cancelled: a model that
  /// changes its mind ignores the stale cookie. Timers of one instant fire in the order they were set.
  virtual void set_timer(Time time, std::uint64_t cookie) = 0;
  /// Hands transfer `id` to its destination at `time` >= now. Deliveries of one instant happen in call order.
  virtual void deliver(Time time, std::uint32_t id) = 0;
  /// Takes back the delivery announced for `id`, whose time has not come. Another call of deliver() follows, for
  /// that time or a later one.
  virtual void put_off(std::uint32_t id) = 0;
  /// Nothing that `source` has sent in turn by `stream` is under way any more; only of models whose senders wait for that.
  virtual void end_turns(NodeId /*source*/, std::uint64_t /*stream*/) {}
};

/// Latency and cost per byte of one undisturbed message: what the closed formulas of collectives need. A node that begins to
/// send and is then sent as much may be busy for longer than the first byte takes to come (LogGP: its processor, for k O).
struct LinkCost {
  Duration latency;                  // first byte, all overheads included (LogGP: 2 o + L)
  double seconds_per_byte;           // G, or 1 / bandwidth
  double busy_seconds_per_byte = 0;  // sending (LogGP: O)
  Duration way{};                    // of the first byte from one to the other (LogGP: L)

  /// One message; one of each of two nodes, or of all around a ring, at the same time.
  double seconds(double bytes) const { return to_seconds(latency) + bytes * seconds_per_byte; }
  double seconds_both_ways(double bytes) const {
    return seconds(bytes) + std::max(0.0, bytes * busy_seconds_per_byte - to_seconds(way));
  }
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  /// Takes over a transfer sent at clock.now(); source != destination. Must deliver it exactly once, and
  /// transfers of one (source, destination) pair in the order they were started.
  virtual void start(const Transfer& transfer, NetworkClock& clock) = 0;
  /// A timer set by this model has come.
  virtual void on_timer(std::uint64_t cookie, NetworkClock& clock) = 0;
  /// Cost of one undisturbed message between a typical pair of nodes; bytes at the slowest of such rates.
  virtual LinkCost link_cost() const = 0;
  /// What the model keeps of every node and uses when one sends, if so; for prefetching.
  virtual NodeRecords node_records() const { return {}; }
  /// What the model keeps of a transfer and uses when it starts or its timer comes, if so; for prefetching. `id` need not
  /// have been started; null if there is none.
  virtual const void* transfer_record(std::uint32_t /*id*/) const { return nullptr; }
  /// Asks a model that knows links to note in `log`, which outlives it, what they carry. Called before the first
  /// transfer or never.
  virtual void watch(NetworkLog& /*log*/) {}
  /// Whether a sender has to wait: for what it has sent in turn by `stream`. Then the model calls end_turns() later.
  virtual bool is_sending(NodeId /*source*/, std::uint64_t /*stream*/) const { return false; }
  /// Whether transfers that were started may never arrive.
  virtual bool may_stand_still() const { return false; }
  /// Why transfers that were started may never arrive, for the report of a standstill; empty if nothing holds them.
  virtual std::string standstill() const { return {}; }
};

}  // namespace starling
