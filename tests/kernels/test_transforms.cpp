// Transforms against slow, obvious definitions and against properties that hold exactly.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu_backend.hpp"
#include "kernels/dense/dense.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/floats.hpp"

namespace starling::test_transforms {
using namespace transforms;
using test::random_floats;

namespace {

using Values = std::vector<float>;

Values apply(const Transform& transform, const std::vector<Values>& inputs) {
  std::vector<std::size_t> sizes;
  TransformJob job;
  job.transform = &transform;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    sizes.push_back(inputs[i].size());
    job.inputs[i] = inputs[i];
  }
  Values out(result_size(transform, sizes), std::numeric_limits<float>::quiet_NaN());
  job.out = out;
  CpuBackend().transform(std::span<const TransformJob>(&job, 1));
  return out;
}

double measure(const Measure& what, const std::vector<Values>& inputs) {
  MeasureJob job;
  double out = -1;
  job.measure = &what;
  job.out = &out;
  for (std::size_t i = 0; i < inputs.size(); ++i) job.inputs[i] = inputs[i];
  CpuBackend().measure(std::span<const MeasureJob>(&job, 1));
  return out;
}

double norm(const Values& v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

const Random stream(7, "test");

}  // namespace

TEST_CASE("the largest entries are those a stable sort by magnitude puts last") {
  for (const std::size_t size : {1UL, 5UL, 100UL, 4097UL}) {
    Values v = random_floats(size, size);
    if (size > 10) {  // ties, zeros of both signs, numbers too small to be normal
      v[3] = v[7] = -v[9];
      v[1] = -0.0F;
      v[2] = 1e-41F;
    }
    for (const std::size_t count : {std::size_t{1}, size / 3 + 1, size}) {
      std::vector<std::uint32_t> order(size);
      std::iota(order.begin(), order.end(), 0U);
      std::stable_sort(order.begin(), order.end(), [&v](std::uint32_t a, std::uint32_t b) {
        return std::fabs(v[a]) < std::fabs(v[b]);
      });
      Values expected(size, 0.0F);
      for (std::size_t i = size - count; i < size; ++i) expected[order[i]] = v[order[i]];
      const Values code = apply(KeepLargest{static_cast<std::uint32_t>(count)}, {v});
      CHECK(code.size() == 2 * count);
      CHECK(apply(Scatter{static_cast<std::uint32_t>(size)}, {code}) == expected);
    }
  }
}

TEST_CASE("equal entries: the later ones are kept") {
  const Values code = apply(KeepLargest{2}, {{1, -1, 1, -1}});
  CHECK(std::bit_cast<std::uint32_t>(code[0]) == 2);
  CHECK(std::bit_cast<std::uint32_t>(code[1]) == 3);
  CHECK(apply(Scatter{4}, {code}) == Values{0, 0, 1, -1});
  CHECK(apply(KeepLargest{0}, {{1, 2}}).empty());
}

TEST_CASE(
    "a threshold keeps what reaches it; what was sent is cleared; nonzero entries are counted") {
  const Values v{0.5F, -2, 1, -0.99F, 0};
  const Values kept = apply(KeepAbove{1}, {v});
  CHECK(kept == Values{0, -2, 1, 0, 0});
  CHECK(apply(ClearWhere{}, {v, kept}) == Values{0.5F, 0, 0, -0.99F, 0});
  CHECK(measure(CountNonzero{}, {kept}) == 2);
  CHECK(measure(LargestDifference{}, {v, kept}) == doctest::Approx(0.99));
}

TEST_CASE("positions of a part count from where it lies in the whole") {
  const Values code = apply(KeepLargest{2, 100}, {{1, -3, 0, 2}});
  CHECK(std::bit_cast<std::uint32_t>(code[0]) == 101);
  CHECK(std::bit_cast<std::uint32_t>(code[1]) == 103);
  CHECK(code[2] == -3);
  CHECK(code[3] == 2);
}

TEST_CASE("signs are 1 or -1, and one bit each as whole numbers of one bit") {
  const Values v{0.5F, -2, 0, -0.0F, -1e-40F, 1e-40F};
  const Values signs = apply(Signs{}, {v});
  CHECK(signs == Values{1, -1, 1, 1, -1, 1});
  const Values code = apply(ToIntegers{1}, {signs});
  REQUIRE(code.size() == 1);
  CHECK(std::bit_cast<std::uint32_t>(code[0]) == 0b010010);
  CHECK(apply(Signs{}, {apply(FromIntegers{1, 6}, {code})}) == signs);
}

TEST_CASE(
    "signed positions: 31 bits and a sign, read back with one magnitude or one for each side") {
  const Values v{0.5F, -2, 3, 0, -0.25F};
  CHECK(apply(KeepSide{false}, {v}) == Values{0.5F, 0, 3, 0, 0});
  CHECK(apply(KeepSide{true}, {v}) == Values{0, -2, 0, 0, -0.25F});
  const Values words = apply(SignedPositions{}, {apply(KeepLargest{2}, {v})});
  CHECK(words.size() == 2);
  CHECK(std::bit_cast<std::uint32_t>(words[0]) == (1 << 1 | 1));
  CHECK(std::bit_cast<std::uint32_t>(words[1]) == 2 << 1);
  CHECK(apply(ScatterSigns{5, 0.75F}, {words}) == Values{0, -0.75F, 0.75F, 0, 0});
  CHECK(apply(ScatterSigns{5, 0}, {{7, 4, words[0], words[1]}}) == Values{0, -4, 7, 0, 0});
  CHECK(apply(ScatterSigns{3, 0}, {Values{}}) == Values{0, 0, 0});
  CHECK(measure(LeastMagnitude{}, {{3, -0.5F, 2}}) == 0.5);
}

TEST_CASE("floats of four bits: the nearest power of two below the largest, or zero") {
  // In ratio to 8: 1, 1/2 .. 1/64 and 0. Halfway between 8 and 4 is 6, between 1/8 and 0 is 1/16: the larger.
  const Values v{8, -8, 6, 5.99F, -3, 1, 0.125F, 0.0625F, 0.062F, 0};
  const Values expected{8, -8, 8, 4, -4, 1, 0.125F, 0.125F, 0, 0};
  const Values code = apply(ToFloat4{10}, {v});
  CHECK(code.size() == 1 + 2);
  CHECK(code[0] == 8);
  // Exponents 7 7 7 6 6 4 1 1, signs in the upper bit, the first in the lowest.
  CHECK(std::bit_cast<std::uint32_t>(code[1]) == 0x114e'67f7);
  CHECK(apply(FromFloat4{10, 10}, {code}) == expected);
  // Two buckets, each in ratio to its own.
  CHECK(apply(FromFloat4{2, 4}, {apply(ToFloat4{2}, {{1000, 1, 1, -0.5F}})}) ==
        Values{1000, 0, 1, -0.5F});
  CHECK(apply(FromFloat4{4, 4}, {apply(ToFloat4{4}, {Values(4, 0.0F)})}) == Values(4, 0.0F));
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Values& wild : {Values{infinity, 1}, Values{nan, 1}, Values{1, nan}}) {
    for (const float x : apply(FromFloat4{2, 2}, {apply(ToFloat4{2}, {wild})}))
      CHECK(std::isnan(x));
  }
}

TEST_CASE("a hash sees every bit and every place") {
  const Values v = random_floats(100, 41);
  const float hash = apply(Hash{}, {v})[0];
  CHECK(hash == apply(Hash{}, {v})[0]);
  CHECK(hash == std::floor(hash));
  CHECK((hash >= 0 && hash < 0x1p24F));
  int same = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    Values other = v;
    other[i] = std::nextafter(other[i], 10.0F);
    if (apply(Hash{}, {other})[0] == hash) ++same;
  }
  Values swapped = v;
  std::swap(swapped[3], swapped[70]);
  if (apply(Hash{}, {swapped})[0] == hash) ++same;
  CHECK(same == 0);
}

