// Top-k of rows by many blocks a row. Non-negative floats compare like their bits, so three histograms, over 11, 10 and 10
// bits of the magnitudes, find the smallest one that stays. A row is cut into pieces; it is read twice: for the first
// histogram, and to list what of each piece has the leading bits of that magnitude or more, in order. All else looks at these
// lists; a piece of which more would have to be listed than there is room for is its own list. No sort.
#pragma once

#include "kernels/cuda/numbers.hpp"
#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

/// What a row has in scratch memory, before its pieces and their lists.
struct LargestRow {
  static constexpr std::uint32_t levels = 3, bins = 2048;
  std::uint32_t
      histogram[2 * bins];  // of the levels, one after the other: 2048, 1024 and 1024 bins
  struct Found {
    std::uint32_t prefix;  // leading bits of the smallest magnitude that stays
    std::uint32_t left;    // to be taken among those with this prefix
    std::uint32_t equals;  // with this prefix
    std::uint32_t unused;
  };
  Found found[levels];
};
struct LargestPiece {
  std::uint32_t listed;
  std::uint32_t greater, equal;  // than the smallest magnitude that stays, and to it
  std::uint32_t unused;
};

/// Transforms KeepLargest: v -> positions, counted from b, and values of the a largest in magnitude; of equal ones those
/// further back. One launch for each stage, in their order.
struct LargestKernel {
  static constexpr unsigned threads = 256;
  static constexpr std::uint32_t piece = 64 * threads;
  static constexpr std::uint32_t capacity = piece / 8;  // of a list
  static constexpr unsigned together = 8;  // pieces of which a block looks at the lists
  static constexpr unsigned members = threads / together;  // threads for each
  enum Stage : std::uint32_t { clear, count, list, refine, split, write, stages };
  struct Arguments : SharedTasks {
    std::uint32_t stage;
  };
  struct Shared {
    std::uint32_t histogram[LargestRow::bins];
    std::uint32_t first[threads], second[threads];  // sums of threads,
    std::uint32_t groups[threads / 16];             // and of 16 of them
    LargestRow::Found found;
    alignas(16) float numbers[piece];  // for stage list alone
  };
  static constexpr std::uint32_t shared_of(std::uint32_t stage) {
    return stage == list ? sizeof(Shared) : offsetof(Shared, numbers);
  }

  STARLING_DEVICE static constexpr std::uint32_t pieces_of(std::uint32_t size) {
    return size == 0 ? 0 : (size - 1) / piece + 1;
  }
  /// Blocks of a stage for a row of so many pieces.
  STARLING_DEVICE static constexpr std::uint32_t shares_of(std::uint32_t stage,
                                                           std::uint32_t pieces) {
    return stage == clear                    ? 1
           : stage == count || stage == list ? pieces
                                             : (pieces + together - 1) / together;
  }
  /// Scratch memory of a row.
  STARLING_DEVICE static constexpr std::size_t bytes_of(std::uint32_t size) {
    return sizeof(LargestRow) +
           std::size_t{pieces_of(size)} * (sizeof(LargestPiece) + capacity * sizeof(Placed));
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& t = a.task_of(block);
    const std::uint32_t share = a.share_of(block);
    if (t.a == 0 || share >= shares_of(a.stage, pieces_of(t.size[0]))) return;
    switch (static_cast<Stage>(a.stage)) {
      case clear:
        return clear_row(block, t);
      case count:
        return count_piece(block, t, share);
      case list:
        return list_piece(block, t, share);
      case refine:
        return refine_lists(block, t, share);
      case split:
        return split_lists(block, t, share);
      case write:
        return write_lists(block, t, share);
      case stages:
        return;
    }
  }

