// The product of wide_product.hpp by tensor cores, for the fast mode: factors have TF32's 10 bits of mantissa, sums are float32,
// in an order that is nobody's contract. A block of two warps computes 64 rows x 64 columns, a warp all rows of 32 columns, each
// thread 8 x 8.
//
// A warp's instruction multiplies 16 rows x 8 inner indices by 8 x 8 columns. Which rows, columns and inner indices it takes for
// these is free: chosen so that a thread loads 16 bytes at once, and that its sums are quads of neighboring columns.
#pragma once

#include "kernels/cuda/block.hpp"
#include "kernels/cuda/wide_product.hpp"

namespace starling::cuda {

/// A factor for tensor cores, which cut its mantissa off after 10 bits: made larger by what that takes away on average, so
/// that products are as often too large as too small. (To round it first takes five instructions; infinities and NaNs stay.)
STARLING_DEVICE float as_factor(float x) { return x * (1 + 0x1.7p-12F); }

#if defined(__CUDACC__)
/// d += a b, of a warp (PTX ISA, mma.m16n8k8).
STARLING_DEVICE void multiply_add(float (&d)[4], const std::uint32_t (&a)[4],
                                  const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

/// Of a warp's 32 threads, `row` of 8 and `column` of 4, as the instruction has them.
struct TensorLane {
  std::uint32_t warp, row, column;
};

template <Runs a_runs, Runs b_runs>
struct TensorProduct {
  using Tile = WideTile<2>;
  using Sums = Local<WideSums, Tile::threads>;
  static constexpr unsigned warps = 16;  // of a multiprocessor
  static constexpr bool is_any_along = a_runs == Runs::along_inner || b_runs == Runs::along_inner;
  /// What eight neighboring threads load at once, 16 bytes each, then lies in different banks, or (b across, a along) in half of them.
  template <Runs runs>
  static constexpr std::uint32_t more = runs == Runs::along_inner ? 0
                                        : is_any_along            ? 4
                                                                  : 8;
  using PieceOfA = Piece<a_runs, Tile::rows, Tile::depth, more<a_runs>>;
  using PieceOfB = Piece<b_runs, Tile::columns, Tile::depth, more<b_runs>>;
  struct Memory {
    float a[2][PieceOfA::size], b[2][PieceOfB::size];
  };

  STARLING_DEVICE static TensorLane lane_of(unsigned thread) {
    return {thread / 32, thread % 32 / 4, thread % 4};
  }
  STARLING_DEVICE static bool is_idle(unsigned thread, std::uint32_t, std::uint32_t columns) {
    return thread / 32 * 32 >= columns;
  }

  /// Row 16 m + r of the instruction's (m < 4, r < 16) is place i = 4 (r / 8) + m of lane r % 8.
  STARLING_DEVICE static std::uint32_t row_of(const TensorLane& lane, std::uint32_t i) {
    return a_runs == Runs::across ? i / 4 * 32 + 4 * lane.row + i % 4 : lane.row + 8 * i;
  }
  /// Column 8 n + c of the instruction's (n < 4, c < 8) is place j = 4 (c % 2) + n of lane c / 2.
  STARLING_DEVICE static std::uint32_t column_of(const TensorLane& lane, std::uint32_t j) {
    const std::uint32_t c = 2 * lane.column + j / 4, n = j % 4;
    return 32 * lane.warp + (b_runs == Runs::across ? 4 * c + n : c + 8 * n);
  }

  STARLING_DEVICE static void add(const TensorLane& lane, std::uint32_t count, const float* a,
                                  const float* b, WideSums& sums) {
#if defined(__CUDACC__)
    if (count == Tile::depth) {
      add_piece(lane, a, b, sums, [](std::uint32_t) { return true; });
    } else {
      add_piece(lane, a, b, sums, [&](std::uint32_t k) { return k < count; });
    }
#else
    for (std::uint32_t i = 0; i < 8; ++i) {
      for (std::uint32_t j = 0; j < 8; ++j) {
        const float* left = a + PieceOfA::at(0, row_of(lane, i));
        const float* right = b + PieceOfB::at(0, column_of(lane, j));
        for (std::uint32_t k = 0; k < count; ++k) {
          sums.at[i][j] += cut_off(left[PieceOfA::at(k, 0)]) * cut_off(right[PieceOfB::at(k, 0)]);
        }
      }
    }
#endif
  }

 private:
#if !defined(__CUDACC__)
  static float cut_off(float x) { return float_of(bits_of(as_factor(x)) & ~0x1FFFU); }
#else
  /// Inner index of step s (of 8) that a thread's first (half = 0) or second factor has.
  STARLING_DEVICE static std::uint32_t inner_of(std::uint32_t column, std::uint32_t s,
                                                std::uint32_t half) {
    return is_any_along ? 4 * column + 2 * s + half : 8 * s + 4 * half + column;
  }

  struct Factors {
    std::uint32_t at[Tile::depth / 8][2][8];  // step, half, place
  };
  /// A thread's factors of a piece: `places` of them for each inner index, the first at place_of(0), place_of(1), ..
  template <class Here, std::uint32_t places, class PlaceOf, class IsThere>
  STARLING_DEVICE static void load(const float* from, std::uint32_t column, Factors& factors,
                                   const PlaceOf& place_of, const IsThere& is_there) {
    const auto keep = [&](std::uint32_t s, std::uint32_t half, std::uint32_t place, float x) {
      factors.at[s][half][place] = is_there(inner_of(column, s, half)) ? bits_of(as_factor(x)) : 0;
    };
    if constexpr (Here::is_along) {
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < places; ++i) {
        const Quad four = *reinterpret_cast<const Quad*>(from + Here::at(4 * column, place_of(i)));
        keep(0, 0, i, four.x);
        keep(0, 1, i, four.y);
        keep(1, 0, i, four.z);
        keep(1, 1, i, four.w);
      }
    } else {
      STARLING_UNROLL
      for (std::uint32_t s = 0; s < Tile::depth / 8; ++s) {
        STARLING_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
          STARLING_UNROLL
          for (std::uint32_t i = 0; i < places; i += 4) {
            const Quad four = *reinterpret_cast<const Quad*>(
                from + Here::at(inner_of(column, s, half), place_of(i)));
            keep(s, half, i, four.x);
            keep(s, half, i + 1, four.y);
            keep(s, half, i + 2, four.z);
            keep(s, half, i + 3, four.w);
          }
        }
      }
    }
  }