TEST_CASE("a rotation keeps lengths, spreads one entry over a power of two, and goes back") {
  // 21 = 16 + 4 + 1. 3 at place 2 becomes +-3 / 4 at the first 16 places; at 17, +-3 / 2 at places 16 to 19.
  for (const std::size_t place : {2UL, 17UL, 20UL}) {
    Values v(21);
    v[place] = 3;
    const Values turned = apply(Rotate{stream, false}, {v});
    const std::size_t begin = place < 16 ? 0 : place < 20 ? 16 : 20;
    const std::size_t end = place < 16 ? 16 : place < 20 ? 20 : 21;
    for (std::size_t i = 0; i < 21; ++i) {
      const float expected = i < begin || i >= end ? 0.0F : 3 / std::sqrt(float(end - begin));
      CHECK(std::fabs(turned[i]) == expected);
    }
    CHECK(apply(Rotate{stream, true}, {turned}) == v);
  }
  // Signs are drawn, so two streams differ.
  const Values v = random_floats(1000, 43);
  const Values turned = apply(Rotate{stream, false}, {v});
  CHECK(norm(turned) == doctest::Approx(norm(v)).epsilon(1e-6));
  CHECK(turned != apply(Rotate{Random(8, "test"), false}, {v}));
  const Values back = apply(Rotate{stream, true}, {turned});
  for (std::size_t i = 0; i < v.size(); ++i) CHECK(std::fabs(back[i] - v[i]) < 2e-6);
}

