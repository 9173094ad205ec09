// ExchangePlan: in which pieces a model or gradient travels. Released code often exchanges the tensors of a model one
// after the other, waiting for each; frameworks gather them in buckets; papers write as if a model were one message.
//
//   whole     one piece
//   tensors   one piece per tensor of the workload, the last tensor first, as gradients appear
//   buckets   tensors in the same order, gathered until a bucket is full (Li et al., "PyTorch Distributed: Experiences on
//             Accelerating Data Parallel Training", VLDB 2020, section 3.2.3)
//
// Values do not depend on the pieces, unless each is compressed by itself; times do: with T pieces a dependency between neighbors
// travels up to T hops within one step.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/types.hpp"
#include "sim/node/workload.hpp"

namespace starling {

enum class Granularity { whole, buckets, tensors };

/// Part of a vector of the model's size.
struct Piece {
  std::size_t offset, size;  // floats
  double ready;              // share of the backward pass after which its gradient is there
  bool is_bucket = false;    // of several tensors, in a buffer of their own
};

struct ExchangeSettings {
  Granularity granularity = Granularity::whole;
  std::int64_t bucket_bytes = 25'000'000;
  bool overlaps_backward = false;         // pieces leave as their gradients appear
  std::int64_t collective_switch = 2048;  // bytes up to which `by_size` takes recursive doubling
  NodeId collective_group = 8;            // consecutive nodes that `hierarchical` takes for a host
};

/// What was set, and the pieces that follow from it.
struct ExchangePlan : ExchangeSettings {
  std::vector<Piece> pieces;  // in the order in which they are exchanged; empty: one, of everything
};

/// Cuts models of the workload. The backward pass is taken to spend the same time on every tensor, which is nearly so for
/// residual networks: their blocks have equal costs by design (He et al., CVPR 2016).
ExchangePlan plan_exchange(const ExchangeSettings& settings, const WorkloadFacts& facts);

}  // namespace starling
