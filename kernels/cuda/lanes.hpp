// Sums of many entries in double by a block: lane l of 16 adds the entries i with i mod 16 = l in order, then lanes fold
// in halves, as on the CPU (kernels/dense/dense.hpp, kernels/transforms.hpp).
#pragma once

#include "kernels/cuda/numbers.hpp"

namespace starling::cuda {

inline constexpr unsigned lane_threads = 256;
inline constexpr unsigned lane_count = 16;
/// Entries that the block fetches together, four a thread. A lane's own additions wait for each other: while lanes add one
/// tile up, all threads put down the next one, and fetch the one after it.
inline constexpr unsigned lane_tile = 4 * lane_threads;
inline constexpr std::uint32_t lane_shared_bytes =
    (2 * lane_tile + 2 * lane_count) * sizeof(double);

/// Leaves `sums` sums, add(.. add(0, entry(0), s) ..), in lanes, where lane_result() finds them. Uses the first
/// lane_shared_bytes of shared memory. A Source has entries of type Entry, and in every phase
///   fetch(i)                       begins to load what entries i .. i + 3 are made of, into a Fetched, or does nothing beyond the last
///   put(thread, tile, fetched, to) makes them: those of a thread, in a tile
///   finish(rank, tile)             looks at what the block's threads put anywhere else of the tile before; the threads of the
///                                  first ranks, up to 32, have most to do besides
template <unsigned sums, class Source, class Add>
STARLING_DEVICE void lane_sums(const Block& block, std::uint32_t count, const Source& source,
                               const Add& add) {
  using Entry = typename Source::Entry;
  double* lanes = reinterpret_cast<double*>(block.shared_memory);
  auto* entries = reinterpret_cast<Entry*>(lanes + 2 * lane_count);
  const std::uint32_t tiles = (count + lane_tile - 1) / lane_tile;
  // Another warp adds each tile up, and each block begins with another: a quarter of a multiprocessor, which shares the units for
  // doubles, would have the first warps of all its blocks otherwise.
  const std::uint32_t first_warp = (block.index * 0x9e37'79b9U) >> 29;
  Local<typename Source::Fetched, lane_threads> fetched;
  block.each([&](unsigned thread) {
    fetched[thread] = source.fetch(4 * thread);
    if (thread < sums * lane_count) lanes[thread] = 0;
  });
  for (std::uint32_t tile = 0; tile <= tiles; ++tile) {
    block.each([&](unsigned thread) {
      if (tile < tiles) {
        source.put(thread, tile, fetched[thread], entries + tile % 2 * lane_tile + 4 * thread);
        if (tile + 1 < tiles) fetched[thread] = source.fetch((tile + 1) * lane_tile + 4 * thread);
      }
      if (tile == 0) return;
      const unsigned rank = (thread - 32 * (first_warp + tile)) % lane_threads;
      source.finish(rank, tile - 1);
      if (rank >= sums * lane_count) return;
      const Entry* from = entries + (tile - 1) % 2 * lane_tile;
      const std::uint32_t here = lesser(lane_tile, count - (tile - 1) * lane_tile);
      double sum = lanes[rank];
      STARLING_UNROLL_BY(16)
      for (std::uint32_t i = rank % lane_count; i < here; i += lane_count)
        sum = add(sum, from[i], rank / lane_count);
      lanes[rank] = sum;
    });
  }
}

/// Lanes to their sum, in halves.
template <class T>
STARLING_DEVICE T fold_lanes(const T* lanes) {
  T folded[lane_count];
  STARLING_UNROLL
  for (unsigned l = 0; l < lane_count; ++l) folded[l] = lanes[l];
  STARLING_UNROLL
  for (unsigned half = lane_count / 2; half > 0; half /= 2) {
    STARLING_UNROLL
    for (unsigned l = 0; l < lane_count / 2; ++l) {
      if (l < half) folded[l] += folded[l + half];
    }
  }
  return folded[0];
}

/// Sum s that lane_sums() left; any thread may ask, none changes it.
STARLING_DEVICE double lane_result(const Block& block, unsigned s = 0) {
  return fold_lanes(reinterpret_cast<const double*>(block.shared_memory) + s * lane_count);
}

/// The numbers of a row as they are.
struct NumberSource {
  using Entry = float;
  using Fetched = Quad;
  const float* v;
  std::uint32_t count;

  STARLING_DEVICE Quad fetch(std::uint32_t i) const { return quad_at(v, i, count); }
  STARLING_DEVICE void put(unsigned, std::uint32_t, const Quad& from, float* to) const {
    *reinterpret_cast<Quad*>(to) = from;
  }
  STARLING_DEVICE void finish(unsigned, std::uint32_t) const {}
};

}  // namespace starling::cuda
