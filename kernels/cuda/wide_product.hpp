// A product of matrices of more than 16 columns whose numbers lie in device memory as they are: a
// warp computes 32 rows x 64 columns, each thread 8 x 8, from shared memory into which the next piece comes while this
// one is multiplied. Every element is one chain of fused multiply-adds over the inner index, from 0 up.
//
// A thread of 4 x 4 asks shared memory for more than it delivers: 128 bytes in a cycle, in which a multiprocessor does 128
// fused multiply-adds. Of 8 x 8, each number that it loads serves 8. A warp's threads lie so that in each half of it
// neighbors, or every other one, load the same 16 bytes, which then count once.
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

/// Which index of a matrix runs through memory: neighboring threads fetch neighbors.
enum class Runs { along_inner, across };

/// warps_down x 1 warps.
template <std::uint32_t warps_down>
struct WideTile {
  static constexpr std::uint32_t rows = 32 * warps_down, columns = 64;
  static constexpr unsigned threads = 32 * warps_down;
  static constexpr std::uint32_t depth = 16;  // inner indices of a piece; divides a panel
};

/// How a piece of a matrix lies in shared memory: lines of the direction in which it runs, `more` floats longer so that what a
/// warp reads at once lies in different banks. If they run along the inner index, its threads read as many neighboring lines.
template <Runs runs, std::uint32_t across_, std::uint32_t depth_,
          std::uint32_t more = runs == Runs::along_inner ? 4 : 0>
struct Piece {
  static constexpr bool is_along = runs == Runs::along_inner;
  static constexpr std::uint32_t lines = is_along ? across_ : depth_,
                                 length = is_along ? depth_ : across_;
  static constexpr std::uint32_t apart = length + more;
  static constexpr std::uint32_t size = lines * apart;
  static constexpr std::uint32_t across = across_, depth = depth_;
  STARLING_DEVICE static std::uint32_t at(std::uint32_t k, std::uint32_t i) {
    return is_along ? i * apart + k : k * apart + i;
  }
};

/// Where a thread's 8 rows (or columns) are, of 32 (or 64): in two groups of 4 neighbors if neighbors lie side by side,
/// else as many apart as there are threads.
template <Runs runs, std::uint32_t threads_across>
STARLING_DEVICE std::uint32_t own_place(std::uint32_t lane, std::uint32_t i) {
  if (runs == Runs::across) return i / 4 * 4 * threads_across + 4 * lane + i % 4;
  return lane + threads_across * i;
}

struct WarpLane {
  std::uint32_t warp, row, column;  // of 4 and 8

  STARLING_DEVICE static WarpLane of(unsigned thread) {
    const unsigned lane = thread % 32;
    return {thread / 32, (lane & 1) | (lane >> 4 << 1), lane >> 1 & 7};
  }
};

/// Queues copies of a piece: from(k, i) is where element (k, i) lies, k < inner, i < size, neighbors in the direction in
/// which it runs side by side; is_even says that groups of 4 of them begin at multiples of 16 bytes. A thread copies the same
/// quad of some lines: what of from() does not depend on the line is worked out once.
template <class Here, unsigned threads, class From>
STARLING_DEVICE void fetch_piece(unsigned thread, float* to, std::uint32_t begin,
                                 std::uint32_t inner, std::uint32_t size, bool is_even,
                                 const From& from) {
  constexpr unsigned quads = Here::length / 4, step = threads / quads;
  static_assert(threads % quads == 0 && Here::lines % step == 0);
  const std::uint32_t first = thread / quads, place = thread % quads * 4;
  float* own = to + first * Here::apart + place;
  const auto source = [&](std::uint32_t line) {
    return Here::is_along ? from(begin + place, line) : from(begin + line, place);
  };
  if (is_even && begin + Here::depth <= inner && Here::across <= size) {
    const float*
        sources[Here::lines / step];  // all of them first, as what they look up takes its time
    STARLING_UNROLL
    for (std::uint32_t n = 0; n < Here::lines / step; ++n) sources[n] = source(first + n * step);
    STARLING_UNROLL
    for (std::uint32_t n = 0; n < Here::lines / step; ++n)
      copy_quad_ahead(own + n * step * Here::apart, sources[n]);
    return;
  }
  const std::uint32_t lines = Here::is_along ? size : inner - begin;
  const std::uint32_t there = Here::is_along ? inner - begin : size;
  if (place >= there) return;
  STARLING_UNROLL_BY(1)
  for (std::uint32_t line = first; line < lesser(lines, Here::lines); line += step) {
    float* here = own + (line - first) * Here::apart;
    if (is_even && place + 4 <= there) {
      copy_quad_ahead(here, source(line));
    } else {
      for (std::uint32_t n = 0; n < lesser(4, there - place); ++n)
        copy_float_ahead(here + n, source(line) + n);
    }
  }
}