TEST_CASE(
    "random entries: both sides draw the same, each position as likely, scaled to be unbiased") {
  constexpr std::uint32_t size = 20, count = 5;
  Values ones(size, 1.0F);
  Values sum(size, 0.0F);
  constexpr int repetitions = 4000;
  for (int r = 0; r < repetitions; ++r) {
    const Random random(11, "draw", 0, r);
    const Values some = apply(GatherRandom{count, random}, {ones});
    CHECK(some.size() == count);
    const Values back = apply(ScatterRandom{size, 4.0F, random}, {some});
    CHECK(std::accumulate(back.begin(), back.end(), 0.0F) == 20.0F);
    for (std::size_t i = 0; i < size; ++i) sum[i] += back[i];
  }
  // Each entry is 4 with probability 1/4: variance 3, so the mean of 4000 deviates by 0.0274; 5 sigma.
  for (const float s : sum) CHECK(std::abs(s / repetitions - 1) < 5 * 0.0274);
  const Values v = random_floats(size, 3);
  const Values back =
      apply(ScatterRandom{size, 1, stream}, {apply(GatherRandom{count, stream}, {v})});
  for (std::size_t i = 0; i < size; ++i) CHECK((back[i] == 0 || back[i] == v[i]));
}

TEST_CASE("whole numbers are packed, and cut to what their field holds") {
  for (const std::uint32_t bits : {2U, 3U, 5U, 8U, 24U}) {
    const auto half = static_cast<float>(std::uint32_t{1} << (bits - 1));
    const Values v{0, 1, -1, half - 1, -half, 0, -1, 1, 1, 0, -1, 1, 0, 0, 0, -1, -1};
    const auto size = static_cast<std::uint32_t>(v.size());
    const Values code = apply(ToIntegers{bits}, {v});
    CHECK(code.size() == packed_words(v.size(), bits));
    CHECK(apply(FromIntegers{bits, size}, {code}) == v);
    const float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Values wild{half, -half - 1, infinity, -infinity, nan};
    CHECK(apply(FromIntegers{bits, 5}, {apply(ToIntegers{bits}, {wild})}) ==
          Values{half - 1, -half, half - 1, -half, 0});
  }
}

TEST_CASE("ternaries: exact where entries are the scale or nothing, right on average") {
  const Values v{2, 0, -2, 2, -0.0F};
  CHECK(apply(Ternarize{stream}, {v, {2}}) == Values{1, 0, -1, 1, 0});
  CHECK(apply(Ternarize{stream}, {{0, 0}, {0}}) == Values{0, 0});
  constexpr std::size_t count = 40000;
  const Values some = apply(Ternarize{stream}, {Values(count, -0.3F), {1}});
  // Variance 0.21 each: the mean deviates by 0.0023; 5 sigma.
  const double sum = std::accumulate(some.begin(), some.end(), 0.0);
  CHECK(std::abs(sum / count + 0.3) < 5 * 0.0023);
  CHECK(std::ranges::all_of(some, [](float t) { return t == 0 || t == -1; }));
}

