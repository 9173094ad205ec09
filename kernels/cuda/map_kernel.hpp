// The transforms of which every float of the result stands alone. Formulas: sim/node/transform.hpp; the order of what
// little arithmetic there is: kernels/transform_*.cpp.
#pragma once

#include "kernels/cuda/half.hpp"
#include "kernels/cuda/numbers.hpp"
#include "kernels/cuda/panels.hpp"
#include "kernels/cuda/project_kernel.hpp"
#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

/// The blocks of a task do its floats from 0, tile, 2 tile .. on; of a scatter, entries of its code, after ClearKernel.
struct MapKernel {
  static constexpr unsigned threads = 256;
  static constexpr std::uint32_t tile = 8 * threads;
  using Arguments = SharedTasks;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& task = a.task_of(block);
    const std::uint32_t begin = a.share_of(block) * tile;
    const std::uint32_t size = extent_of(task);
    if (begin >= size) return;
    const std::uint32_t end = lesser(begin + tile, size);
    map(block, task, begin, end);
  }

  /// The floats, or the entries, of a task.
  STARLING_DEVICE static std::uint32_t extent_of(const TransformTask& t) {
    const std::uint32_t size = t.size[0];
    switch (static_cast<Map>(t.kind)) {
      case Map::scatter:
        return size / 2;
      case Map::scatter_signs:
        return size == 0 || t.f[0] != 0 ? size : size - 2;
      case Map::scatter_at:
        return size;
      default:
        return t.out_size;
    }
  }

 private:
  /// out[i] = value(i) for begin <= i < end; the loads of `together` numbers of a thread do not wait for each other.
  template <unsigned together, class Value>
  STARLING_DEVICE static void fill(const Block& block, const TransformTask& t, std::uint32_t begin,
                                   std::uint32_t end, const Value& value) {
    constexpr std::uint32_t step = together * threads;
    block.each([&](unsigned thread) {
      std::uint32_t i = begin + thread;
      STARLING_UNROLL_BY(1)
      for (; i - thread + step <= end; i += step) {
        float values[together];
        STARLING_UNROLL
        for (unsigned k = 0; k < together; ++k) values[k] = value(i + k * threads);
        STARLING_UNROLL
        for (unsigned k = 0; k < together; ++k) t.out[i + k * threads] = values[k];
      }
      STARLING_UNROLL_BY(1)
      for (; i < end; i += threads) t.out[i] = value(i);
    });
  }

  /// out[position] = value of what entry(i) gives, for begin <= i < end.
  template <class Entry>
  STARLING_DEVICE static void place(const Block& block, const TransformTask& t, std::uint32_t begin,
                                    std::uint32_t end, const Entry& entry) {
    block.each([&](unsigned thread) {
      STARLING_UNROLL_BY(4)
      for (std::uint32_t i = begin + thread; i < end; i += threads) {
        const Placed placed = entry(i);
        // A damaged code must not write elsewhere.
        if (placed.position < t.out_size) t.out[placed.position] = placed.value;
      }
    });
  }

  STARLING_DEVICE static void map(const Block& block, const TransformTask& t, std::uint32_t begin,
                                  std::uint32_t end) {
    const auto each = [&](const auto& value) { fill<8>(block, t, begin, end, value); };
    const auto each_of_few = [&](const auto& value) { fill<2>(block, t, begin, end, value); };
    const auto each_singly = [&](const auto& value) { fill<1>(block, t, begin, end, value); };
    const bool flag = (t.flags & 1) != 0;
    switch (static_cast<Map>(t.kind)) {
      case Map::keep_above:
        return each([&](std::uint32_t i) {
          const float v = t.in[0][i];
          return fabs(v) >= t.f[0] ? v : 0.0F;
        });
      case Map::keep_side:
        return each([&](std::uint32_t i) {
          const float v = t.in[0][i];
          return (flag ? v < 0 : v > 0) ? v : 0.0F;
        });
      case Map::signed_positions:
        return each([&](std::uint32_t i) {
          return float_of(bits_of(t.in[0][i]) << 1 | bits_of(t.in[0][t.out_size + i]) >> 31);
        });
      case Map::clear_where:
        return each([&](std::uint32_t i) { return t.in[1][i] != 0.0F ? 0.0F : t.in[0][i]; });
      case Map::gather:
        return each([&](std::uint32_t i) { return t.in[0][t.positions[i]]; });
      case Map::scatter: {
        const std::uint32_t count = t.size[0] / 2;
        return place(block, t, begin, end, [&](std::uint32_t i) {
          return Placed{bits_of(t.in[0][i]), t.in[0][count + i]};
        });
      }
      case Map::scatter_signs: {
        const float positive = t.f[0] == 0 ? t.in[0][0] : t.f[0];
        const float negative = t.f[0] == 0 ? t.in[0][1] : t.f[0];
        const float* words = t.in[0] + (t.size[0] - extent_of(t));
        return place(block, t, begin, end, [&](std::uint32_t i) {
          const std::uint32_t word = bits_of(words[i]);
          return Placed{word >> 1, (word & 1) != 0 ? -negative : positive};
        });
      }
      case Map::scatter_at:
        return place(block, t, begin, end, [&](std::uint32_t i) {
          return Placed{t.positions[i], t.f[0] * t.in[0][i]};
        });
      case Map::to_half:
        if (flag) return to_halves(block, t, begin, end, [](float v) { return to_bfloat(v); });
        return to_halves(block, t, begin, end, [](float v) { return starling::cuda::to_half(v); });
      case Map::from_half:
        return each([&](std::uint32_t i) {
          const std::uint32_t field = bits_of(t.in[0][i / 2]) >> (i % 2 * 16) & 0xffff;
          return flag ? from_bfloat(field) : from_half(field);
        });
      case Map::from_levels:
        return each_of_few([&](std::uint32_t i) { return from_levels(t, i); });
      case Map::ternarize:
        return each_singly([&](std::uint32_t i) {
          const float v = t.in[0][i];
          const bool is_kept = fabs(v) / double{t.in[1][0]} > uniform_word(t.random, i);
          return !is_kept ? 0.0F : v < 0 ? -1.0F : 1.0F;
        });
      case Map::to_integers:
        return each_singly([&](std::uint32_t i) {
          return packed_word(i, t.size[0], t.a, [&](std::uint32_t k) { return integer_of(t, k); });
        });
      case Map::from_integers:
        return each([&](std::uint32_t i) {
          const std::uint32_t sign = std::uint32_t{1} << (t.a - 1);
          const std::uint32_t field = field_of(t.in[0], i, t.a);
          return static_cast<float>(static_cast<int>(field ^ sign) - static_cast<int>(sign));
        });
      case Map::from_signs:
        return each_of_few([&](std::uint32_t i) {
          const std::uint32_t values = flag ? 1 : 2, k = i / t.a;
          const float positive = t.in[0][values * k];
          const float negative = flag ? -positive : t.in[0][2 * k + 1];
          const std::uint32_t buckets = (t.out_size - 1) / t.a + 1;
          return field_of(t.in[0] + values * buckets, i, 1) != 0 ? negative : positive;
        });
      case Map::signs:
        return each([&](std::uint32_t i) { return t.in[0][i] >= 0 ? 1.0F : -1.0F; });
      case Map::from_float4:
        return each_of_few([&](std::uint32_t i) { return from_float4(t, i); });
      case Map::to_colors:
        return each_singly([&](std::uint32_t i) {
          return packed_word(i, t.size[0], t.a, [&](std::uint32_t k) { return color_of(t, k); });
        });
      case Map::from_colors:
        return each_singly([&](std::uint32_t i) { return from_colors(t, i); });
      case Map::matrix_product:
        return each_singly([&](std::uint32_t i) { return product(t, i); });
      case Map::panels_to_rows:
        return each_singly([&](std::uint32_t i) {
          return flag ? t.in[0][weight_at(t.a, t.b, i % t.a, i / t.a)]
                      : t.in[0][weight_at(t.a, t.b, i / t.b, i % t.b)];
        });
      case Map::rows_to_panels:
        return each_singly([&](std::uint32_t i) {
          const Place place = place_of(t.a, t.b, i);
          return t.in[0][flag ? std::uint64_t{place.output} * t.a + place.input
                              : std::uint64_t{place.input} * t.b + place.output];
        });
      case Map::scale_by:
        return each([&](std::uint32_t i) {
          const float factor = t.f[0] * t.in[1][0];
          return factor * t.in[0][i];
        });
      case Map::larger:
        return each([&](std::uint32_t i) {
          const float a = t.in[0][i], b = t.in[1][i];
          return a < b || isnan(b) ? b : a;
        });
      case Map::add_square:
        return each([&](std::uint32_t i) {
          const double square = static_cast<double>(t.in[1][i]) * t.in[1][i];
          return static_cast<float>(double{t.f[0]} * t.in[0][i] + double{t.f[1]} * square);
        });
      case Map::divide_by_root:
        return each_singly([&](std::uint32_t i) {
          const double root = sqrt(double{t.f[1]} * t.in[1][i]) + t.f[2];
          return root > 0 ? static_cast<float>(double{t.f[0]} * t.in[0][i] / root) : 0.0F;
        });
      case Map::shift_sides:
        return each([&](std::uint32_t i) {
          const float g = t.in[0][i];
          return g >= 0 ? g + (t.in[2][0] - t.in[1][0]) : g - (t.in[2][1] - t.in[1][1]);
        });
      case Map::project_step:
        return each_of_few([&](std::uint32_t i) {
          const std::uint32_t column = place_of(t.a, t.b, i).output;
          const double factor = t.scratch[std::uint64_t{ProjectKernel::sums} * column];
          return static_cast<float>(t.in[0][i] + factor * t.in[2][i]);
        });
    }
  }

  /// Word i has the fields of numbers 2 i and 2 i + 1.
  template <class Field>
  STARLING_DEVICE static void to_halves(const Block& block, const TransformTask& t,
                                        std::uint32_t begin, std::uint32_t end,
                                        const Field& field) {
    const float* v = t.in[0];
    const auto word = [&](float lower, float upper) {
      return float_of(field(lower) | field(upper) << 16);
    };
    // A word that has but one field is the last one.
    if (reinterpret_cast<std::uintptr_t>(v) % sizeof(Pair) == 0 && 2 * end <= t.size[0]) {
      fill<8>(block, t, begin, end, [&](std::uint32_t i) {
        const Pair pair = *reinterpret_cast<const Pair*>(v + 2 * i);
        return word(pair.x, pair.y);
      });
    } else {
      fill<1>(block, t, begin, end, [&](std::uint32_t i) {
        return word(v[2 * i], 2 * i + 1 < t.size[0] ? v[2 * i + 1] : 0.0F);
      });
    }
  }

  /// a levels, b bucket, c bits of a field.
  STARLING_DEVICE static float from_levels(const TransformTask& t, std::uint32_t i) {
    const std::uint32_t buckets = (t.out_size - 1) / t.b + 1;
    const std::uint32_t field = field_of(t.in[0] + buckets, i, t.c);
    const double level = field >> 1;
    const double most = t.a, share = quotient_of(level, most, 1 / most);
    const double size = static_cast<double>(t.in[0][i / t.b]) * share;
    return static_cast<float>(t.f[0] * ((field & 1) != 0 ? -size : size));
  }

  /// a bucket.
  STARLING_DEVICE static float from_float4(const TransformTask& t, std::uint32_t i) {
    const std::uint32_t buckets = (t.out_size - 1) / t.a + 1;
    const std::uint32_t field = field_of(t.in[0] + buckets, i, 4);
    const std::uint32_t exponent = field & 7;
    const double share = exponent == 0 ? 0.0 : double_of(std::uint64_t{1023 - 7 + exponent} << 52);
    const double size = static_cast<double>(t.in[0][i / t.a]) * share;
    return static_cast<float>((field & 8) != 0 ? -size : size);
  }

  /// a bits of a field.
  STARLING_DEVICE static std::uint32_t integer_of(const TransformTask& t, std::uint32_t i) {
    const auto half = static_cast<float>(std::uint32_t{1} << (t.a - 1));
    const float v = t.in[0][i];
    float inside = isnan(v) ? 0 : v;
    if (inside < -half) inside = -half;
    if (inside > half - 1) inside = half - 1;
    return static_cast<std::uint32_t>(static_cast<int>(inside)) & ((std::uint32_t{1} << t.a) - 1);
  }

  STARLING_DEVICE static double offset_of(const TransformTask& t, std::uint32_t i) {
    return (t.flags & 1) != 0 ? (uniform_word(t.random, i) - 0.5) * t.cell : 0.0;
  }

  STARLING_DEVICE static std::uint32_t color_of(const TransformTask& t, std::uint32_t i) {
    const double number = nearbyint((t.in[0][i] - offset_of(t, i)) / t.cell);
    const double colors = static_cast<double>(std::uint32_t{1} << t.a);
    if (!isfinite(number)) return 0;
    double color = fmod(number, colors);
    if (color < 0) color += colors;
    return static_cast<std::uint32_t>(color);
  }

  STARLING_DEVICE static float from_colors(const TransformTask& t, std::uint32_t i) {
    const double colors = static_cast<double>(std::uint32_t{1} << t.a);
    const double offset = offset_of(t, i);
    const double color = field_of(t.in[0], i, t.a);
    const double around = (t.in[1][i] - offset) / t.cell;
    const double turns = nearbyint((around - color) / colors);
    return static_cast<float>(t.cell * (colors * turns + color) + offset);
  }

  /// a rows, b inner, c columns.
  STARLING_DEVICE static float product(const TransformTask& t, std::uint32_t i) {
    const std::uint64_t r = i / t.c, column = i % t.c;
    const bool is_left_transposed = (t.flags & 1) != 0, is_right_transposed = (t.flags & 2) != 0;
    const float* left = t.in[0] + (is_left_transposed ? r : r * t.b);
    const float* right = t.in[1] + (is_right_transposed ? column * t.b : column);
    const std::uint64_t left_step = is_left_transposed ? t.a : 1;
    const std::uint64_t right_step = is_right_transposed ? 1 : t.c;
    double sum = 0;
    for (std::uint32_t k = 0; k < t.b; ++k)
      sum += static_cast<double>(left[k * left_step]) * right[k * right_step];
    return static_cast<float>(sum);
  }
};

/// out[i] = 0, by blocks as above.
struct ClearKernel {
  static constexpr unsigned threads = 256;
  static constexpr std::uint32_t tile = 16 * threads;
  using Arguments = SharedTasks;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& task = a.task_of(block);
    const std::uint32_t begin = a.share_of(block) * tile;
    if (begin >= task.out_size) return;
    float* out = task.out + begin;
    const std::uint32_t count = lesser(tile, task.out_size - begin);
    const std::uint32_t quads_end = is_even(out) ? count / 4 * 4 : 0;
    block.each([&](unsigned thread) {
      for (std::uint32_t i = 4 * thread; i < quads_end; i += 4 * threads)
        store_quad(out + i, Quad{});
      for (std::uint32_t i = quads_end + thread; i < count; i += threads) out[i] = 0.0F;
    });
  }
};

}  // namespace starling::cuda