/// The sums of all threads after a product, or before it, where they begin.
struct WideSums {
  float at[8][8];
};
struct Eight {
  float at[8];
};
/// 8 numbers that lie in two groups of 4.
STARLING_DEVICE Eight two_quads(const float* first, std::uint32_t apart) {
  const Quad low = *reinterpret_cast<const Quad*>(first);
  const Quad high = *reinterpret_cast<const Quad*>(first + apart);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
STARLING_DEVICE void add_outer(const Eight& a, const Eight& b, WideSums& sums) {
  STARLING_UNROLL
  for (std::uint32_t i = 0; i < 8; ++i) {
    STARLING_UNROLL
    for (std::uint32_t j = 0; j < 8; ++j) sums.at[i][j] = fmaf(a.at[i], b.at[j], sums.at[i][j]);
  }
}

/// A sum of `inner` terms in pieces of `depth`, of which the next one comes while a piece is added: fetch(thread, begin) queues
/// the copies of the piece that begins there, if there is one, to that half of shared memory (0 or 1, in turn); add(thread, begin,
/// half) has it. start(thread) may do what else there is while the first piece is on its way. Unless it keeps addresses, they take
/// no registers while sums need them.
template <std::uint32_t depth, bool keeps_addresses = false, class Start, class Fetch, class Add>
STARLING_DEVICE void piece_by_piece(const Block& block, std::uint32_t inner, const Start& start,
                                    const Fetch& fetch, const Add& add) {
  const auto queue = [&](unsigned anybody, std::uint32_t begin) {
    const unsigned thread = keeps_addresses ? anybody : anew(anybody);
    if (begin < inner) fetch(thread, begin, begin / depth % 2);
    end_copies_ahead();  // an empty group, at the end
  };
  for (std::uint32_t begin = 0; begin < inner; begin += depth) {
    block.each([&](unsigned thread) {
      if (begin == 0) {
        queue(thread, 0);
        start(thread);
      }
      queue(thread, begin + depth);
      await_copies_but_last();
    });
    block.each([&](unsigned thread) { add(thread, begin, begin / depth % 2); });
  }
}

/// A product piece by piece. Product has the Tile of a block, PieceOfA and PieceOfB, of which Memory has two each (one is on
/// its way), and add(), which a thread adds a piece's terms to its sums with. start(thread) sets the sums, and may do what
/// else there is while the first piece is on its way.
template <class Product, class A, class B, class Start>
STARLING_DEVICE void run_product(const Block& block, std::uint32_t inner, std::uint32_t rows,
                                 std::uint32_t columns, bool is_a_even, const A& a, bool is_b_even,
                                 const B& b, typename Product::Sums& sums, const Start& start) {
  using Tile = typename Product::Tile;
  auto& memory = *reinterpret_cast<typename Product::Memory*>(block.shared_memory);
  piece_by_piece<Tile::depth>(
      block, inner, start,
      [&](unsigned thread, std::uint32_t begin, std::uint32_t half) {
        fetch_piece<typename Product::PieceOfA, Tile::threads>(thread, memory.a[half], begin, inner,
                                                               rows, is_a_even, a);
        fetch_piece<typename Product::PieceOfB, Tile::threads>(thread, memory.b[half], begin, inner,
                                                               columns, is_b_even, b);
      },
      [&](unsigned thread, std::uint32_t begin, std::uint32_t half) {
        if (Product::is_idle(thread, rows, columns)) return;
        Product::add(Product::lane_of(anew(thread)), lesser(Tile::depth, inner - begin),
                     memory.a[half], memory.b[half], sums[thread]);
      });
}

/// A product as a block sees it: sums <- fmaf(a(k, m), b(k, n), sums) for k = 0, 1, .. of m < rows, n < columns.
template <std::uint32_t warps_down, Runs a_runs, Runs b_runs>
struct WideProduct {
  using Tile = WideTile<warps_down>;
  static constexpr unsigned warps = 12;  // of a multiprocessor
  using Sums = Local<WideSums, Tile::threads>;
  using PieceOfA = Piece<a_runs, Tile::rows, Tile::depth>;
  using PieceOfB = Piece<b_runs, Tile::columns, Tile::depth>;
  /// Two pieces of either matrix, of which one is on its way.
  struct Memory {
    float a[2][PieceOfA::size], b[2][PieceOfB::size];
  };

  STARLING_DEVICE static std::uint32_t row_of(const WarpLane& lane, std::uint32_t i) {
    return 32 * lane.warp + own_place<a_runs, 4>(lane.row, i);
  }
  STARLING_DEVICE static std::uint32_t column_of(const WarpLane& lane, std::uint32_t j) {
    return own_place<b_runs, 8>(lane.column, j);
  }

  STARLING_DEVICE static WarpLane lane_of(unsigned thread) { return WarpLane::of(thread); }
  /// At the matrix's end a warp may have no rows.
  STARLING_DEVICE static bool is_idle(unsigned thread, std::uint32_t rows, std::uint32_t) {
    return thread / 32 * 32 >= rows;
  }

  STARLING_DEVICE static void add(const WarpLane& lane, std::uint32_t count, const float* a,
                                  const float* b, WideSums& sums) {
    if constexpr (a_runs == Runs::across) {
      static_assert(b_runs == Runs::across, "nobody needs the other");
      STARLING_UNROLL_BY(8)
      for (std::uint32_t k = 0; k < count; ++k) {
        add_outer(two_quads(a_at(a, k, row_of(lane, 0)), 16),
                  two_quads(b_at(b, k, column_of(lane, 0)), 32), sums);
      }
    } else {  // no term of zeros is added: it could turn -0 into 0
      STARLING_UNROLL_BY(2)
      for (std::uint32_t k = 0; k < count / 2 * 2; k += 2) add_two(lane, k, a, b, sums);
      if (count % 2 != 0) add_last(lane, count - 1, a, b, sums);
    }
  }

 private:
  STARLING_DEVICE static const float* a_at(const float* a, std::uint32_t k, std::uint32_t m) {
    return a + PieceOfA::at(k, m);
  }
  STARLING_DEVICE static const float* b_at(const float* b, std::uint32_t k, std::uint32_t n) {
    return b + PieceOfB::at(k, n);
  }

  STARLING_DEVICE static void add_two(const WarpLane& lane, std::uint32_t k, const float* a,
                                      const float* b, WideSums& sums) {
    Eight left[2];
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      const Pair two = *reinterpret_cast<const Pair*>(a_at(a, k, row_of(lane, i)));
      left[0].at[i] = two.x;
      left[1].at[i] = two.y;
    }
    if constexpr (b_runs == Runs::across) {
      STARLING_UNROLL
      for (std::uint32_t l = 0; l < 2; ++l)
        add_outer(left[l], two_quads(b_at(b, k + l, column_of(lane, 0)), 32), sums);
    } else {
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < 8; ++j) {
        const Pair right = *reinterpret_cast<const Pair*>(b_at(b, k, column_of(lane, j)));
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < 8; ++i)
          sums.at[i][j] = fmaf(left[0].at[i], right.x, sums.at[i][j]);
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < 8; ++i)
          sums.at[i][j] = fmaf(left[1].at[i], right.y, sums.at[i][j]);
      }
    }
  }

  STARLING_DEVICE static void add_last(const WarpLane& lane, std::uint32_t k, const float* a,
                                       const float* b, WideSums& sums) {
    Eight left, right;
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      left.at[i] = *a_at(a, k, row_of(lane, i));
      right.at[i] = *b_at(b, k, column_of(lane, i));
    }
    add_outer(left, right, sums);
  }
};

}  // namespace starling::cuda