TEST_CASE("entries are cut at standard deviations around zero; the largest is found") {
  const Values v{2, 0, -2, 0, 1, 3};  // variance 3
  const auto sigma = static_cast<float>(std::sqrt(3.0));
  CHECK(apply(ClipDeviations{1}, {v}) == Values{sigma, 0, -sigma, 0, 1, sigma});
  CHECK(apply(ClipDeviations{3}, {v}) == v);
  CHECK(apply(ClipDeviations{1}, {{-5, -5}}) == Values{-5, -5});
  CHECK(apply(LargestMagnitude{}, {{1, -3, 2}}) == Values{3});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Values& v : {Values{nan, -3, 2}, Values{1, -3, nan}})
    CHECK(std::isnan(apply(LargestMagnitude{}, {v})[0]));
  CHECK(apply(Larger{}, {{1, -3, 2}, {0, -2, 2}}) == Values{1, -2, 2});
  for (const float larger : apply(Larger{}, {{1, nan}, {nan, 1}})) CHECK(std::isnan(larger));
  CHECK(apply(ScaleBy{0.5F}, {{1, -3}, {4}}) == Values{2, -6});
}

TEST_CASE("half precision: exact for what fits, nearest even otherwise") {
  // 2049 lies between 2048 and 2050 (spacing 2): even mantissa is 2048; 2051 goes to 2052. 65520 is halfway to
  // 2^16: infinity. 2^-24 is the smallest number; half of it goes to zero (even), three quarters up.
  const Values v{1,        -2.5F,    65504,      2049,     2051, 65520,
                 0x1p-24F, 0x1p-25F, 0x1.8p-25F, 0x1p-14F, -0.0F};
  const Values expected{
      1,        -2.5F, 65504,    2048,     2052, std::numeric_limits<float>::infinity(),
      0x1p-24F, 0,     0x1p-24F, 0x1p-14F, 0};
  const Values code = apply(ToHalf{false}, {v});
  CHECK(code.size() == 6);
  CHECK(apply(FromHalf{false, 11}, {code}) == expected);
  CHECK(std::isnan(apply(FromHalf{false, 1},
                         {apply(ToHalf{false}, {{std::numeric_limits<float>::quiet_NaN()}})})[0]));

  // bfloat16 has 8 bits of mantissa with the hidden one: 257 lies between 256 and 258. Its smallest
  // number is 2^-133, 9.2e-41.
  const Values b{1, -3, 257, 259, 3e38F, 1e-40F};
  const Values back = apply(FromHalf{true, 6}, {apply(ToHalf{true}, {b})});
  CHECK(back[0] == 1);
  CHECK(back[1] == -3);
  CHECK(back[2] == 256);
  CHECK(back[3] == 260);
  CHECK(back[4] == doctest::Approx(3e38).epsilon(0.004));
  CHECK(back[5] == 0x1p-133F);

  const Values many = random_floats(1000, 5, 10);
  const Values near = apply(FromHalf{false, 1000}, {apply(ToHalf{false}, {many})});
  for (std::size_t i = 0; i < many.size(); ++i)
    CHECK(std::fabs(near[i] - many[i]) <= std::fabs(many[i]) * 0x1p-11F + 0x1p-25F);
}

TEST_CASE("levels: exact on one-hot vectors, unbiased, never further than one level") {
  for (const std::uint32_t levels : {1U, 4U, 7U, 15U, 255U}) {
    const Values one_hot{0, 0, -3.5F, 0};
    CHECK(apply(FromLevels{levels, 4, 1, 4},
                {apply(ToLevels{levels, 4, false, stream}, {one_hot})}) == one_hot);
  }
  const Values v = random_floats(100, 9);
  std::vector<double> sum(v.size());
  constexpr int repetitions = 3000;
  for (int r = 0; r < repetitions; ++r) {
    const Values code = apply(ToLevels{7, 40, false, Random(5, "levels", 0, r)}, {v});
    CHECK(code.size() == 3 + (100 * 4 + 31) / 32);
    const Values back = apply(FromLevels{7, 40, 1, 100}, {code});
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double step = static_cast<double>(code[i / 40]) / 7;
      CHECK(std::fabs(static_cast<double>(back[i]) - v[i]) <= step * 1.0001);
      sum[i] += back[i];
    }
  }
  // Rounding to one of two levels that lie one step (about 6.3 / 7) apart has a standard deviation of at most half
  // a step; of the mean of 3000, 0.0083. 5 sigma.
  for (std::size_t i = 0; i < v.size(); ++i) CHECK(std::fabs(sum[i] / repetitions - v[i]) < 0.042);
}

