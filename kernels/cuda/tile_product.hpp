// A product of matrices by tiles: a block of 128 threads computes 32 rows x `width` columns, each thread 4 x (width / 16).
// Every element is one chain of fused multiply-adds over the inner index, from 0 up: no result depends on the tile.
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

inline constexpr unsigned tile_threads = 128;
inline constexpr std::uint32_t tile_rows = 32;
inline constexpr std::uint32_t tile_depth =
    32;  // inner indices fetched at a time; one panel of weights

/// Which index of a matrix runs through memory: neighboring threads fetch neighbors.
enum class Runs { along_inner, across };

template <std::uint32_t width>
struct TileMemory {
  float a[tile_depth][tile_rows + 4];
  float b[tile_depth][width + 4];
};

/// store(m, n, sum) for m < rows, n < columns, sum = fmaf(a(k, m), b(k, n), ..) from start(m, n) on, k < inner.
template <std::uint32_t width, Runs a_runs, Runs b_runs, class A, class B, class Start, class Store>
STARLING_DEVICE void tile_product(const Block& block, std::uint32_t inner, std::uint32_t rows,
                                  std::uint32_t columns, const A& a, const B& b, const Start& start,
                                  const Store& store) {
  constexpr std::uint32_t own = width / 16;  // columns of a thread
  struct Sums {
    float at[4][own];
  };
  auto& memory = *reinterpret_cast<TileMemory<width>*>(block.shared_memory);
  Local<Sums, tile_threads> sums;
  block.each([&](unsigned thread) {
    STARLING_UNROLL
    for (std::uint32_t j = 0; j < own; ++j) {
      const std::uint32_t n = thread % 16 * own + j;
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t m = thread / 16 * 4 + i;
        sums[thread].at[i][j] = m < rows && n < columns ? start(m, n) : 0.0F;
      }
    }
  });
  for (std::uint32_t begin = 0; begin < inner; begin += tile_depth) {
    const std::uint32_t depth = lesser(tile_depth, inner - begin);
    block.each([&](unsigned thread) {
      STARLING_UNROLL
      for (std::uint32_t e = thread; e < tile_depth * tile_rows; e += tile_threads) {
        const std::uint32_t k = a_runs == Runs::along_inner ? e % tile_depth : e / tile_rows;
        const std::uint32_t m = a_runs == Runs::along_inner ? e / tile_depth : e % tile_rows;
        memory.a[k][m] = k < depth && m < rows ? a(begin + k, m) : 0.0F;
      }
      STARLING_UNROLL
      for (std::uint32_t e = thread; e < tile_depth * width; e += tile_threads) {
        const std::uint32_t k = b_runs == Runs::along_inner ? e % tile_depth : e / width;
        const std::uint32_t n = b_runs == Runs::along_inner ? e / tile_depth : e % width;
        memory.b[k][n] = k < depth && n < columns ? b(begin + k, n) : 0.0F;
      }
    });
    block.each([&](unsigned thread) {
      const std::uint32_t m = thread / 16 * 4, n = thread % 16 * own;
      Sums& own_sums = sums[thread];
      const auto add = [&](std::uint32_t k) {
        const Quad left = *reinterpret_cast<const Quad*>(&memory.a[k][m]);
        const float four[4] = {left.x, left.y, left.z, left.w};
        STARLING_UNROLL
        for (std::uint32_t j = 0; j < own; ++j) {
          const float right = memory.b[k][n + j];
          STARLING_UNROLL
          for (std::uint32_t i = 0; i < 4; ++i)
            own_sums.at[i][j] = fmaf(four[i], right, own_sums.at[i][j]);
        }
      };
      if (depth == tile_depth) {
        STARLING_UNROLL
        for (std::uint32_t k = 0; k < tile_depth; ++k) add(k);
      } else {  // no term of zeros is added: it could turn -0 into 0
        for (std::uint32_t k = 0; k < depth; ++k) add(k);
      }
    });
  }
  block.each([&](unsigned thread) {
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < own; ++j) {
        const std::uint32_t m = thread / 16 * 4 + i, n = thread % 16 * own + j;
        if (m < rows && n < columns) store(m, n, sums[thread].at[i][j]);
      }
    }
  });
}

}  // namespace starling::cuda
