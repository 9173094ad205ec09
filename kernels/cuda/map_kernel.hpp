// The transforms of which every float of the result stands alone. Formulas: sim/node/transform.hpp; the order of what
// little arithmetic there is: kernels/transform_*.cpp.
#pragma once

#include "kernels/cuda/half.hpp"
#include "kernels/cuda/panels.hpp"
#include "kernels/cuda/transform_task.hpp"

namespace starling::cuda {

/// Block b does floats (b / tasks) * tile .. of task b mod tasks.
struct MapKernel {
  static constexpr unsigned threads = 256;
  static constexpr std::uint32_t tile = 8 * threads;
  struct Arguments {
    const TransformTask* tasks;
    std::uint32_t task_count;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const TransformTask& task = a.tasks[block.index % a.task_count];
    const std::uint32_t begin = block.index / a.task_count * tile;
    if (begin >= task.out_size) return;
    block.each([&](unsigned thread) {
      const std::uint32_t end = lesser(begin + tile, task.out_size);
      for (std::uint32_t i = begin + thread; i < end; i += threads) task.out[i] = value(task, i);
    });
  }

 private:
  STARLING_DEVICE static float value(const TransformTask& t, std::uint32_t i) {
    switch (static_cast<Map>(t.kind)) {
      case Map::keep_above:
        return fabs(t.in[0][i]) >= t.f[0] ? t.in[0][i] : 0.0F;
      case Map::keep_side:
        return ((t.flags & 1) != 0 ? t.in[0][i] < 0 : t.in[0][i] > 0) ? t.in[0][i] : 0.0F;
      case Map::signed_positions:
        return float_of(bits_of(t.in[0][i]) << 1 | bits_of(t.in[0][t.out_size + i]) >> 31);
      case Map::clear_where:
        return t.in[1][i] != 0.0F ? 0.0F : t.in[0][i];
      case Map::gather:
        return t.in[0][t.positions[i]];
      case Map::to_half:
        return packed_word(i, t.size[0], 16, [&](std::uint32_t k) {
          return (t.flags & 1) != 0 ? to_bfloat(t.in[0][k]) : to_half(t.in[0][k]);
        });
      case Map::from_half: {
        const std::uint32_t field = field_of(t.in[0], i, 16);
        return (t.flags & 1) != 0 ? from_bfloat(field) : from_half(field);
      }
      case Map::from_levels:
        return from_levels(t, i);
      case Map::ternarize: {
        const float v = t.in[0][i];
        const bool is_kept = fabs(v) / double{t.in[1][0]} > uniform_word(t.random, i);
        return !is_kept ? 0.0F : v < 0 ? -1.0F : 1.0F;
      }
      case Map::to_integers:
        return packed_word(i, t.size[0], t.a, [&](std::uint32_t k) { return integer_of(t, k); });
      case Map::from_integers: {
        const std::uint32_t sign = std::uint32_t{1} << (t.a - 1);
        const std::uint32_t field = field_of(t.in[0], i, t.a);
        return static_cast<float>(static_cast<int>(field ^ sign) - static_cast<int>(sign));
      }
      case Map::from_signs: {
        const bool is_symmetric = (t.flags & 1) != 0;
        const std::uint32_t values = is_symmetric ? 1 : 2, k = i / t.a;
        const float positive = t.in[0][values * k];
        const float negative = is_symmetric ? -positive : t.in[0][2 * k + 1];
        const std::uint32_t buckets = (t.out_size - 1) / t.a + 1;
        return field_of(t.in[0] + values * buckets, i, 1) != 0 ? negative : positive;
      }
      case Map::from_float4:
        return from_float4(t, i);
      case Map::to_colors:
        return packed_word(i, t.size[0], t.a, [&](std::uint32_t k) { return color_of(t, k); });
      case Map::from_colors:
        return from_colors(t, i);
      case Map::matrix_product:
        return product(t, i);
      case Map::panels_to_rows:
        return (t.flags & 1) != 0 ? t.in[0][weight_at(t.a, t.b, i % t.a, i / t.a)]
                                  : t.in[0][weight_at(t.a, t.b, i / t.b, i % t.b)];
      case Map::rows_to_panels: {
        const Place place = place_of(t.a, t.b, i);
        return t.in[0][(t.flags & 1) != 0 ? std::uint64_t{place.output} * t.a + place.input
                                          : std::uint64_t{place.input} * t.b + place.output];
      }
      case Map::scale_by: {
        const float factor = t.f[0] * t.in[1][0];
        return factor * t.in[0][i];
      }
      case Map::larger: {
        const float a = t.in[0][i], b = t.in[1][i];
        return a < b || isnan(b) ? b : a;
      }
      case Map::add_square: {
        const double square = static_cast<double>(t.in[1][i]) * t.in[1][i];
        return static_cast<float>(double{t.f[0]} * t.in[0][i] + double{t.f[1]} * square);
      }
      case Map::divide_by_root: {
        const double root = sqrt(double{t.f[1]} * t.in[1][i]) + t.f[2];
        return root > 0 ? static_cast<float>(double{t.f[0]} * t.in[0][i] / root) : 0.0F;
      }
      case Map::shift_sides: {
        const float g = t.in[0][i];
        return g >= 0 ? g + (t.in[2][0] - t.in[1][0]) : g - (t.in[2][1] - t.in[1][1]);
      }
    }
    return 0.0F;
  }

  /// a levels, b bucket, c bits of a field.
  STARLING_DEVICE static float from_levels(const TransformTask& t, std::uint32_t i) {
    const std::uint32_t buckets = (t.out_size - 1) / t.b + 1;
    const std::uint32_t field = field_of(t.in[0] + buckets, i, t.c);
    const double level = field >> 1;
    const double size = static_cast<double>(t.in[0][i / t.b]) * (level / t.a);
    return static_cast<float>(t.f[0] * ((field & 1) != 0 ? -size : size));
  }

  /// a bucket.
  STARLING_DEVICE static float from_float4(const TransformTask& t, std::uint32_t i) {
    const std::uint32_t buckets = (t.out_size - 1) / t.a + 1;
    const std::uint32_t field = field_of(t.in[0] + buckets, i, 4);
    const std::uint32_t exponent = field & 7;
    const double share = exponent == 0 ? 0.0 : 1.0 / static_cast<double>(128U >> exponent);
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

}  // namespace starling::cuda
