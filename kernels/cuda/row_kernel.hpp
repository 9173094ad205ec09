// The transforms and measures that look at a whole row before they know any float of the result: one block per row.
// The bits are those of kernels/transform_*.cpp. One file, for it is one kernel: a launch takes rows of all kinds.
#pragma once

#include "kernels/cuda/keep_largest.hpp"
#include "kernels/cuda/lanes.hpp"
#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

struct RowKernel {
  static constexpr unsigned threads = lane_threads;
  static constexpr std::uint32_t shared_bytes = lane_shared_bytes;
  static_assert(sizeof(LargestState<threads>) <= shared_bytes);
  struct Arguments {
    const TransformTask* tasks;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& t = a.tasks[block.index];
    switch (static_cast<Row>(t.kind)) {
      case Row::keep_largest:
        return keep_largest<threads>(block, t);
      case Row::scatter:
        return scatter(block, t);
      case Row::scatter_signs:
        return scatter_signs(block, t);
      case Row::scatter_at:
        return scatter_at(block, t);
      case Row::to_levels:
        return to_levels(block, t);
      case Row::to_signs:
        return to_signs(block, t);
      case Row::to_float4:
        return to_float4(block, t);
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

  /// The sum of term(i), i < count, modulo 2^32, to every thread; of booleans, how many hold. Must not be followed by a phase
  /// that writes shared memory.
  template <class Term>
  STARLING_DEVICE static std::uint32_t sum_of(const Block& block, std::uint32_t count,
                                              const Term& term) {
    auto* sum = reinterpret_cast<std::uint32_t*>(block.shared_memory);
    block.each([&](unsigned thread) {
      if (thread == 0) *sum = 0;
    });
    block.each([&](unsigned thread) {
      std::uint32_t own = 0;
      for (std::uint32_t i = thread; i < count; i += threads) own += term(i);
      add_atomically(*sum, own);
    });
    return *sum;
  }

  /// The largest of key(i), i < count, or 0; as sum_of.
  template <class Key>
  STARLING_DEVICE static std::uint32_t largest_key(const Block& block, std::uint32_t count,
                                                   const Key& key) {
    auto* keys = reinterpret_cast<std::uint32_t*>(block.shared_memory);
    block.each([&](unsigned thread) {
      std::uint32_t own = 0;
      for (std::uint32_t i = thread; i < count; i += threads) {
        const std::uint32_t here = key(i);
        own = here > own ? here : own;
      }
      keys[1 + thread] = own;
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      std::uint32_t all = 0;
      for (unsigned k = 1; k <= threads; ++k) all = keys[k] > all ? keys[k] : all;
      keys[0] = all;
    });
    return keys[0];
  }

  STARLING_DEVICE static void scatter(const Block& block, const TransformTask& t) {
    const std::uint32_t count = t.size[0] / 2;
    spread(block, t.out_size, [&](std::uint32_t i) { t.out[i] = 0.0F; });
    spread(block, count, [&](std::uint32_t i) {
      const std::uint32_t position = bits_of(t.in[0][i]);
      if (position < t.out_size) t.out[position] = t.in[0][count + i];
    });
  }

  STARLING_DEVICE static void scatter_signs(const Block& block, const TransformTask& t) {
    spread(block, t.out_size, [&](std::uint32_t i) { t.out[i] = 0.0F; });
    if (t.size[0] == 0) return;
    const bool has_magnitudes = t.f[0] == 0;
    const float positive = has_magnitudes ? t.in[0][0] : t.f[0];
    const float negative = has_magnitudes ? t.in[0][1] : t.f[0];
    const std::uint32_t header = has_magnitudes ? 2 : 0;
    spread(block, t.size[0] - header, [&](std::uint32_t i) {
      const std::uint32_t word = bits_of(t.in[0][header + i]);
      if (word >> 1 < t.out_size) t.out[word >> 1] = (word & 1) != 0 ? -negative : positive;
    });
  }

  STARLING_DEVICE static void scatter_at(const Block& block, const TransformTask& t) {
    spread(block, t.out_size, [&](std::uint32_t i) { t.out[i] = 0.0F; });
    spread(block, t.size[0], [&](std::uint32_t i) { t.out[t.positions[i]] = t.f[0] * t.in[0][i]; });
  }

  /// The largest magnitude; a NaN is larger than all.
  STARLING_DEVICE static float largest_magnitude(const Block& block, const float* v,
                                                 std::uint32_t count) {
    return float_of(
        largest_key(block, count, [&](std::uint32_t i) { return bits_of(v[i]) & 0x7fff'ffff; }));
  }

  STARLING_DEVICE static double sum_of_squares(const Block& block, const float* v,
                                               std::uint32_t count) {
    lane_sum(
        block, count, [&](std::uint32_t i) { return static_cast<double>(v[i]) * v[i]; }, Plus{});
    return lane_result(block);
  }

  /// a levels, b bucket, c bits of a field; flag 0: the norm is the largest magnitude.
  STARLING_DEVICE static void to_levels(const Block& block, const TransformTask& t) {
    const float* v = t.in[0];
    const std::uint32_t buckets = t.size[0] == 0 ? 0 : (t.size[0] - 1) / t.b + 1;
    for (std::uint32_t bucket = 0; bucket < buckets; ++bucket) {
      const std::uint32_t begin = bucket * t.b, count = lesser(t.b, t.size[0] - begin);
      const float norm = (t.flags & 1) != 0
                             ? largest_magnitude(block, v + begin, count)
                             : static_cast<float>(sqrt(sum_of_squares(block, v + begin, count)));
      block.each([&](unsigned thread) {
        if (thread == 0) t.out[bucket] = norm;
      });
    }
    spread(block, t.out_size - buckets, [&](std::uint32_t word) {
      t.out[buckets + word] = packed_word(word, t.size[0], t.c, [&](std::uint32_t i) {
        const float norm = t.out[i / t.b];
        const double u = uniform_word(t.random, i);
        const double share = norm > 0 ? fabs(v[i]) / static_cast<double>(norm) : 0;
        double level = floor(t.a * share + u);
        if (double{1} * t.a < level) level = t.a;
        const std::uint32_t field = level >= 0 ? static_cast<std::uint32_t>(level) : 0;
        return field << 1 | static_cast<std::uint32_t>(bits_of(v[i]) >> 31);
      });
    });
  }

  /// Of 0 and 2^(e - 7), e = 1 .. 7, the one nearest to `share`, as e.
  STARLING_DEVICE static std::uint32_t exponent_of(double share) {
    if (!(share >= 0x1p-7)) return 0;
    std::uint32_t e = 7;
    for (double level = 1; e > 1 && share < 0.75 * level; level /= 2) --e;
    return e;
  }

  /// a bucket.
  STARLING_DEVICE static void to_float4(const Block& block, const TransformTask& t) {
    const float* v = t.in[0];
    const std::uint32_t buckets = t.size[0] == 0 ? 0 : (t.size[0] - 1) / t.a + 1;
    for (std::uint32_t bucket = 0; bucket < buckets; ++bucket) {
      const std::uint32_t begin = bucket * t.a;
      const float largest = largest_magnitude(block, v + begin, lesser(t.a, t.size[0] - begin));
      block.each([&](unsigned thread) {
        if (thread == 0) t.out[bucket] = largest;
      });
    }
    spread(block, t.out_size - buckets, [&](std::uint32_t word) {
      t.out[buckets + word] = packed_word(word, t.size[0], 4, [&](std::uint32_t i) {
        const float largest = t.out[i / t.a];
        const double share = largest > 0 ? fabs(v[i]) / static_cast<double>(largest) : 0;
        return exponent_of(share) | (bits_of(v[i]) >> 31 << 3);
      });
    });
  }

  STARLING_DEVICE static void hash(const Block& block, const TransformTask& t) {
    const std::uint32_t sum = sum_of(block, t.size[0], [&](std::uint32_t i) {
      std::uint32_t x = bits_of(t.in[0][i]) + (i + 1) * 0x9e37'79b9U;
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

  /// a: entries of a bucket; flag 0: symmetric.
  STARLING_DEVICE static void to_signs(const Block& block, const TransformTask& t) {
    const auto is_negative = [](float x) { return (bits_of(x) >> 31) != 0 && x != 0; };
    const bool is_symmetric = (t.flags & 1) != 0;
    const std::uint32_t buckets = t.size[0] == 0 ? 0 : (t.size[0] - 1) / t.a + 1;
    for (std::uint32_t k = 0; k < buckets; ++k) {
      const float* v = t.in[0] + std::uint64_t{k} * t.a;
      const std::uint32_t count = lesser(t.a, t.size[0] - k * t.a);
      lane_sum(
          block, count, [&](std::uint32_t i) { return is_negative(v[i]) ? 0.0 : double{v[i]}; },
          Plus{});
      const double positive_sum = lane_result(block);
      block.each([](unsigned) {});
      lane_sum(
          block, count, [&](std::uint32_t i) { return is_negative(v[i]) ? double{v[i]} : 0.0; },
          Plus{});
      const double negative_sum = lane_result(block);
      block.each([](unsigned) {});
      const std::uint32_t negatives =
          sum_of(block, count, [&](std::uint32_t i) { return is_negative(v[i]); });
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
    const std::uint32_t header = (is_symmetric ? 1 : 2) * buckets;
    spread(block, t.out_size - header, [&](std::uint32_t word) {
      t.out[header + word] = packed_word(
          word, t.size[0], 1, [&](std::uint32_t i) { return is_negative(t.in[0][i]) ? 1U : 0U; });
    });
  }

  /// a rows, b columns. Column c is scratch[c * rows ..].
  STARLING_DEVICE static void orthonormalize(const Block& block, const TransformTask& t) {
    constexpr double independent = 1e-6;  // as kernels/transform_algebra.cpp
    const std::uint32_t rows = t.a, columns = t.b;
    spread(block, rows * columns, [&](std::uint32_t i) {
      t.scratch[std::uint64_t{i % columns} * rows + i / columns] = t.in[0][i];
    });
    const auto dot = [&](const double* x, const double* y) {
      lane_sum(
          block, rows, [&](std::uint32_t i) { return x[i] * y[i]; }, Plus{});
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
    lane_sum(
        block, count, [&](std::uint32_t i) { return g[i] >= 0 ? double{g[i]} : 0.0; }, Plus{});
    const double upper_sum = lane_result(block);
    block.each([](unsigned) {});
    lane_sum(
        block, count, [&](std::uint32_t i) { return g[i] >= 0 ? 0.0 : -double{g[i]}; }, Plus{});
    const double lower_sum = lane_result(block);
    block.each([](unsigned) {});
    const std::uint32_t upper = sum_of(block, count, [&](std::uint32_t i) { return g[i] >= 0; });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      t.out[0] = mean_of(upper_sum, upper);
      t.out[1] = mean_of(lower_sum, count - upper);
    });
  }

  STARLING_DEVICE static void count_nonzero(const Block& block, const TransformTask& t) {
    const std::uint32_t count =
        sum_of(block, t.size[0], [&](std::uint32_t i) { return t.in[0][i] != 0.0F; });
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
