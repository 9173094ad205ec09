// Wait-avoiding partial allreduce: a sum over a group to which late members contribute what they sent last, so
// that nobody waits for a slow computation. Used by eager-SGD (gradients, all nodes) and WAGMA-SGD (models, groups).
//
// Operations are named by the step they belong to and run in that order on every node, on a communication fibre
// of their own:
//
//   enter(t, v)      put v into the send buffer; if the policy lets this node start t, start it; wait until t is done
//   start(t)         only when the one before is done here: tell the others (activation flood over node ^ 1, ^ 2, ^ 4, ..),
//                    snapshot the send buffer, exchange sums with node ^ bit for every bit of the operation
//   passive start    on an activation or on the first data of t; with policy `full` such a start waits for enter(t)
//
// With policy `chain` m nodes, drawn by all alike, must have entered: the first tells the second when it has, and so on, and
// the last one starts. One of them is eager-SGD's majority, all of them are nearly `full`.
//
// Pieces (exchange = tensors or buckets) are operations of their own, one after the other: a node may be late for the
// first tensors of a step and in time for the last. n below is the number of an operation, step * pieces + piece. A
// vector is staged to host memory before it is entered, and the sum back after; sums of passive nodes stay on the host.
//
// Only the newest result is kept for late nodes: one that is k operations behind finds the next k done and gets
// the same, latest sum each time. Sums combine lower node first, so results with everybody on time are, bit for
// bit, those of the full allreduce over the group.
//
// Li et al., "Taming Unbalanced Training Workloads in Deep Learning with Partial Collective Operations", PPoPP 2020;
// Li et al., "Breaking (Global) Barriers in Parallel Stochastic Optimization with Wait-Avoiding Group Averaging",
// IEEE TPDS 2021, Algorithm 2.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// Refuses numbers of nodes that are no power of two: rounds go by the bits of a node's number.
void expect_power_of_two(const Section& section, std::string_view kind, NodeId nodes);

/// Who may start an operation: anybody; the last of a chain of nodes drawn by all alike; or each only when it enters itself.
enum class ActivationPolicy { solo, chain, full };

/// What happens to a vector that an operation missed: the next one replaces it, or is added to it. A vector that was
/// taken stays in the buffer with `replace`, and serves again; with the others it leaves zeros.
enum class LatePolicy { replace, accumulate, drop };

class PartialAllreduce {
 public:
  struct Settings {
    ActivationPolicy activation = ActivationPolicy::solo;
    NodeId initiators = 1;  // of a chain
    LatePolicy late = LatePolicy::replace;
    Step steps = 0;  // of the run
    /// Whether step t has an operation; every node enters each once.
    std::function<bool(Step t)> has_operation;
    /// Bits of the node number over which operation t combines, in order of rounds; the node count is a power of 2.
    std::function<std::vector<int>(Step t)> bits;
    /// Whether operation t waits for everybody, whatever the policy: it bounds staleness. Empty: never.
    std::function<bool(Step t)> is_full = {};
  };

  struct Result {
    Vector sum;        // of the newest operation on the piece; of t itself if included
    bool is_included;  // the caller's vector was in time for t
    int contributors;  // size of the group
  };

  /// `initial` is what a node that was never in time contributes (zeros, unless with `replace`).
  PartialAllreduce(Node& node, Settings settings, const Vector& initial);

  /// Starts the communication fibre; once, before the first enter().
  void begin();
  /// Takes part in the operations of step t (which has one) with `v`, in order of t: the results, by piece (pieces.hpp).
  Task<std::vector<Result>> enter(Step t, Vector v);
  /// Replaces what a late node contributes by something made in step t: the model of a global synchronization.
  void set_buffer(const Vector& v, Step t);
  /// Waits until the communication fibre has run all operations; the object may go then.
  Task<> finish();

 private:
  /// What a node keeps of one piece.
  struct Slot {
    Vector buffer;     // the send buffer
    Step made = -1;    // step in which its content was made
    Vector latest;     // newest sum
    Step taken = -1;   // newest step whose operation took the buffer in time
    Vector taken_sum;  // its sum
  };

  /// What a node knows of the chain of initiators of a step.
  struct Link {
    bool is_in = false;  // whether the node is one of them
    bool is_first = false;
    NodeId next = -1;  // whom it tells; -1: it is the last
  };

  Task<Result> enter_piece(Step t, std::size_t i, Vector v);
  Task<> serve();
  Task<> run(Step t, std::size_t i);
  Task<> wait_for_start(Step t, Step n);
  Task<Vector> exchange(Step t, Step n, Vector v);
  void activate_others(Step t, Step n);
  bool waits_for_all(Step t) const;
  const Link& link(Step t);
  Step number(Step t, std::size_t i) const {
    return t * static_cast<Step>(slots_.size()) + static_cast<Step>(i);
  }
  std::span<const NodeId> group_of(std::vector<int> bits);

  Node& node_;
  Settings settings_;
  Signal changed_;

  std::vector<Slot> slots_;  // (pieces)
  Step activated_ = -1;      // newest operation known to be started somewhere
  Step done_ = -1;           // newest operation done here
  Step grouped_ = -1;        // step of these:
  std::vector<int> bits_;
  std::span<const NodeId> members_;
  std::vector<NodeId> group_;  // these, unless they are all nodes
  Step linked_ = -1;           // step of this:
  Link link_;
  int group_size_ = 1;
  bool is_over_ = false;
  std::vector<Message> early_;  // data of an operation whose start they caused
};

}  // namespace starling::algorithms
