// MpiChannel: messages between ranks. Nothing in here waits; progress() is called again and again.
//
// On the wire a message is a header (one MPI message) and, if it has a vector, its numbers (further
// ones, straight from and into the rows of the compute graph: no copy). Header and numbers travel
// under two MPI tags. MPI keeps order per pair of ranks and tag, and the receiver asks for the
// numbers in order of headers, so they belong together. Messages of one rank are handed out in the
// order they were sent.
//
// What the network shall see beyond the numbers (a workload without numbers, or one that stands in
// for a bigger one) really crosses it: zeros up to the vector's wire_bytes().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "sim/mpi/mpi_session.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/message.hpp"

namespace starling {

/// A message that has arrived.
struct Arrival {
  NodeId to;
  Message message;
};

class MpiChannel {
 public:
  /// Of a run with `nodes` nodes. Both outlive the channel. The graph's backend must keep its rows in host memory.
  MpiChannel(MpiSession& session, ComputeGraph& graph, NodeId nodes);
  ~MpiChannel();

  /// Sends `message` to node `to`, which lives on `rank`. Computes its vector now if need be.
  void send(int rank, NodeId to, const Message& message);
  /// Moves all transfers on and appends what has arrived. True if anything happened.
  bool progress(std::deque<Arrival>& arrived);
  /// Why there was no room for a message, or empty. From then on messages are received and dropped, so that their senders
  /// come to an end.
  const std::string& failure() const;

  std::int64_t sent() const;
  /// Messages handed out by progress().
  std::int64_t received() const;
  /// MPI sends that are not complete.
  std::size_t outstanding() const;
  /// Whether bytes of messages are on their way from or to this rank, as far as it knows.
  bool is_moving() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling
