// ToLevels and ToFloat4: a block has a piece of a row in shared memory, finds the norms of its buckets there, encodes every
// number, and packs the fields. So a row is read once. The norms of buckets that pieces would cut are there before (RowKernel).
#pragma once

#include "kernels/cuda/lanes.hpp"
#include "kernels/cuda/numbers.hpp"
#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

/// The blocks of a task have `piece` numbers each.
struct EncodeKernel {
  static constexpr unsigned threads = 256;
  static constexpr std::uint32_t most = 8192, most_buckets = threads;  // of a piece
  static constexpr std::uint32_t norms_are_there = 2;                  // of a task's flags
  using Arguments = SharedTasks;
  struct Shared {
    double norms[most_buckets], inverses[most_buckets];  // both 0 where no level but 0 is possible
    double sums[threads];
    std::uint32_t largest[threads];
    alignas(16) float numbers[most];  // then fields
  };
  static constexpr std::uint32_t shared_bytes = sizeof(Shared);

  /// Numbers of a block's piece: whole buckets if is_whole is set to true, and whole words in any case.
  STARLING_DEVICE static std::uint32_t piece_of(std::uint32_t bucket, std::uint32_t bits,
                                                bool& is_whole) {
    std::uint32_t step = 32;  // entries that fill words
    while (step % 2 == 0 && step / 2 * bits % 32 == 0) step /= 2;
    std::uint64_t both = bucket;  // the least common multiple
    while (both % step != 0) both += bucket;
    is_whole = both <= most && both / bucket <= most_buckets;
    if (!is_whole) return most;
    const auto common = static_cast<std::uint32_t>(both);
    const std::uint32_t room = bucket < most / most_buckets ? bucket * most_buckets : most;
    return room / common * common;
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& t = a.task_of(block);
    const std::uint32_t begin = a.share_of(block) * t.piece;
    if (begin >= t.size[0]) return;
    t.kind == static_cast<std::uint32_t>(Row::to_levels) ? to_levels(block, t, begin)
                                                         : to_float4(block, t, begin);
  }

 private:
  struct Piece {
    const TransformTask& task;
    std::uint32_t begin, count;  // numbers of the row
    std::uint32_t bucket, bits;
    std::uint32_t first_bucket, buckets;  // that it has a part in
  };

  STARLING_DEVICE static Shared& shared_of(const Block& block) {
    return *reinterpret_cast<Shared*>(block.shared_memory);
  }
  /// Where number i of the piece lies: threads that read a word's fields, or four of them, meet different banks.
  STARLING_DEVICE static std::uint32_t place_of(std::uint32_t i) { return i ^ (i >> 5 & 7) << 2; }

  /// The piece, its numbers in shared memory.
  STARLING_DEVICE static Piece fetch(const Block& block, const TransformTask& t,
                                     std::uint32_t begin, std::uint32_t bucket,
                                     std::uint32_t bits) {
    const std::uint32_t count = lesser(t.piece, t.size[0] - begin);
    block.each([&](unsigned thread) {
      copy_numbers_ahead<threads>(shared_of(block).numbers, t.in[0] + begin, count, thread,
                                  place_of);
      await_copies();
    });
    const std::uint32_t first = begin / bucket;
    return {t, begin, count, bucket, bits, first, (begin + count - 1) / bucket - first + 1};
  }

  STARLING_DEVICE static void set_norm(Shared& s, std::uint32_t bucket, float norm) {
    const bool is_positive = norm > 0 && bits_of(norm) != 0x7f80'0000;
    s.norms[bucket] = is_positive ? double{norm} : 0;
    s.inverses[bucket] = is_positive ? 1 / double{norm} : 0;
  }

  /// To s.norms and the code. 16 threads look at a bucket.
  STARLING_DEVICE static void find_norms(const Block& block, const Piece& p, bool is_max) {
    constexpr std::uint32_t together = threads / lane_count;
    Shared& s = shared_of(block);
    if ((p.task.flags & norms_are_there) != 0) {
      block.each([&](unsigned thread) {
        if (thread < p.buckets) set_norm(s, thread, p.task.out[p.first_bucket + thread]);
      });
      return;
    }
    for (std::uint32_t done = 0; done < p.buckets; done += together) {
      block.each([&](unsigned thread) {
        const std::uint32_t begin = (done + thread / lane_count) * p.bucket;
        const std::uint32_t end = lesser(begin + p.bucket, p.count);
        double sum = 0;
        std::uint32_t largest = 0;
        if (is_max) {
          STARLING_UNROLL_BY(8)
          for (std::uint32_t i = begin + thread % lane_count; i < end; i += lane_count) {
            const std::uint32_t here = bits_of(s.numbers[place_of(i)]) & 0x7fff'ffff;
            largest = here > largest ? here : largest;
          }
          s.largest[thread] = largest;
        } else {
          STARLING_UNROLL_BY(8)
          for (std::uint32_t i = begin + thread % lane_count; i < end; i += lane_count) {
            const double v = s.numbers[place_of(i)];
            sum += v * v;
          }
          s.sums[thread] = sum;
        }
      });
      block.each([&](unsigned thread) {
        if (thread >= together || done + thread >= p.buckets) return;
        float norm;
        if (is_max) {
          std::uint32_t largest = 0;
          for (unsigned l = 0; l < lane_count; ++l) {
            const std::uint32_t here = s.largest[thread * lane_count + l];
            largest = here > largest ? here : largest;
          }
          norm = float_of(largest);
        } else {
          norm = static_cast<float>(sqrt(fold_lanes(s.sums + thread * lane_count)));
        }
        set_norm(s, done + thread, norm);
        p.task.out[p.first_bucket + done + thread] = norm;
      });
    }
  }

