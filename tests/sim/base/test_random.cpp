// Checks the random streams: exact words against an independent computation, independence of
// streams, and the moments of every distribution. Seeds are fixed, so a bound at several standard
// errors either always holds or never; it fails when the distribution is wrong, not by bad luck.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <Random123/philox.h>
#include <doctest/doctest.h>

#include "sim/base/elementary.hpp"
#include "sim/base/normal_block.hpp"
#include "sim/base/random.hpp"

namespace starling::test_random {
namespace {

constexpr int draws = 200'000;

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <class Draw>
Moments moments(Draw draw) {
  std::vector<double> values(draws);
  for (double& value : values) value = draw();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / draws;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, squares / draws};
}

/// Largest distance between the empirical distribution function of `values` and `distribution`
/// (Kolmogorov).
template <class Distribution>
double kolmogorov_distance(std::vector<double> values, Distribution distribution) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = distribution(values[i]);
    largest = std::max({largest, std::abs(exact - static_cast<double>(i) / count),
                        std::abs(exact - static_cast<double>(i + 1) / count)});
  }
  return largest;
}

// The distance times sqrt(count) exceeds 1.95 once in a thousand samples of the right distribution.
const double kolmogorov_bound = 1.95 / std::sqrt(double{draws});

template <class Draw>
std::vector<double> sample(Draw draw) {
  std::vector<double> values(draws);
  for (double& value : values) value = draw();
  return values;
}

TEST_CASE("the installed Philox gives the published known answers") {
  // Random123, kat_vectors: philox4x32 10, counter and key all zero; then the digits of pi.
  const auto zero = r123::Philox4x32()({{0, 0, 0, 0}}, {{0, 0}});
  CHECK(zero[0] == 0x6627e8d5u);
  CHECK(zero[1] == 0xe169c58du);
  CHECK(zero[2] == 0xbc57ac4cu);
  CHECK(zero[3] == 0x9b00dbd8u);
  const auto pi = r123::Philox4x32()({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                                     {{0xa4093822, 0x299f31d0}});
  CHECK(pi[0] == 0xd16cfe09u);
  CHECK(pi[3] == 0x24126ea1u);
}

TEST_CASE("a stream's words are those of an independent implementation") {
  // Computed by a Python program from the definition at the top of random.cpp.
  const std::uint32_t expected[] = {0xc075c892, 0x80a5cf98, 0x4a246a2a, 0xb1d84792,
                                    0x1c317d9a, 0x6def8c9d, 0x7e84a6a2, 0x1bab68b9};
  Random random(1, "batch", 3, 7);
  for (const std::uint32_t word : expected) CHECK(random() == word);

  const std::uint32_t shared[] = {0xe33ca011, 0x92c123f7, 0xd2558c90, 0x0151aaf3};
  Random large_step(42, "", shared_stream, Step{1} << 40);
  for (const std::uint32_t word : shared) CHECK(large_step() == word);
}

TEST_CASE("a stream is repeated by its name and a copy continues where the original was") {
  Random first(5, "noise", 2, 9);
  Random second(5, "noise", 2, 9);
  for (int i = 0; i < 10; ++i) CHECK(first() == second());
  Random copy = first;
  for (int i = 0; i < 10; ++i) CHECK(copy() == first());
}

TEST_CASE("streams of different names share no pair of words") {
  // 3 * 3 * 4 * 4 streams of 16 aligned pairs, 2304 numbers of 64 bits: a coincidence has
  // probability 1e-13.
  std::set<std::uint64_t> seen;
  int count = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    for (const char* purpose : {"", "batch", "batcg"}) {
      for (const NodeId node : {shared_stream, 0, 1, 65536}) {
        for (const Step step : {Step{0}, Step{1}, Step{1} << 32, Step{1} << 62}) {
          Random random(seed, purpose, node, step);
          for (int i = 0; i < 16; ++i, ++count) {
            const std::uint64_t upper = random();
            seen.insert((upper << 32) | random());
          }
        }
      }
    }
  }
  CHECK(static_cast<int>(seen.size()) == count);
}

TEST_CASE("the uniform distribution fills [0, 1) evenly") {
  Random random(1, "uniform");
  const std::vector<double> values = sample([&] { return random.uniform(); });
  CHECK(*std::min_element(values.begin(), values.end()) >= 0);
  CHECK(*std::max_element(values.begin(), values.end()) < 1);
  CHECK(kolmogorov_distance(values, [](double x) { return x; }) < kolmogorov_bound);
  // All 53 bits are used: an odd multiple of 2^-53 is half of all values.
  const auto odd = std::count_if(values.begin(), values.end(),
                                 [](double x) { return std::fmod(x * 0x1p53, 2.0) == 1.0; });
  CHECK(std::abs(static_cast<double>(odd) / draws - 0.5) < 4 * 0.5 / std::sqrt(double{draws}));
}

TEST_CASE("whole numbers below a bound are equally likely") {
  for (const std::uint64_t bound : {1, 2, 3, 7, 10}) {
    CAPTURE(bound);
    Random random(2, "below");
    std::vector<int> counts(bound);
    for (int i = 0; i < draws; ++i) ++counts.at(random.below(bound));
    // A count is binomial with variance below draws / bound.
    const double expected = static_cast<double>(draws) / static_cast<double>(bound);
    for (const int count : counts) CHECK(std::abs(count - expected) < 5 * std::sqrt(expected));
  }
}