 private:
  /// Bits of a magnitude behind those that a level's bins are counted by.
  STARLING_DEVICE static constexpr std::uint32_t shift_of(std::uint32_t level) {
    return level == 0 ? 20 : level == 1 ? 10 : 0;
  }
  STARLING_DEVICE static constexpr std::uint32_t bins_of(std::uint32_t level) {
    return level == 0 ? 2048 : 1024;
  }
  STARLING_DEVICE static constexpr std::uint32_t first_bin_of(std::uint32_t level) {
    return level == 0 ? 0 : 1024 * (level + 1);
  }
  STARLING_DEVICE static std::uint32_t magnitude_of(float v) { return bits_of(v) & 0x7fff'ffff; }

  STARLING_DEVICE static LargestRow& row_of(const TransformTask& t) {
    return *reinterpret_cast<LargestRow*>(t.scratch);
  }
  STARLING_DEVICE static LargestPiece* pieces_of(const TransformTask& t) {
    return reinterpret_cast<LargestPiece*>(&row_of(t) + 1);
  }
  STARLING_DEVICE static Placed* list_of(const TransformTask& t, std::uint32_t p) {
    auto* lists = reinterpret_cast<Placed*>(pieces_of(t) + pieces_of(t.size[0]));
    return lists + std::uint64_t{p} * capacity;
  }
  STARLING_DEVICE static Shared& shared_of(const Block& block) {
    return *reinterpret_cast<Shared*>(block.shared_memory);
  }

  STARLING_DEVICE static void clear_row(const Block& block, const TransformTask& t) {
    block.each([&](unsigned thread) {
      LargestRow& row = row_of(t);
      for (std::uint32_t i = thread; i < 2 * LargestRow::bins; i += threads) row.histogram[i] = 0;
    });
  }

  STARLING_DEVICE static void clear_bins(Shared& s, std::uint32_t bins, unsigned thread) {
    for (std::uint32_t i = thread; i < bins; i += threads) s.histogram[i] = 0;
  }
  /// One phase: the block's bins to the row's.
  STARLING_DEVICE static void add_bins(const Block& block, const TransformTask& t,
                                       std::uint32_t level) {
    const Shared& s = shared_of(block);
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < bins_of(level); i += threads) {
        const std::uint32_t own = s.histogram[i];
        if (own != 0) add_atomically(row_of(t).histogram[first_bin_of(level) + i], own);
      }
    });
  }

  /// The bin in which, from above, the left-th number is, to s.found. Clears bins of the next level.
  template <std::uint32_t level>
  STARLING_DEVICE static void find(const Block& block, const TransformTask& t,
                                   std::uint32_t share) {
    constexpr std::uint32_t width = bins_of(level) / threads;
    Shared& s = shared_of(block);
    LargestRow& row = row_of(t);
    const std::uint32_t* bins = row.histogram + first_bin_of(level);
    const std::uint32_t left = level == 0 ? t.a : row.found[level == 0 ? 0 : level - 1].left;
    const std::uint32_t prefix = level == 0 ? 0 : row.found[level == 0 ? 0 : level - 1].prefix;
    block.each([&](unsigned thread) {
      std::uint32_t sum = 0;
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < width; ++i) sum += bins[thread * width + i];
      s.first[thread] = sum;
      if (level + 1 < LargestRow::levels) clear_bins(s, bins_of(level + 1), thread);
    });
    sum_groups(block, s.first);
    block.each([&](unsigned thread) {
      std::uint32_t above = 0;
      for (unsigned g = thread / 16 + 1; g < threads / 16; ++g) above += s.groups[g];
      for (unsigned k = thread + 1; k % 16 != 0; ++k) above += s.first[k];
      if (above >= left || left - above > s.first[thread]) return;
      std::uint32_t within = left - above, bin = (thread + 1) * width - 1;
      for (; bins[bin] < within; --bin) within -= bins[bin];
      s.found = {level == 0 ? bin : prefix << 10 | bin, within, bins[bin], 0};
      if (share == 0) row.found[level] = s.found;
    });
  }

  /// One phase: s.groups[g] = the sum of 16 of `sums`.
  STARLING_DEVICE static void sum_groups(const Block& block, const std::uint32_t* sums) {
    Shared& s = shared_of(block);
    block.each([&](unsigned thread) {
      if (thread >= threads / 16) return;
      std::uint32_t sum = 0;
      STARLING_UNROLL
      for (unsigned k = 0; k < 16; ++k) sum += sums[16 * thread + k];
      s.groups[thread] = sum;
    });
  }

  STARLING_DEVICE static void count_piece(const Block& block, const TransformTask& t,
                                          std::uint32_t share) {
    Shared& s = shared_of(block);
    block.each([&](unsigned thread) { clear_bins(s, bins_of(0), thread); });
    block.each([&](unsigned thread) {
      const std::uint32_t begin = share * piece, here = lesser(piece, t.size[0] - begin);
      for_numbers<threads>(t.in[0] + begin, here, thread, [&](std::uint32_t, float v) {
        add_atomically(s.histogram[magnitude_of(v) >> shift_of(0)], 1);
      });
    });
    add_bins(block, t, 0);
  }

  /// Where a piece's number i lies in shared memory: threads that each read a stretch of 64 in turn meet different banks.
  STARLING_DEVICE static std::uint32_t place_of(std::uint32_t i) { return i ^ (i >> 6 & 7) << 2; }

  STARLING_DEVICE static void list_piece(const Block& block, const TransformTask& t,
                                         std::uint32_t share) {
    Shared& s = shared_of(block);
    const std::uint32_t begin = share * piece, here = lesser(piece, t.size[0] - begin);
    block.each([&](unsigned thread) {
      copy_numbers_ahead<threads>(s.numbers, t.in[0] + begin, here, thread, place_of);
    });
    find<0>(block, t, share);
    block.each([&](unsigned) { await_copies(); });
    // Every thread looks at a stretch of 64; those to be listed are bits of a mask, the first number's the highest.
    const std::uint32_t least = s.found.prefix << shift_of(0);
    Local<std::uint64_t, threads> masks;
    block.each([&](unsigned thread) {
      std::uint64_t mask = 0;
      STARLING_UNROLL
      for (std::uint32_t half = 0; half < 2; ++half) {
        std::uint32_t bits = 0;
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < 32; i += 4) {
          const Quad q =
              *reinterpret_cast<const Quad*>(s.numbers + place_of(64 * thread + 32 * half + i));
          bits |= magnitude_of(q.x) >= least ? 0x8000'0000U >> i : 0;
          bits |= magnitude_of(q.y) >= least ? 0x4000'0000U >> i : 0;
          bits |= magnitude_of(q.z) >= least ? 0x2000'0000U >> i : 0;
          bits |= magnitude_of(q.w) >= least ? 0x1000'0000U >> i : 0;
        }
        mask = mask << 32 | bits;
      }
      const std::uint32_t stretch = here > 64 * thread ? lesser(here - 64 * thread, 64) : 0;
      if (stretch < 64) mask &= stretch == 0 ? 0 : ~std::uint64_t{0} << (64 - stretch);
      masks[thread] = mask;
      s.first[thread] = ones_of(mask);
    });
    sum_groups(block, s.first);
    block.each([&](unsigned thread) {
      std::uint32_t at = 0;
      for (unsigned g = 0; g < thread / 16; ++g) at += s.groups[g];
      for (unsigned k = thread / 16 * 16; k < thread; ++k) at += s.first[k];
      Placed* listed = list_of(t, share);
      for (std::uint64_t mask = masks[thread]; mask != 0; ++at) {
        const std::uint32_t first = zeros_before(mask), i = 64 * thread + first;
        mask &= ~(std::uint64_t{1} << (63 - first));
        const float v = s.numbers[place_of(i)];
        if (at < capacity) listed[at] = {begin + i, v};
        if (magnitude_of(v) >> shift_of(0) == s.found.prefix)
          add_atomically(s.histogram[magnitude_of(v) >> shift_of(1) & (bins_of(1) - 1)], 1);
      }
      if (thread == threads - 1) pieces_of(t)[share].listed = at;
    });
    add_bins(block, t, 1);
  }

  /// f(position, value) for the thread's part of what is listed of its piece, in order.
  template <class F>
  STARLING_DEVICE static void for_listed(const TransformTask& t, std::uint32_t share,
                                         unsigned thread, const F& f) {
    const std::uint32_t p = share * together + thread / members;
    if (p >= pieces_of(t.size[0])) return;
    const std::uint32_t listed = pieces_of(t)[p].listed;
    const bool is_list = listed <= capacity;
    const std::uint32_t here = lesser(piece, t.size[0] - p * piece);
    const std::uint32_t size = is_list ? listed : here, stretch = (size + members - 1) / members;
    const std::uint32_t begin = thread % members * stretch, end = lesser(begin + stretch, size);
    const Placed* numbers = list_of(t, p);
    STARLING_UNROLL_BY(4)
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint32_t position = p * piece + i;
      const Placed number = is_list ? numbers[i] : Placed{position, t.in[0][position]};
      f(number.position, number.value);
    }
  }

  STARLING_DEVICE static void refine_lists(const Block& block, const TransformTask& t,
                                           std::uint32_t share) {
    Shared& s = shared_of(block);
    find<1>(block, t, share);
    block.each([&](unsigned thread) {
      for_listed(t, share, thread, [&](std::uint32_t, float v) {
        if (magnitude_of(v) >> shift_of(1) == s.found.prefix)
          add_atomically(s.histogram[magnitude_of(v) & (bins_of(2) - 1)], 1);
      });
    });
    add_bins(block, t, 2);
  }

  /// One phase: how many of its part are greater than the smallest magnitude that stays, and equal to it.
  STARLING_DEVICE static void count_parts(const Block& block, const TransformTask& t,
                                          std::uint32_t share, std::uint32_t least) {
    Shared& s = shared_of(block);
    block.each([&](unsigned thread) {
      std::uint32_t greater = 0, equal = 0;
      for_listed(t, share, thread, [&](std::uint32_t, float v) {
        greater += magnitude_of(v) > least ? 1 : 0;
        equal += magnitude_of(v) == least ? 1 : 0;
      });
      s.first[thread] = greater;
      s.second[thread] = equal;
    });
  }

  STARLING_DEVICE static void split_lists(const Block& block, const TransformTask& t,
                                          std::uint32_t share) {
    const Shared& s = shared_of(block);
    find<2>(block, t, share);
    count_parts(block, t, share, s.found.prefix);
    block.each([&](unsigned thread) {
      const std::uint32_t p = share * together + thread;
      if (thread >= together || p >= pieces_of(t.size[0])) return;
      std::uint32_t greater = 0, equal = 0;
      for (unsigned k = thread * members; k < (thread + 1) * members; ++k) {
        greater += s.first[k];
        equal += s.second[k];
      }
      pieces_of(t)[p].greater = greater;
      pieces_of(t)[p].equal = equal;
    });
  }

  STARLING_DEVICE static void write_lists(const Block& block, const TransformTask& t,
                                          std::uint32_t share) {
    Shared& s = shared_of(block);
    const LargestRow::Found found = row_of(t).found[LargestRow::levels - 1];
    const LargestPiece* pieces = pieces_of(t);
    // What stays before the block's pieces, and before each thread's part.
    Local<std::uint32_t, threads> greater_before, equal_before;
    block.each([&](unsigned thread) {
      std::uint32_t greater = 0, equal = 0;
      for (std::uint32_t p = thread; p < share * together; p += threads) {
        greater += pieces[p].greater;
        equal += pieces[p].equal;
      }
      s.first[thread] = greater;
      s.second[thread] = equal;
    });
    const auto sum_all = [&](const std::uint32_t* sums, auto& to) {
      sum_groups(block, sums);
      block.each([&](unsigned thread) {
        std::uint32_t sum = 0;
        STARLING_UNROLL
        for (unsigned g = 0; g < threads / 16; ++g) sum += s.groups[g];
        to[thread] = sum;
      });
    };
    sum_all(s.first, greater_before);
    sum_all(s.second, equal_before);
    count_parts(block, t, share, found.prefix);
    block.each([&](unsigned thread) {
      std::uint32_t greater = greater_before[thread], equal = equal_before[thread];
      for (unsigned k = 0; k < thread / members; ++k) {
        const LargestPiece& p = pieces[share * together + k];
        if (share * together + k >= pieces_of(t.size[0])) break;
        greater += p.greater;
        equal += p.equal;
      }
      for (unsigned k = thread / members * members; k < thread; ++k) {
        greater += s.first[k];
        equal += s.second[k];
      }
      const std::uint32_t passed_over =
          found.equals - found.left;  // of the equal ones, from the front
      std::uint32_t at = greater + (equal > passed_over ? equal - passed_over : 0);
      for_listed(t, share, thread, [&](std::uint32_t position, float v) {
        const bool is_equal = magnitude_of(v) == found.prefix;
        if (magnitude_of(v) > found.prefix || (is_equal && equal >= passed_over)) {
          t.out[at] = float_of(t.b + position);
          t.out[t.a + at] = v;
          ++at;
        }
        equal += is_equal ? 1 : 0;
      });
    });
  }
};

}  // namespace starling::cuda