  /// One phase: numbers to fields, in their place: field(number, bucket of the piece, random word).
  template <class Field>
  STARLING_DEVICE static void encode(const Block& block, const Piece& p, const Field& field) {
    Shared& s = shared_of(block);
    const Stream random = p.task.random;
    block.each([&](unsigned thread) {
      // Groups of four numbers, as the random stream has them.
      std::uint32_t g = (p.begin + random.used) / 4 + thread;
      std::uint32_t bucket = (4 * g - lesser(random.used, 4 * g)) / p.bucket;
      std::uint32_t next = (bucket + 1) * p.bucket - p.begin;  // where it ends
      bucket -= p.first_bucket;
      for (;; g += threads) {
        // Less than 0 for some of the first group.
        const auto at = static_cast<std::int32_t>(4 * g - random.used - p.begin);
        if (at >= static_cast<std::int32_t>(p.count)) break;
        const auto i = static_cast<std::uint32_t>(at < 0 ? 0 : at);
        for (; i >= next; next += p.bucket) ++bucket;
        const Words words = words_at(random, g);
        if (at >= 0 && at % 4 == 0 && i + 4 <= lesser(p.count, next)) {
          auto* quad = reinterpret_cast<Quad*>(s.numbers + place_of(i));
          const Quad q = *quad;
          *quad = {float_of(field(q.x, bucket, words.word[0])),
                   float_of(field(q.y, bucket, words.word[1])),
                   float_of(field(q.z, bucket, words.word[2])),
                   float_of(field(q.w, bucket, words.word[3]))};
          continue;
        }
        STARLING_UNROLL
        for (unsigned k = 0; k < 4; ++k) {
          const std::int32_t here = at + static_cast<std::int32_t>(k);
          if (here < 0 || here >= static_cast<std::int32_t>(p.count)) continue;
          for (; static_cast<std::uint32_t>(here) >= next; next += p.bucket) ++bucket;
          float& v = s.numbers[place_of(static_cast<std::uint32_t>(here))];
          v = float_of(field(v, bucket, words.word[k]));
        }
      }
    });
  }

  /// One phase: fields to words.
  STARLING_DEVICE static void pack(const Block& block, const Piece& p) {
    const Shared& s = shared_of(block);
    const std::uint32_t buckets = (p.task.size[0] - 1) / p.bucket + 1;
    float* out = p.task.out + buckets + std::uint64_t{p.begin} * p.bits / 32;
    const std::uint32_t words = (p.count * p.bits + 31) / 32;
    const bool are_quads = p.bits <= 8 && 32 % p.bits == 0;
    const std::uint32_t in_word = 32 / p.bits;
    block.each([&](unsigned thread) {
      for (std::uint32_t word = thread; word < words; word += threads) {
        if (!are_quads) {
          out[word] = packed_word(word, p.count, p.bits,
                                  [&](std::uint32_t i) { return bits_of(s.numbers[place_of(i)]); });
          continue;
        }
        std::uint32_t packed = 0;
        const std::uint32_t first = word * in_word;
        for (std::uint32_t done = 0, at = 0; at < 32; done += 4, at += 4 * p.bits) {
          const std::uint32_t i = first + done;
          const Quad q = *reinterpret_cast<const Quad*>(s.numbers + place_of(i));
          if (i < p.count) packed |= bits_of(q.x) << at;
          if (i + 1 < p.count) packed |= bits_of(q.y) << (at + p.bits);
          if (i + 2 < p.count) packed |= bits_of(q.z) << (at + 2 * p.bits);
          if (i + 3 < p.count) packed |= bits_of(q.w) << (at + 3 * p.bits);
        }
        out[word] = float_of(packed);
      }
    });
  }

  /// a levels, b bucket, c bits of a field; flag 0: the norm is the largest magnitude.
  STARLING_DEVICE static void to_levels(const Block& block, const TransformTask& t,
                                        std::uint32_t begin) {
    const Shared& s = shared_of(block);
    const Piece p = fetch(block, t, begin, t.b, t.c);
    find_norms(block, p, (t.flags & 1) != 0);
    const std::uint32_t levels = t.a;
    encode(block, p, [&](float v, std::uint32_t bucket, std::uint32_t word) {
      const double share = quotient_of(fabs(double{v}), s.norms[bucket], s.inverses[bucket]);
      // word / 2^32, exactly: 2^20 with these bits behind it, less 2^20.
      const double uniform = double_of(0x4130'0000'0000'0000 | word) - 0x1p20;
      const double level = levels * share + uniform;
      const std::uint32_t whole = level >= 0 ? static_cast<std::uint32_t>(level) : 0;
      return lesser(whole, levels) << 1 | bits_of(v) >> 31;
    });
    pack(block, p);
  }

  /// a bucket. Of 0 and 2^(e - 7), e = 1 .. 7, the one nearest to a number's share of its bucket's largest, as e.
  STARLING_DEVICE static void to_float4(const Block& block, const TransformTask& t,
                                        std::uint32_t begin) {
    const Shared& s = shared_of(block);
    const Piece p = fetch(block, t, begin, t.a, 4);
    find_norms(block, p, true);
    encode(block, p, [&](float v, std::uint32_t bucket, std::uint32_t) {
      const double share = quotient_of(fabs(double{v}), s.norms[bucket], s.inverses[bucket]);
      std::uint32_t exponent = share >= 0x1p-7 ? 1 : 0;
      STARLING_UNROLL
      for (double level = 0.75 * 0x1p-5; level <= 0.75; level *= 2)
        exponent += share >= level ? 1 : 0;
      return exponent | bits_of(v) >> 31 << 3;
    });
    pack(block, p);
  }
};

}  // namespace starling::cuda