TEST_CASE("a bound that does not divide 2^64 leaves no bias") {
  // 2^64 = 4/3 * bound. A plain remainder would send half of the draws to the first third of the
  // range, and a plain product floor(draw * 3 / 4) would send half of them to multiples of 3.
  const std::uint64_t third = std::uint64_t{1} << 62;
  Random random(3, "bias");
  std::array<int, 3> counts{};
  std::array<int, 3> residues{};
  for (int i = 0; i < draws; ++i) {
    const std::uint64_t value = random.below(3 * third);
    ++counts.at(value / third);
    ++residues.at(value % 3);
  }
  for (int i = 0; i < 3; ++i) {
    CHECK(std::abs(counts[i] - draws / 3.0) < 5 * std::sqrt(draws / 3.0));
    CHECK(std::abs(residues[i] - draws / 3.0) < 5 * std::sqrt(draws / 3.0));
  }
}

TEST_CASE("the normal distribution has mean 0, variance 1 and the normal shape") {
  Random random(4, "normal");
  const std::vector<double> values = sample([&] { return random.normal(); });
  const auto distribution = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  CHECK(kolmogorov_distance(values, distribution) < kolmogorov_bound);
  Random again(4, "normal");
  const Moments found = moments([&] { return again.normal(); });
  CHECK(std::abs(found.mean) < 4 / std::sqrt(double{draws}));
  CHECK(std::abs(found.variance - 1) < 4 * std::sqrt(2.0 / draws));
}

TEST_CASE(
    "a block of normal draws has the bits of the draws one by one, and so have their "
    "exponentials") {
  // Early and late steps: the counter's low half, and one that needs the high half, too.
  for (const Step start : {Step{0}, Step{1} << 20, (Step{1} << 32) - 8, Step{3} << 33}) {
    const Random stream(start == 0 ? 7 : 8, "block");
    for (NodeId node = 0; node < 500; ++node) {
      const double scale = 0.1 * (node % 17), shift = 1 - 0.01 * (node % 5);
      const Block block = first_normals(stream, node, start, scale, shift);
      const Block powers = exact_exp(block);
      for (std::size_t i = 0; i < block_lanes; ++i) {
        Random one = stream.at(node, start + static_cast<Step>(i));
        const double expected = std::fma(scale, one.normal(), shift);
        REQUIRE(std::bit_cast<std::uint64_t>(block[i]) == std::bit_cast<std::uint64_t>(expected));
        REQUIRE(powers[i] == exact_exp(expected));
      }
    }
  }
}

TEST_CASE("exponentials of a block are exact_exp's over the range they allow") {
  Random random(9, "exponents");
  for (int i = 0; i < 20'000; ++i) {
    Block x;
    for (double& value : x) value = 1400 * random.uniform() - 700;
    const Block y = exact_exp(x);
    for (std::size_t lane = 0; lane < block_lanes; ++lane) REQUIRE(y[lane] == exact_exp(x[lane]));
  }
}

TEST_CASE("a normal draw takes exactly two uniforms") {
  Random drawn(6, "count");
  Random skipped(6, "count");
  drawn.normal();
  skipped.uniform();
  skipped.uniform();
  CHECK(drawn() == skipped());
}

TEST_CASE("the exponential distribution has mean 1 and the exponential shape") {
  Random random(5, "exponential");
  const std::vector<double> values = sample([&] { return random.exponential(); });
  CHECK(*std::min_element(values.begin(), values.end()) >= 0);
  const auto distribution = [](double x) { return 1 - std::exp(-x); };
  CHECK(kolmogorov_distance(values, distribution) < kolmogorov_bound);
}

TEST_CASE("the gamma distribution has mean and variance equal to its shape, below and above one") {
  for (const double shape : {0.05, 0.3, 0.9, 1.0, 2.5, 20.0, 1000.0}) {
    CAPTURE(shape);
    Random random(6, "gamma");
    const Moments found = moments([&] { return random.gamma(shape); });
    CHECK(std::abs(found.mean - shape) < 5 * std::sqrt(shape / draws));
    // The fourth central moment is 3 shape^2 + 6 shape, so the sample variance has 2 shape^2 + 6
    // shape over draws.
    CHECK(std::abs(found.variance - shape) <
          5 * std::sqrt((2 * shape * shape + 6 * shape) / draws));
  }
}

TEST_CASE("gamma draws of shape 1 are exponential and of shape 1/2 are half a squared normal") {
  Random random(7, "gamma");
  const std::vector<double> one = sample([&] { return random.gamma(1.0); });
  CHECK(kolmogorov_distance(one, [](double x) { return 1 - std::exp(-x); }) < kolmogorov_bound);
  const std::vector<double> half = sample([&] { return random.gamma(0.5); });
  CHECK(kolmogorov_distance(half, [](double x) { return std::erf(std::sqrt(x)); }) <
        kolmogorov_bound);
}

TEST_CASE("a shuffle is a permutation, and all six orders of three items are equally likely") {
  Random random(8, "shuffle");
  std::vector<int> many(100);
  std::iota(many.begin(), many.end(), 0);
  std::vector<int> sorted = many;
  random.shuffle(many);
  CHECK(many != sorted);
  std::sort(many.begin(), many.end());
  CHECK(many == sorted);

  std::array<int, 6> counts{};
  for (int i = 0; i < 60'000; ++i) {
    std::string items = "abc";
    random.shuffle(items);
    const std::array<std::string, 6> orders = {"abc", "acb", "bac", "bca", "cab", "cba"};
    const auto place = std::find(orders.begin(), orders.end(), items) - orders.begin();
    ++counts.at(static_cast<std::size_t>(place));
  }
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 5 * std::sqrt(10'000.0));
}

}  // namespace
}  // namespace starling::test_random