TEST_CASE("one level of the largest magnitude keeps ternary vectors") {
  const Values ternary{0.25F, -0.25F, 0, 0.25F, 0};
  CHECK(apply(FromLevels{1, 5, 1, 5}, {apply(ToLevels{1, 5, true, stream}, {ternary})}) == ternary);
  CHECK(apply(FromLevels{1, 3, 1, 3}, {apply(ToLevels{1, 3, true, stream}, {Values(3, 0.0F)})}) ==
        Values(3, 0.0F));
}

TEST_CASE(
    "signs with two values keep the sum, and two-valued vectors; symmetric ones keep the 1-norm") {
  const Values two{3, -1, 3, 3, -1};
  CHECK(apply(FromSigns{false, 5, 5}, {apply(ToSigns{false, 5}, {two})}) == two);
  const Values v = random_floats(1001, 13);
  const Values back = apply(FromSigns{false, 1001, 1001}, {apply(ToSigns{false, 1001}, {v})});
  CHECK(std::accumulate(back.begin(), back.end(), 0.0) ==
        doctest::Approx(std::accumulate(v.begin(), v.end(), 0.0)).epsilon(1e-5));
  // (1 + 2 + 3 + 4) / 4 = 2.5
  CHECK(apply(FromSigns{true, 4, 4}, {apply(ToSigns{true, 4}, {{1, -2, 3, -4}})}) ==
        Values{2.5F, -2.5F, 2.5F, -2.5F});
  CHECK(apply(ToSigns{false, 65}, {Values(65, 1.0F)}).size() == 2 + 3);
  CHECK(apply(FromSigns{false, 2, 2}, {apply(ToSigns{false, 2}, {{5, 7}})}) == Values{6, 6});
}

TEST_CASE("signs of buckets are those of each bucket alone") {
  const Values v = random_floats(103, 14);  // four buckets of 25, one of 3
  for (const bool is_symmetric : {false, true}) {
    const Values code = apply(ToSigns{is_symmetric, 25}, {v});
    CHECK(code.size() == (is_symmetric ? 5 : 10) + 4);
    Values expected;
    for (std::size_t begin = 0; begin < v.size(); begin += 25) {
      const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(25, v.size() - begin));
      const auto first = v.begin() + static_cast<std::ptrdiff_t>(begin);
      const Values alone =
          apply(FromSigns{is_symmetric, size, size},
                {apply(ToSigns{is_symmetric, size}, {Values(first, first + size)})});
      expected.insert(expected.end(), alone.begin(), alone.end());
    }
    CHECK(apply(FromSigns{is_symmetric, 25, 103}, {code}) == expected);
  }
}

TEST_CASE("a lattice point is found from any reference in range, and missed out of it") {
  const double cell = 0.01;
  const std::uint32_t bits = 8;  // right for |v - reference| < 0.01 * 255 / 2 = 1.275
  const Values v = random_floats(500, 17, 100);
  for (const bool is_shifted : {false, true}) {
    const Values code = apply(ToColors{cell, bits, is_shifted, stream}, {v});
    CHECK(code.size() == 125);
    Values near = v;
    for (std::size_t i = 0; i < near.size(); ++i) near[i] += i % 2 == 0 ? 1.27F : -1.27F;
    const Values back = apply(FromColors{cell, bits, is_shifted, stream}, {code, near});
    // Half a cell, and the rounding of floats near 300 (2^-16).
    for (std::size_t i = 0; i < v.size(); ++i) CHECK(std::fabs(back[i] - v[i]) < 0.005 + 3.2e-5);
    Values far = v;
    for (float& x : far) x += 1.30F;
    const Values wrong = apply(FromColors{cell, bits, is_shifted, stream}, {code, far});
    for (std::size_t i = 0; i < v.size(); ++i)
      CHECK(std::fabs(wrong[i] - v[i]) == doctest::Approx(2.56).epsilon(0.01));
  }
}

TEST_CASE("a shifted lattice is unbiased") {
  const Values v{0.3F, -0.21F, 17.77F};
  std::vector<double> sum(3);
  constexpr int repetitions = 4000;
  for (int r = 0; r < repetitions; ++r) {
    const Random random(23, "shift", 0, r);
    const Values back =
        apply(FromColors{1, 6, true, random}, {apply(ToColors{1, 6, true, random}, {v}), v});
    for (std::size_t i = 0; i < 3; ++i) sum[i] += back[i];
  }
  // Error uniform in +- half a cell: sigma 0.29, of the mean 0.0046; 5 sigma.
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::fabs(sum[i] / repetitions - v[i]) < 0.023);
}

