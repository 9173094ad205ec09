// Sharding: one process's part of a shared simulation, beside its executor. Cuts every window, brings the rows that
// other processes made before the wave that reads them, sends them those they read, and ends the window together with
// them, when all numbers are everywhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <span>
#include <vector>

#include "sim/node/backend.hpp"
#include "sim/node/peers.hpp"
#include "sim/node/shard_plan.hpp"

namespace starling {

class Executor;

/// With whom a graph shares its work, and who owns which node. `peers` outlives the graph.
struct Sharing {
  Peers* peers = nullptr;
  Blocks blocks{};
};

class Sharding {
 public:
  using ValueId = ShardPlan::ValueId;
  using Window = ShardPlan::Window;

  Sharding(Sharing sharing, Backend& backend, Executor& executor);

  /// Replaces `window` by this process's part, and sends rows of earlier windows.
  void begin(Window& window);
  /// Rows of earlier windows that nobody reads any more.
  const std::vector<ValueId>& unread() const { return plan_.unread(); }
  void before(ShardPlan::Wave wave);
  void after(ShardPlan::Wave wave);
  /// This process's part failed in the wave begun last, at a gradient of `node`: a wave runs its gradients by node.
  void fail(NodeId node, std::exception_ptr failure);
  /// Meets the others. Throws what failed first, anywhere.
  void end();

  /// This process has failed outside of a window: tells the others. Throws what all agree on.
  void abandon(std::exception_ptr failure);
  /// The last meeting of a run in which nothing failed.
  void close() { peers_.end_window({}); }
  /// Numbers of a value, on process 0; empty elsewhere. All processes must ask. Valid until the next question.
  std::span<const float> fetch(ValueId value, std::size_t offset, std::size_t size);

  /// A value that every process has filled by itself.
  void make(ValueId value) { plan_.put(value, ShardPlan::everywhere); }
  /// A value of a checkpoint, which `node` recorded: whether this process takes it in.
  bool adopt(ValueId value, NodeId node);
  /// What all processes have run.
  GraphStatistics statistics() const;
  /// Counts on from `statistics`.
  void restore(const GraphStatistics& statistics) { plan_.restore(statistics); }

  /// Told to all at the end of the next windows, until another one is. From any thread.
  void wish(const Wish& wish) { wish_ = wish; }
  /// What anybody had wished at the end of the last window.
  const Wish& agreed() const { return agreed_; }

 private:
  struct Pending {
    // By a wave of this process, of this message or a later one of its sender.
    ShardPlan::Wave needed;
    std::uint32_t message;
  };

  static Place place(ShardPlan::Wave wave, NodeId node) {
    return (Place{wave} << 32) | static_cast<std::uint32_t>(node);
  }
  void unpack(const ShardPlan::Message& message);

  Peers& peers_;
  Backend& backend_;
  Executor& executor_;
  ShardPlan plan_;
  Window whole_;
  double plan_seconds_ = 0;  // processor time of cutting
  ShardPlan::Wave wave_ = 0;
  std::size_t shipped_ = 0;                   // outgoing messages
  std::size_t expected_ = 0;                  // incoming messages
  std::vector<std::deque<Pending>> pending_;  // by sender
  std::vector<double> own_numbers_;
  std::vector<float> fetched_;
  std::size_t floats_leaving_ = 0;  // of fetched values
  std::atomic<Wish> wish_{};
  Wish agreed_;
};

}  // namespace starling
