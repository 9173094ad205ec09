// Fibres and what they wait for. A fibre is one root coroutine of a node: its program, or one that the
// program spawned. What it waits for lives in awaiters inside coroutine frames; transports link to it and never
// copy it.
#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/task.hpp"
#include "sim/base/time.hpp"
#include "sim/node/message.hpp"

namespace starling {

struct Fibre {
  Fibre(NodeId node, std::int32_t number, Task<> task)
      : node(node), number(number), handle(task.handle()), task(std::move(task)) {}

  /// Whether it is the node's main fibre, whose time is accounted: the first.
  bool is_program() const { return number == 0; }
  /// It has waited: for somebody whom the network has held up since then, or for something else until then.
  void has_waited(Time since, Time for_network_since) {
    if (since <= for_network_since) network_since = for_network_since;
  }

  NodeId node;
  std::int32_t number;             // among the node's, in order of spawn: names it in an Act
  std::coroutine_handle<> handle;  // where it goes on
  Task<> task;
  Time network_since{};  // since when nothing but the network holds it up, or those it waited for
};
static_assert(sizeof(Fibre) == 32);

/// A wait whose time is accounted. Not copyable: transports keep its address.
struct TimedWait {
  TimedWait() = default;
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

  Fibre* fibre = nullptr;  // that waits; null if it need not
  Time since{};            // suspended at
  Time network_since{};    // when waiting for others turned into communicating
};

/// Waits for a message that matches one of `patterns`, or for `deadline`.
struct ReceiveWait : TimedWait {
  std::span<const Pattern> patterns;
  Time deadline = Time::max();      // that is: none
  ReceiveWait* previous = nullptr;  // in the mailbox's queue of the node
  ReceiveWait* next = nullptr;
  Message* message = nullptr;  // out: lies there until the fibre goes on, which first moves it out
  std::uint32_t matched = 0;   // out: index of the pattern; patterns.size() at the deadline
  std::uint32_t timer = ~0U;   // transport's name for the deadline

  bool has_deadline() const { return deadline != Time::max(); }
};

/// Waits for a gradient at the snapshot `x`.
struct GradientWait : TimedWait {
  Vector x;  // left here by a transport that passes time only: then who waited records the gradient
  NodeId owner = 0;           // of the samples; the node itself but in coded computing
  Step draw = 0;              // which mini-batch of the owner
  Step count = 0;             // gradients of the node before this one; names its duration
  bool is_in_pieces = false;  // resume when the backward pass begins
  Gradient result;            // out, unless x was left
  Time backward_begin{};      // out; both are equal where pieces cannot come early
  Time backward_end{};        // out
  Duration backward{};  // out: what of the gradient lies between, without absences of the node
};

/// The ways to run a collective; the engine knows what each costs in closed form, but of the last two, which algorithms put
/// together from the others. `ring_scatter` is the first half of `ring`: then each member has the sum of a chunk.
enum class CollectiveKind : std::uint8_t {
  ring,
  recursive_doubling,
  rabenseifner,
  tree,
  ring_scatter,
  allgather,
  by_size,
  hierarchical
};

/// What the members of a group brought to a closed-form collective.
struct Met {
  std::vector<Vector> values;  // in order of members
  Vector combined;             // empty until the first member to go on has combined them
};

/// Waits until every member of a group has come and the collective's modelled cost has passed.
struct MeetWait : TimedWait {
  Tag tag = 0;
  std::span<const NodeId> members;  // sorted; the same for every member
  CollectiveKind kind{};
  Vector value;
  std::int64_t bytes_brought = 0;  // that the network carries of `value`
  std::shared_ptr<Met> met;        // out; shared by the members, who go on one after the other
  std::int64_t messages = 0;       // out: what this member would have sent one by one
  std::int64_t bytes = 0;
};

}  // namespace starling
