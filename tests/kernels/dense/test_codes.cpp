// The code kernels of every build against slow, obvious definitions, bit for bit.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/dense/dense.hpp"
#include "kernels/transforms.hpp"
#include "sim/base/random.hpp"

namespace starling::test_codes {
using namespace dense;

namespace {

using Words = std::vector<std::uint32_t>;

std::uint32_t bits_of(float v) { return std::bit_cast<std::uint32_t>(v); }

Words bits_of(const std::vector<float>& values) {
  Words words;
  for (const float v : values) words.push_back(bits_of(v));
  return words;
}

/// Normal numbers of many sizes, and among them what is not: NaN, infinity, zeros, numbers too small to be normal.
std::vector<float> odd_values(std::size_t size) {
  Random random(size, "values");
  std::vector<float> values(size);
  for (float& v : values)
    v = static_cast<float>(random.normal() * std::exp2(40 * random.uniform() - 30));
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const float odd[] = {nan,   -nan,     inf,     -inf,    0.0F,    -0.0F,    1e-41F,   -3e-42F,
                       1e30F, -3.4e38F, 65504.F, 65520.F, 6.1e-5F, 3.05e-5F, 2.98e-8F, 1.0F};
  for (std::size_t i = 0; i < std::size(odd) && 3 * i < size; ++i) values[3 * i] = odd[i];
  return values;
}

Words random_words(std::size_t count) {
  Random random(count, "words");
  Words words(count);
  for (std::uint32_t& word : words) word = random();
  return words;
}

const std::size_t sizes[] = {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 512, 517};

template <class Check>
void for_builds_and_sizes(const Check& check) {
  for (const Kernels* build : runnable_kernels()) {
    for (const std::size_t size : sizes) {
      CAPTURE(build->name);
      CAPTURE(size);
      check(build->codes, size);
    }
  }
}

}  // namespace

TEST_CASE("words of a stream are the same many at a time") {
  for (const Kernels* build : runnable_kernels()) {
    for (const std::size_t blocks : {0UL, 1UL, 3UL, 8UL, 31UL, 64UL, 65UL}) {
      Random random(3, "words", 5, (std::int64_t{9} << 32) + 2);
      const Random::State state = random.state();
      Words words(4 * blocks), expected(4 * blocks);
      build->codes.random_words({state.key[0], state.key[1]}, state.counter[0],
                                {state.counter[1], state.counter[2], state.counter[3]}, blocks,
                                words.data());
      for (std::uint32_t& word : expected) word = random();
      CAPTURE(build->name);
      CHECK(words == expected);
    }
  }
  Random random(3, "words"), same = random;
  random();  // a stream may have begun
  same();
  transforms::RandomWords many(same);
  for (const std::size_t count : {1UL, 1UL, 5UL, 0UL, 512UL, 3UL, 2UL}) {
    Words words(count), expected(count);
    many.take(words);
    for (std::uint32_t& word : expected) word = random();
    CHECK(words == expected);
  }
}

TEST_CASE("fields are packed bit by bit, and come back") {
  for_builds_and_sizes([](const CodeKernels& codes, std::size_t size) {
    for (const std::uint32_t bits : {1U, 2U, 3U, 4U, 5U, 8U, 11U, 16U, 17U, 24U, 31U, 32U}) {
      Words fields = random_words(size);
      for (std::uint32_t& field : fields) field >>= 32 - bits;
      Words expected((size * bits + 31) / 32);
      for (std::size_t i = 0; i < size * bits; ++i)
        expected[i / 32] |= (fields[i / bits] >> (i % bits) & 1) << (i % 32);
      std::vector<float> words(expected.size() + 1, 7.0F);
      codes.pack(fields.data(), size, bits, words.data());
      CAPTURE(bits);
      CHECK(words.back() == 7.0F);
      words.pop_back();
      CHECK(bits_of(words) == expected);
      Words back(size);
      codes.unpack(words.data(), size, bits, back.data());
      CHECK(back == fields);
    }
  });
}

TEST_CASE("levels, floats of four bits and ternaries of any numbers") {
  for_builds_and_sizes([](const CodeKernels& codes, std::size_t size) {
    const std::vector<float> v = odd_values(size);
    const Words random = random_words(size);
    for (const float whole : {0.0F, 1.0F, 2e5F, 3.4e38F, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
      Words levels(size), floats(size), expected_levels(size), expected_floats(size);
      std::vector<float> ternary(size), expected_ternary(size);
      codes.to_levels(v.data(), random.data(), size, whole, 7, levels.data());
      codes.to_float4(v.data(), size, whole, floats.data());
      codes.ternarize(v.data(), random.data(), size, whole, ternary.data());
      for (std::size_t i = 0; i < size; ++i) {
        const double u = random[i] * 0x1p-32;
        const double share = whole > 0 ? std::fabs(double{v[i]}) / double{whole} : 0;
        const double level = std::min(std::floor(7 * share + u), 7.0);
        const std::uint32_t sign = std::signbit(v[i]) ? 1 : 0;
        expected_levels[i] = (level >= 0 ? static_cast<std::uint32_t>(level) : 0) << 1 | sign;
        std::uint32_t exponent = 7;
        for (double power = 1; exponent > 1 && share < 0.75 * power; power /= 2) --exponent;
        expected_floats[i] = (share >= 0x1p-7 ? exponent : 0) | sign << 3;
        const bool is_kept = std::fabs(double{v[i]}) / double{whole} > u;
        expected_ternary[i] = !is_kept ? 0.0F : v[i] < 0 ? -1.0F : 1.0F;
      }
      CHECK(levels == expected_levels);
      CHECK(floats == expected_floats);
      CHECK(bits_of(ternary) == bits_of(expected_ternary));
    }
  });
}

TEST_CASE("colors of a lattice are numbers of cells modulo a power of two") {
  for_builds_and_sizes([](const CodeKernels& codes, std::size_t size) {
    const std::vector<float> v = odd_values(size);
    const Words random = random_words(size);
    for (const std::uint32_t bits : {1U, 4U, 8U, 24U}) {
      for (const bool is_shifted : {false, true}) {
        constexpr double cell = 0.0371;
        const double colors = std::exp2(bits);
        Words color(size), expected(size);
        codes.to_colors(v.data(), is_shifted ? random.data() : nullptr, size, cell, bits,
                        color.data());
        std::vector<float> near = v, points(size), expected_points(size);
        for (float& x : near) x = std::isfinite(x) ? x + 0.3F * static_cast<float>(cell) : 1.0F;
        for (std::size_t i = 0; i < size; ++i) {
          const double offset = is_shifted ? (random[i] * 0x1p-32 - 0.5) * cell : 0.0;
          const double number = std::nearbyint((v[i] - offset) / cell);
          double rest = std::isfinite(number) ? std::fmod(number, colors) : 0;
          if (rest < 0) rest += colors;
          expected[i] = static_cast<std::uint32_t>(rest);
          const double turns = std::nearbyint(((near[i] - offset) / cell - rest) / colors);
          expected_points[i] = static_cast<float>(cell * (colors * turns + rest) + offset);
        }
        codes.from_colors(color.data(), near.data(), is_shifted ? random.data() : nullptr, size,
                          cell, bits, points.data());
        CHECK(color == expected);
        CHECK(bits_of(points) == bits_of(expected_points));
      }
    }
  });
}

TEST_CASE("running squares, and directions by them, are the same in every build") {
  for (const Kernels* build : runnable_kernels()) {
    for (const std::size_t size : sizes) {
      const std::vector<float> g = odd_values(size);
      std::vector<float> squares(size), expected_squares(size), steps(size), expected_steps(size);
      for (std::size_t i = 0; i < size; ++i) squares[i] = std::fabs(g[size - 1 - i]);
      const std::vector<float> before = squares;
      for (const float epsilon : {0.0F, 1e-8F}) {
        build->add_square(before.data(), g.data(), size, 0.999F, 0.001F, squares.data());
        build->divide_by_root(g.data(), squares.data(), size, 0.1F, 1.2F, epsilon, steps.data());
        for (std::size_t i = 0; i < size; ++i) {
          const double square = double{g[i]} * double{g[i]};
          expected_squares[i] =
              static_cast<float>(double{0.999F} * double{before[i]} + double{0.001F} * square);
          const double root = std::sqrt(double{1.2F} * double{squares[i]}) + double{epsilon};
          expected_steps[i] =
              root > 0 ? static_cast<float>(double{0.1F} * double{g[i]} / root) : 0.0F;
        }
        // Which NaN it is may differ.
        for (std::size_t i = 0; i < size; ++i) {
          CHECK((squares[i] == expected_squares[i] || std::isnan(expected_squares[i])));
          CHECK(std::isnan(squares[i]) == std::isnan(expected_squares[i]));
          CHECK((steps[i] == expected_steps[i] || std::isnan(expected_steps[i])));
          CHECK(std::isnan(steps[i]) == std::isnan(expected_steps[i]));
        }
      }
    }
  }
}

TEST_CASE("every build encodes, decodes, sums and rotates as the plain one") {
  const CodeKernels& plain = kernels_v1().codes;
  for_builds_and_sizes([&](const CodeKernels& codes, std::size_t size) {
    const std::vector<float> v = odd_values(size);
    const auto same_words = [&](auto kernel) {
      Words a(size), b(size);
      (codes.*kernel)(v.data(), size, a.data());
      (plain.*kernel)(v.data(), size, b.data());
      CHECK(a == b);
    };
    same_words(&CodeKernels::to_half);
    same_words(&CodeKernels::to_bfloat);
    same_words(&CodeKernels::to_signs);
    const auto same_floats = [&](std::uint32_t below, const auto& decode) {
      Words fields = random_words(size);
      for (std::uint32_t& field : fields) field %= below;
      std::vector<float> a(size), b(size);
      decode(codes, fields.data(), a.data());
      decode(plain, fields.data(), b.data());
      CHECK(bits_of(a) == bits_of(b));
    };
    same_floats(1U << 16, [&](const CodeKernels& k, const std::uint32_t* fields, float* out) {
      k.from_half(fields, size, out);
    });
    same_floats(1U << 16, [&](const CodeKernels& k, const std::uint32_t* fields, float* out) {
      k.from_bfloat(fields, size, out);
    });
    same_floats(16, [&](const CodeKernels& k, const std::uint32_t* fields, float* out) {
      k.from_levels(fields, size, 0.37F, 7, 1.3F, out);
    });
    same_floats(16, [&](const CodeKernels& k, const std::uint32_t* fields, float* out) {
      k.from_float4(fields, size, 0.37F, out);
    });
    same_floats(2, [&](const CodeKernels& k, const std::uint32_t* fields, float* out) {
      k.from_signs(fields, size, 0.37F, -1.3F, out);
    });
    CHECK(codes.largest_magnitude(v.data(), size) == plain.largest_magnitude(v.data(), size));

    std::vector<float> finite = v;
    for (float& x : finite) x = std::isfinite(x) ? x : -2.0F;
    for (const auto kernel : {&CodeKernels::sign_sums, &CodeKernels::side_sums}) {
      const SideSums a = (codes.*kernel)(finite.data(), size);
      const bool is_magnitude = kernel == &CodeKernels::side_sums;
      double upper[16] = {}, lower[16] = {};
      std::size_t count = 0;
      for (std::size_t i = 0; i < size; ++i) {
        const double x = finite[i];
        (x < 0 ? lower : upper)[i % 16] += x < 0 && is_magnitude ? -x : x;
        count += x < 0 ? 1 : 0;
      }
      for (std::size_t half = 8; half > 0; half /= 2) {
        for (std::size_t l = 0; l < half; ++l) {
          upper[l] += upper[l + half];
          lower[l] += lower[l + half];
        }
      }
      CHECK(a.upper == upper[0]);
      CHECK(a.lower == lower[0]);
      CHECK(a.lower_count == count);
    }

    if (!std::has_single_bit(size)) return;
    std::vector<double> a(finite.begin(), finite.end()), b = a;
    codes.hadamard(a.data(), size);
    for (std::size_t half = 1; half < size; half *= 2) {
      std::vector<double> next(size);
      for (std::size_t i = 0; i < size; ++i)
        next[i] = (i & half) != 0 ? b[i - half] - b[i] : b[i] + b[i + half];
      b = next;
    }
    CHECK(a == b);
  });
}

}  // namespace starling::test_codes
