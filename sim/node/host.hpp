// Host: what exchanging costs a node beside the network. Models live in device memory and are sent from, and added up
// in, host memory; both take time that no network model knows.
//
//   staging     latency + bytes / bandwidth per copy between device and host, one at a time per node and direction
//   reduction   seconds per byte of adding up what a collective, or a parameter server, has received
//   copy        seconds per byte of gathering tensors in the buffer of a bucket, and of taking them out again
//   operator    seconds per byte of each array that the program's own loops go through, see Node::operate()
//   coding      seconds per byte of each vector that is compressed, and of each that is read from its code
//   entry       time to hand an operation to the node's communication thread (partial collectives)
//
// A simulation has one Host for all nodes; over MPI there is none: real copies take their own time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/time.hpp"
#include "sim/base/types.hpp"

namespace starling {

struct HostCosts {
  Duration staging_latency{};
  double staging_seconds_per_byte = 0;
  double reduction_seconds_per_byte = 0;
  double copy_seconds_per_byte = 0;
  double operator_seconds_per_byte = 0;
  double encoding_seconds_per_byte = 0;
  double decoding_seconds_per_byte = 0;
  Duration entry{};

  bool operator==(const HostCosts&) const = default;
};

/// Which of these somebody has paid so far.
struct HostUses {
  bool staging = false;
  bool reduction = false;
  bool copying = false;
  bool operation = false;
  bool encoding = false;
  bool decoding = false;
  bool entry = false;
};

class Host {
 public:
  Host(const HostCosts& costs, NodeId nodes);

  const HostUses& uses() const { return uses_; }
  /// Whether a copy between device and host takes any time.
  bool is_staging() const;
  /// Queues a copy of `bytes` from (out) or to (in) the device of `node` behind those under way, to begin at `since` at
  /// the earliest; answers when it ends.
  Time copy_out(NodeId node, Time since, std::int64_t bytes);
  Time copy_in(NodeId node, Time since, std::int64_t bytes);
  /// When the last copy to the device ends.
  Time copied_in(NodeId node) const;
  /// Time of adding up `bytes` in host memory; of one byte.
  Duration reduction(std::int64_t bytes);
  double reduction_seconds_per_byte();
  /// Time of copying `bytes` from one place of host memory to another.
  Duration copying(std::int64_t bytes);
  /// Time of the program's own loops through so many arrays of `bytes`.
  Duration operation(std::int64_t bytes, int arrays);
  /// Time of making codes of so many vectors of `bytes`, and of reading them.
  Duration encoding(std::int64_t bytes, std::size_t count);
  Duration decoding(std::int64_t bytes, std::size_t count);
  /// Time of handing an operation to the communication thread.
  Duration entry();

 private:
  Time copy(std::vector<Time>& queue, NodeId node, Time since, std::int64_t bytes);

  HostCosts costs_;
  HostUses uses_;
  // (nodes), if copies take time: a device copies both ways at once.
  std::vector<Time> out_until_, in_until_;
};

}  // namespace starling
