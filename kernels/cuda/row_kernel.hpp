// The transforms and measures that look at a whole row before they know any float of the result: one block per row.
// The bits are those of kernels/transform_*.cpp. One file, for it is one kernel: a launch takes rows of all kinds.
#pragma once

#include "kernels/cuda/lanes.hpp"
#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

struct RowKernel {
  static constexpr unsigned threads = lane_threads;
  static constexpr unsigned resident = 8;
  static constexpr std::uint32_t shared_bytes =
      lane_shared_bytes + 2 * threads * sizeof(std::uint32_t);  // SignSource
  struct Arguments {
    const TransformTask* tasks;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& t = a.tasks[block.index];
    switch (static_cast<Row>(t.kind)) {
      case Row::to_levels:
        return bucket_norms(block, t, t.b, (t.flags & 1) != 0);
      case Row::to_signs:
        return to_signs(block, t);
      case Row::to_float4:
        return bucket_norms(block, t, t.a, true);
      case Row::hash:
        return hash(block, t);
      case Row::rotate:
        return rotate(block, t);
      case Row::orthonormalize:
        return orthonormalize(block, t);
      case Row::clip_norm:
        return clip_norm(block, t);
      case Row::clip_deviations:
        return clip_deviations(block, t);
      case Row::largest_magnitude:
        return largest_magnitude(block, t);
      case Row::side_means:
        return side_means(block, t);
      case Row::count_nonzero:
        return count_nonzero(block, t);
      case Row::least_magnitude:
        return least_magnitude(block, t);
      case Row::largest_difference:
        return largest_difference(block, t);
    }
  }

