// Prefetching: asking for memory before it is used. With 100,000 nodes out of step nearly all that an event touches
// has left the caches, and a miss costs more than the event's instructions; misses asked for together overlap.
#pragma once

#include <cstddef>

#include "sim/base/types.hpp"

namespace starling {

inline constexpr std::size_t cache_line = 64;

/// Asks for the cache line of `place`; null and any other address are allowed.
inline void prefetch(const void* place) {
  asm volatile("");  // GCC 12 drops calls of functions that do nothing but prefetch
  __builtin_prefetch(place);
}

/// The same for a line that will be written.
inline void prefetch_to_write(const void* place) {
  asm volatile("");
  __builtin_prefetch(place, 1);
}

/// Asks for it long before it is used: into the second level of cache, to which more lines can be under way at once than
/// to the first.
inline void prefetch_early(const void* place) {
  asm volatile("");
  __builtin_prefetch(place, 0, 2);
}

/// Asks for every line of `bytes` bytes.
inline void prefetch(const void* first, std::size_t bytes) {
  const char* place = static_cast<const char*>(first);
  for (std::size_t at = 0; at < bytes; at += cache_line) prefetch(place + at);
  prefetch(place + bytes - 1);
}

/// The same of every line of `bytes` bytes.
inline void prefetch_early(const void* first, std::size_t bytes) {
  const char* place = static_cast<const char*>(first);
  for (std::size_t at = 0; at < bytes; at += cache_line) prefetch_early(place + at);
  prefetch_early(place + bytes - 1);
}

/// Records of all nodes, side by side, that are used when a node acts; no longer than a cache line.
struct NodeRecords {
  const void* first = nullptr;
  std::size_t bytes = 0;  // of one

  void prefetch_early(NodeId node) const {
    if (bytes == 0) return;
    const char* place = static_cast<const char*>(first) + static_cast<std::size_t>(node) * bytes;
    starling::prefetch_early(place);
    starling::prefetch_early(place + bytes - 1);  // one of a line's length may lie on two
  }
};

}  // namespace starling