TEST_CASE("matrix products, plain and transposed") {
  // A = [1 2 3; 4 5 6], B = [1 0; 2 1; 0 3]: AB = [5 11; 14 23]
  const Values a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, 1, 0, 3}, ab{5, 11, 14, 23};
  const Values a_t{1, 4, 2, 5, 3, 6}, b_t{1, 2, 0, 0, 1, 3};
  CHECK(apply(MatrixProduct{2, 3, 2}, {a, b}) == ab);
  CHECK(apply(MatrixProduct{2, 3, 2, true, false}, {a_t, b}) == ab);
  CHECK(apply(MatrixProduct{2, 3, 2, false, true}, {a, b_t}) == ab);
  CHECK(apply(MatrixProduct{2, 3, 2, true, true}, {a_t, b_t}) == ab);
}

TEST_CASE("orthonormal columns span the same; a dependent one becomes zero") {
  const Values a = random_floats(40, 29);  // 10 x 4
  const Values q = apply(Orthonormalize{10, 4}, {a});
  const Values gram = apply(MatrixProduct{4, 10, 4, true, false}, {q, q});
  for (std::size_t i = 0; i < 16; ++i) CHECK(std::fabs(gram[i] - (i % 5 == 0 ? 1.0 : 0.0)) < 1e-6);
  // Q Q^T A = A
  const Values back =
      apply(MatrixProduct{10, 4, 4}, {q, apply(MatrixProduct{4, 10, 4, true, false}, {q, a})});
  for (std::size_t i = 0; i < 40; ++i) CHECK(back[i] == doctest::Approx(a[i]).epsilon(1e-5));
  const Values dependent =
      apply(Orthonormalize{2, 2}, {{3, 6, 4, 8}});  // second column twice the first
  CHECK(dependent == Values{0.6F, 0, 0.8F, 0});
}

TEST_CASE("weight panels to rows and back") {
  const Values panels = random_floats(3 * 70, 31);
  const Values rows = apply(PanelsToRows{3, 70}, {panels});
  CHECK(rows[1 * 70 + 65] == panels[dense::weight_index(3, 70, 1, 65)]);
  CHECK(apply(RowsToPanels{3, 70}, {rows}) == panels);
  const Values columns = apply(PanelsToRows{3, 70, true}, {panels});
  CHECK(columns[65 * 3 + 1] == panels[dense::weight_index(3, 70, 1, 65)]);
  CHECK(apply(RowsToPanels{3, 70, true}, {columns}) == panels);
}

TEST_CASE("clipping keeps directions and short vectors") {
  const Values v{3, -4};
  CHECK(apply(ClipNorm{10}, {v}) == v);
  const Values clipped = apply(ClipNorm{1}, {v});
  CHECK(clipped[0] == doctest::Approx(0.6));
  CHECK(clipped[1] == doctest::Approx(-0.8));
  CHECK(norm(apply(ClipNorm{0.5F}, {random_floats(999, 37)})) == doctest::Approx(0.5));
}

TEST_CASE(
    "squares are added up with their weights; a direction is divided by their root, by none if it "
    "is 0") {
  CHECK(apply(AddSquare{0.5F, 0.25F}, {{2, 4}, {2, -4}}) == Values{2, 6});
  // 2 * 3 / (sqrt(4 * 9) + 1) = 6 / 7; zero squares and no epsilon: no direction
  const Values d = apply(DivideByRoot{2, 4, 1}, {{3}, {9}});
  CHECK(d[0] == doctest::Approx(6.0 / 7));
  CHECK(apply(DivideByRoot{1, 1, 0}, {{0}, {0}}) == Values{0});
}