 private:
  /// f(i) for every i < count, spread over the threads.
  template <class F>
  STARLING_DEVICE static void spread(const Block& block, std::uint32_t count, const F& f) {
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < count; i += threads) f(i);
    });
  }

  /// The sum of all threads' numbers, modulo 2^32, to every thread. Must not be followed by a phase that writes shared memory.
  STARLING_DEVICE static std::uint32_t total(const Block& block,
                                             Local<std::uint32_t, threads>& numbers) {
    auto* sum = reinterpret_cast<std::uint32_t*>(block.shared_memory);
    block.each([&](unsigned thread) {
      if (thread == 0) *sum = 0;
    });
    block.each([&](unsigned thread) { add_atomically(*sum, numbers[thread]); });
    return *sum;
  }

  /// The sum of term(i, v[i]), i < count, likewise; of booleans, how many hold.
  template <class Term>
  STARLING_DEVICE static std::uint32_t sum_of(const Block& block, const float* v,
                                              std::uint32_t count, const Term& term) {
    Local<std::uint32_t, threads> own;
    block.each([&](unsigned thread) {
      std::uint32_t sum = 0;
      for_numbers<threads>(v, count, thread, [&](std::uint32_t i, float x) { sum += term(i, x); });
      own[thread] = sum;
    });
    return total(block, own);
  }

  /// The largest magnitude; a NaN is larger than all. As sum_of.
  STARLING_DEVICE static float largest_magnitude(const Block& block, const float* v,
                                                 std::uint32_t count) {
    auto* largest = reinterpret_cast<std::uint32_t*>(block.shared_memory);
    const auto larger = [](std::uint32_t a, std::uint32_t b) { return a < b ? b : a; };
    block.each([&](unsigned thread) {
      std::uint32_t own = 0;
      for_numbers<threads>(v, count, thread, [&](std::uint32_t, float x) {
        own = larger(own, bits_of(x) & 0x7fff'ffff);
      });
      largest[1 + thread] = own;
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      std::uint32_t all = 0;
      for (unsigned k = 1; k <= threads; ++k) all = larger(all, largest[k]);
      largest[0] = all;
    });
    return float_of(largest[0]);
  }

  STARLING_DEVICE static double sum_of_squares(const Block& block, const float* v,
                                               std::uint32_t count) {
    lane_sums<1>(block, count, NumberSource{v, count},
                 [](double sum, double x, unsigned) { return sum + x * x; });
    return lane_result(block);
  }

  /// The norms of ToLevels and ToFloat4, as EncodeKernel wants them: of `bucket` numbers each.
  STARLING_DEVICE static void bucket_norms(const Block& block, const TransformTask& t,
                                           std::uint32_t bucket, bool is_max) {
    for (std::uint32_t begin = 0, b = 0; begin < t.size[0]; begin += bucket, ++b) {
      const float* v = t.in[0] + begin;
      const std::uint32_t count = lesser(bucket, t.size[0] - begin);
      const float norm = is_max ? largest_magnitude(block, v, count)
                                : static_cast<float>(sqrt(sum_of_squares(block, v, count)));
      block.each([&](unsigned thread) {
        if (thread == 0) t.out[b] = norm;
      });
    }
  }

  STARLING_DEVICE static void hash(const Block& block, const TransformTask& t) {
    const std::uint32_t sum = sum_of(block, t.in[0], t.size[0], [](std::uint32_t i, float v) {
      std::uint32_t x = bits_of(v) + (i + 1) * 0x9e37'79b9U;
      x = (x ^ (x >> 16)) * 0x85eb'ca6bU;
      x = (x ^ (x >> 13)) * 0xc2b2'ae35U;
      return x ^ (x >> 16);
    });
    block.each([&](unsigned thread) {
      if (thread == 0) t.out[0] = static_cast<float>(sum >> 8);
    });
  }

  /// flag 0: the way back.
  STARLING_DEVICE static void rotate(const Block& block, const TransformTask& t) {
    const bool is_inverse = (t.flags & 1) != 0;
    const auto signed_by = [&](std::uint32_t i, double x) {
      return word_of(t.random, i) >> 31 != 0 ? -x : x;
    };
    std::uint32_t size = 1;
    while (size <= t.size[0] / 2) size *= 2;
    for (std::uint32_t begin = 0; begin < t.size[0]; begin += size) {
      while (size > t.size[0] - begin) size /= 2;
      double* piece = t.scratch + begin;
      spread(block, size, [&](std::uint32_t i) {
        const double x = t.in[0][begin + i];
        piece[i] = is_inverse ? x : signed_by(begin + i, x);
      });
      for (std::uint32_t half = 1; half < size; half *= 2) {
        spread(block, size / 2, [&](std::uint32_t pair) {
          const std::uint32_t i = pair / half * 2 * half + pair % half;
          const double a = piece[i], b = piece[i + half];
          piece[i] = a + b;
          piece[i + half] = a - b;
        });
      }
      const double factor = 1 / sqrt(static_cast<double>(size));
      spread(block, size, [&](std::uint32_t i) {
        const double x = factor * piece[i];
        t.out[begin + i] = static_cast<float>(is_inverse ? signed_by(begin + i, x) : x);
      });
    }
  }

  STARLING_DEVICE static float mean_of(double sum, std::uint32_t count) {
    return count == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(count));
  }

  STARLING_DEVICE static bool is_negative(float x) { return bits_of(x) > 0x8000'0000; }

  /// Numbers of which the negative ones are counted, and told by bits, if `words` is not null.
  struct SignSource : NumberSource {
    float* words;
    std::uint32_t* signs;  // of four numbers each, of two tiles
    Local<std::uint32_t, threads>& negatives;

    STARLING_DEVICE void put(unsigned thread, std::uint32_t tile, const Quad& from,
                             float* to) const {
      NumberSource::put(thread, tile, from, to);
      const unsigned bits[] = {is_negative(from.x), is_negative(from.y), is_negative(from.z),
                               is_negative(from.w)};
      negatives[thread] += bits[0] + bits[1] + bits[2] + bits[3];
      signs[tile % 2 * threads + thread] = bits[0] | bits[1] << 1 | bits[2] << 2 | bits[3] << 3;
    }
    STARLING_DEVICE void finish(unsigned rank, std::uint32_t tile) const {
      const unsigned word = threads - 1 - rank;
      const std::uint32_t at = tile * (lane_tile / 32) + word;
      if (words == nullptr || word >= lane_tile / 32 || at * 32 >= count) return;
      const std::uint32_t* from = signs + tile % 2 * threads + 8 * word;
      std::uint32_t packed = 0;
      STARLING_UNROLL
      for (unsigned k = 0; k < 8; ++k) packed |= from[k] << (4 * k);
      words[at] = float_of(packed);
    }
  };

  /// a: entries of a bucket; flag 0: symmetric.
  STARLING_DEVICE static void to_signs(const Block& block, const TransformTask& t) {
    const bool is_symmetric = (t.flags & 1) != 0;
    const std::uint32_t buckets = t.size[0] == 0 ? 0 : (t.size[0] - 1) / t.a + 1;
    float* words = t.out + (is_symmetric ? 1 : 2) * buckets;
    Local<std::uint32_t, threads> negatives_of;
    for (std::uint32_t k = 0; k < buckets; ++k) {
      const float* v = t.in[0] + std::uint64_t{k} * t.a;
      const std::uint32_t count = lesser(t.a, t.size[0] - k * t.a);
      block.each([&](unsigned thread) { negatives_of[thread] = 0; });
      lane_sums<2>(
          block, count,
          SignSource{{v, count},
                     buckets == 1 ? words : nullptr,
                     reinterpret_cast<std::uint32_t*>(block.shared_memory + lane_shared_bytes),
                     negatives_of},
          [](double sum, float x, unsigned side) {
            return sum + double{is_negative(x) == (side == 1) ? x : 0.0F};
          });
      const double positive_sum = lane_result(block, 0), negative_sum = lane_result(block, 1);
      block.each([](unsigned) {});
      const std::uint32_t negatives = total(block, negatives_of);
      block.each([&](unsigned thread) {
        if (thread != 0) return;
        if (is_symmetric) {
          t.out[k] = mean_of(positive_sum - negative_sum, count);
        } else {
          t.out[2 * k] = mean_of(positive_sum, count - negatives);
          t.out[2 * k + 1] = mean_of(negative_sum, negatives);
        }
      });
    }
    if (buckets < 2) return;
    spread(block, (t.size[0] - 1) / 32 + 1, [&](std::uint32_t word) {
      words[word] = packed_word(word, t.size[0], 1,
                                [&](std::uint32_t i) { return is_negative(t.in[0][i]) ? 1U : 0U; });
    });
  }

  /// Of two columns of doubles.
  struct ProductSource {
    using Entry = double;
    struct Fetched {
      double products[4];
    };
    const double* x;
    const double* y;
    std::uint32_t count;

    STARLING_DEVICE Fetched fetch(std::uint32_t i) const {
      Fetched fetched;
      STARLING_UNROLL
      for (std::uint32_t k = 0; k < 4; ++k)
        fetched.products[k] = i + k < count ? x[i + k] * y[i + k] : 0;
      return fetched;
    }
    STARLING_DEVICE void put(unsigned, std::uint32_t, const Fetched& from, double* to) const {
      STARLING_UNROLL
      for (unsigned k = 0; k < 4; ++k) to[k] = from.products[k];
    }
    STARLING_DEVICE void finish(unsigned, std::uint32_t) const {}
  };

  /// a rows, b columns. Column c is scratch[c * rows ..].
  STARLING_DEVICE static void orthonormalize(const Block& block, const TransformTask& t) {
    constexpr double independent = 1e-6;  // as kernels/transform_algebra.cpp
    const std::uint32_t rows = t.a, columns = t.b;
    spread(block, rows * columns, [&](std::uint32_t i) {
      t.scratch[std::uint64_t{i % columns} * rows + i / columns] = t.in[0][i];
    });
    const auto dot = [&](const double* x, const double* y) {
      lane_sums<1>(block, rows, ProductSource{x, y, rows},
                   [](double sum, double product, unsigned) { return sum + product; });
      return lane_result(block);
    };
    for (std::uint32_t c = 0; c < columns; ++c) {
      double* column = t.scratch + std::uint64_t{c} * rows;
      const double before = sqrt(dot(column, column));
      block.each([](unsigned) {});
      for (std::uint32_t p = 0; p < c; ++p) {
        const double* other = t.scratch + std::uint64_t{p} * rows;
        const double share = dot(other, column);
        spread(block, rows, [&](std::uint32_t r) { column[r] -= share * other[r]; });
      }
      const double norm = sqrt(dot(column, column));
      const double factor = norm > independent * before ? 1 / norm : 0;
      spread(block, rows, [&](std::uint32_t r) { column[r] *= factor; });
    }
    spread(block, rows * columns, [&](std::uint32_t i) {
      t.out[i] = static_cast<float>(t.scratch[std::uint64_t{i % columns} * rows + i / columns]);
    });
  }

  STARLING_DEVICE static void clip_norm(const Block& block, const TransformTask& t) {
    const double norm = sqrt(sum_of_squares(block, t.in[0], t.size[0]));
    const auto factor = static_cast<float>(norm > t.f[0] ? t.f[0] / norm : 1.0);
    spread(block, t.size[0], [&](std::uint32_t i) { t.out[i] = factor * t.in[0][i]; });
  }

  STARLING_DEVICE static void clip_deviations(const Block& block, const TransformTask& t) {
    const float* v = t.in[0];
    const double squares = sum_of_squares(block, v, t.size[0]);
    const double sigma = sqrt(squares / static_cast<double>(t.size[0]));
    const auto limit = static_cast<float>(t.f[0] * sigma);
    spread(block, t.size[0], [&](std::uint32_t i) {
      t.out[i] = fabs(v[i]) > limit ? (v[i] < 0 ? -limit : limit) : v[i];
    });
  }

  STARLING_DEVICE static void largest_magnitude(const Block& block, const TransformTask& t) {
    const float largest = largest_magnitude(block, t.in[0], t.size[0]);
    block.each([&](unsigned thread) {
      if (thread == 0) t.out[0] = largest;
    });
  }

  STARLING_DEVICE static void side_means(const Block& block, const TransformTask& t) {
    const float* g = t.in[0];
    const std::uint32_t count = t.size[0];
    lane_sums<2>(block, count, NumberSource{g, count}, [](double sum, float x, unsigned side) {
      return sum + double{(x >= 0) == (side == 0) ? (side == 0 ? x : -x) : 0.0F};
    });
    const double upper_sum = lane_result(block, 0), lower_sum = lane_result(block, 1);
    block.each([](unsigned) {});
    const std::uint32_t upper =
        sum_of(block, g, count, [](std::uint32_t, float x) { return x >= 0; });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      t.out[0] = mean_of(upper_sum, upper);
      t.out[1] = mean_of(lower_sum, count - upper);
    });
  }

  STARLING_DEVICE static void count_nonzero(const Block& block, const TransformTask& t) {
    const std::uint32_t count =
        sum_of(block, t.in[0], t.size[0], [](std::uint32_t, float v) { return v != 0.0F; });
    block.each([&](unsigned thread) {
      if (thread == 0) *t.number = static_cast<double>(count);
    });
  }

  STARLING_DEVICE static void least_magnitude(const Block& block, const TransformTask& t) {
    double* found = reinterpret_cast<double*>(block.shared_memory);
    const auto least_of = [&](double least, double x) { return x < least ? x : least; };
    block.each([&](unsigned thread) {
      double least = float_of(0x7f80'0000);
      for (std::uint32_t i = thread; i < t.size[0]; i += threads)
        least = least_of(least, fabs(double{t.in[0][i]}));
      found[thread] = least;
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      double least = found[0];
      for (unsigned k = 1; k < threads; ++k) least = least_of(least, found[k]);
      *t.number = least;
    });
  }

  STARLING_DEVICE static void largest_difference(const Block& block, const TransformTask& t) {
    double* found = reinterpret_cast<double*>(block.shared_memory);
    block.each([&](unsigned thread) {
      double largest = 0;
      for (std::uint32_t i = thread; i < t.size[0]; i += threads) {
        const double d = fabs(double{t.in[0][i]} - double{t.in[1][i]});
        largest = largest < d ? d : largest;
      }
      found[thread] = largest;
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      double largest = 0;
      for (unsigned k = 0; k < threads; ++k) largest = largest < found[k] ? found[k] : largest;
      *t.number = largest;
    });
  }
};

}  // namespace starling::cuda