  template <class IsThere>
  STARLING_DEVICE static void add_piece(const TensorLane& lane, const float* a, const float* b,
                                        WideSums& sums, const IsThere& is_there) {
    static_assert(Tile::depth == 16);
    Factors left, right;
    load<PieceOfB, 4>(
        b, lane.column, right,
        [&](std::uint32_t n) {
          return 32 * lane.warp + (b_runs == Runs::across ? 4 * lane.row + n : lane.row + 8 * n);
        },
        is_there);
    load<PieceOfA, 8>(
        a, lane.column, left, [&](std::uint32_t i) { return row_of(lane, i); }, is_there);
    STARLING_UNROLL
    for (std::uint32_t s = 0; s < Tile::depth / 8; ++s) {
      STARLING_UNROLL
      for (std::uint32_t m = 0; m < 4; ++m) {
        const std::uint32_t rows[4] = {left.at[s][0][m], left.at[s][0][4 + m], left.at[s][1][m],
                                       left.at[s][1][4 + m]};
        STARLING_UNROLL
        for (std::uint32_t n = 0; n < 4; ++n) {
          const std::uint32_t columns[2] = {right.at[s][0][n], right.at[s][1][n]};
          float d[4] = {sums.at[m][n], sums.at[m][4 + n], sums.at[4 + m][n], sums.at[4 + m][4 + n]};
          multiply_add(d, rows, columns);
          sums.at[m][n] = d[0];
          sums.at[m][4 + n] = d[1];
          sums.at[4 + m][n] = d[2];
          sums.at[4 + m][4 + n] = d[3];
        }
      }
    }
  }
#endif
};

}  // namespace starling::cuda