TEST_CASE("a step loses what lies along weights that the gradient is at right angles to") {
  // The weights into one unit each, or else all of them, in plain loops.
  const auto expected = [](const ProjectStep& t, const Values& step, const Values& g,
                           const Values& w, std::size_t& views) {
    std::vector<std::vector<std::size_t>> columns(t.columns), whole(1);
    for (std::size_t u = 0; u < t.columns; ++u) {
      for (std::size_t k = 0; k < t.rows; ++k) {
        columns[u].push_back(dense::weight_index(t.rows, t.columns, k, u));
        whole[0].push_back(columns[u].back());
      }
    }
    const auto dot = [](const Values& a, const Values& b, const std::vector<std::size_t>& places) {
      double sum = 0;
      for (const std::size_t i : places) sum += static_cast<double>(a[i]) * b[i];
      return sum;
    };
    const auto length = [&](const Values& a, const std::vector<std::size_t>& places) {
      return std::sqrt(dot(a, a, places)) + t.epsilon;
    };
    Values out(step.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = step[i] + t.decay * w[i];
    views = 2;  // that were not the one
    for (const auto& view : {columns, whole}) {
      const bool is_across = std::ranges::all_of(view, [&](const auto& u) {
        return std::fabs(dot(g, w, u)) / (length(g, u) * length(w, u)) <
               t.delta / std::sqrt(static_cast<double>(u.size()));
      });
      if (!is_across) continue;
      for (const auto& u : view) {
        const double along = dot(step, w, u) / std::pow(length(w, u), 2);
        for (const std::size_t i : u)
          out[i] = static_cast<float>(step[i] - along * w[i] + t.projected_decay * w[i]);
      }
      views = view.size() == columns.size() ? 0 : 1;
      break;
    }
    return out;
  };
  std::size_t seen[3] = {};
  for (const auto& [rows, columns] : {std::pair{1U, 2U}, {7U, 5U}, {16U, 32U}, {45U, 70U}}) {
    for (const double delta : {0.05, 0.8, 3.0}) {
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const std::size_t size = std::size_t{rows} * columns;
        const Values step = random_floats(size, 3 * seed), g = random_floats(size, 3 * seed + 1),
                     w = random_floats(size, 3 * seed + 2);
        const ProjectStep t{.rows = rows,
                            .columns = columns,
                            .delta = static_cast<float>(delta),
                            .epsilon = 1e-8F,
                            .decay = 0.25F,
                            .projected_decay = 0.125F};
        std::size_t views = 0;
        const Values wanted = expected(t, step, g, w, views);
        ++seen[views];
        const Values found = apply(t, {step, g, w});
        for (std::size_t i = 0; i < size; ++i)
          CHECK(std::fabs(found[i] - wanted[i]) <= 1e-6 * (1 + std::fabs(wanted[i])));
      }
    }
  }
  for (const std::size_t count : seen) CHECK(count >= 5);
}

TEST_CASE("no weights and no gradients are at right angles to all") {
  const ProjectStep t{.rows = 2,
                      .columns = 2,
                      .delta = 0.1F,
                      .epsilon = 1e-20F,
                      .decay = 1,
                      .projected_decay = 0.5F};
  const Values step{1, -2, 3, 4}, w{1, 1, 1, 1}, none(4, 0.0F);
  CHECK(apply(t, {step, none, none}) == step);
  CHECK(apply(t, {step, w, none}) == step);
  // Columns (1, 3) and (-2, 4) lose their means 2 and 1, and half of the weights is added.
  CHECK(apply(t, {step, none, w}) == Values{-0.5F, -2.5F, 1.5F, 3.5F});
  // A gradient along one column: not that one alone keeps its step. The whole has a cosine of 1 / sqrt(2).
  CHECK(apply(t, {step, {1, 0, 1, 0}, w}) == Values{2, -1, 4, 5});
  // Along both, against each other: the whole loses its mean 1.5.
  CHECK(apply(t, {step, {1, -1, 1, -1}, w}) == Values{0, -3, 2, 3});
  // A gradient that is not finite is at right angles to nothing.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(apply(t, {step, {nan, 0, 0, 0}, w}) == Values{2, -1, 4, 5});
}

TEST_CASE("means of either side, and shifts by them") {
  CHECK(apply(SideMeans{}, {{1, -2, 3, -6, 0}}) == Values{4.0F / 3, 4});
  CHECK(apply(SideMeans{}, {{-1, -3}}) == Values{0, 2});
  // Upper side + (2 - 1.5), lower side - (1 - 4).
  CHECK(apply(ShiftSides{}, {{1, -2, 2, -6}, {1.5F, 4}, {2, 1}}) == Values{1.5F, 1, 2.5F, -3});
}

}  // namespace starling::test_transforms
