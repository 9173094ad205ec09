// What a collective costs when its members start together: the closed formulas behind `collectives = analytic`.
#pragma once

#include <cstdint>

#include "sim/base/time.hpp"
#include "sim/engine/network_model.hpp"
#include "sim/node/fibre.hpp"

namespace starling {

/// Time from the arrival of the last of `members` nodes to completion of an allreduce of `bytes` bytes, with
/// a = latency and b = seconds per byte of one message, c = `reduction`, seconds per byte of adding what was received
/// (Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005):
///   ring                 2 (n-1) a + 2 (n-1)/n m b + (n-1)/n m c
///   recursive doubling   log2(n) (a + m b + m c)
///   Rabenseifner         2 log2(n) a + 2 (n-1)/n m b + (n-1)/n m c
///   binomial tree        2 log2(n) (a + m b) + log2(n) m c, a reduction and a broadcast
/// the last three with 2 (a + m b) + m c more, and the power of two below, if n is not one; of the first half of a ring,
/// (n-1) a + (n-1)/n m (b + c); and of an allgather around one, where each brings `bytes` (the most of all members, if they
/// differ), (n-1) (a + m b). In all but the tree and the fold both sides send at once: there a message of
/// k bytes takes LinkCost::seconds_both_ways(k), not a + k b.
Duration collective_cost(CollectiveKind kind, std::int64_t members, std::int64_t bytes,
                         const LinkCost& link, double reduction);

/// What one member sends in all.
struct Traffic {
  std::int64_t messages;
  std::int64_t bytes;
};

/// Traffic of the member at `place` among `members`, if every message were sent.
Traffic collective_traffic(CollectiveKind kind, std::int64_t members, std::int64_t place,
                           std::int64_t bytes);

}  // namespace starling
