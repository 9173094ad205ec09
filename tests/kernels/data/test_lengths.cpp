// Tokens of mini-batches without sentences: padded, packed, in buckets.
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "kernels/data/lengths.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/make_workload.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_lengths {
namespace {

LengthSampler sampler(const std::string& text, const std::string& batching, std::int64_t batch_size,
                      std::int64_t buckets = 1, std::int64_t max_tokens = 0,
                      const std::string& pair = "sum") {
  const test::TemporaryFile file(text);
  return LengthSampler({.path = file.path(),
                        .pair = pair,
                        .batching = batching,
                        .batch_size = batch_size,
                        .buckets = buckets,
                        .max_tokens = max_tokens},
                       1);
}

double mean_cost(const LengthSampler& lengths) {
  double sum = 0;
  for (NodeId i = 0; i < 10; ++i) {
    for (Step k = 0; k < 2'000; ++k) sum += static_cast<double>(lengths.cost(i, k));
  }
  return sum / 20'000;
}

std::unique_ptr<Workload> make(const test::Keys& keys) {
  return test::make_workload("timing", keys, 4);
}

}  // namespace

TEST_CASE("a padded batch costs its longest sample times its size, a packed one the sum") {
  // Lengths 1 and 9, as likely. Padded, 3 samples: 3 with chance 1/8, else 27: mean 24, deviation
  // 7.9. Packed: 3 * 5 = 15 on the mean, deviation 4 * sqrt(3) = 6.9. 20,000 batches.
  const LengthSampler padded = sampler("length\n1\n9\n", "padded", 3);
  CHECK(std::abs(mean_cost(padded) - 24) < 4 * 7.9 / 141);
  const LengthSampler packed = sampler("1\n9\n", "packed", 3);
  CHECK(std::abs(mean_cost(packed) - 15) < 4 * 6.9 / 141);
  std::set<std::int64_t> seen;
  for (Step k = 0; k < 200; ++k) seen.insert(packed.cost(0, k));
  CHECK(seen == std::set<std::int64_t>{3, 11, 19, 27});
}

TEST_CASE("a bucket's batch is capped by max_tokens and as long as its longest sample") {
  // Sorted 1 2 | 3 4 | 10 20, 8 samples or 32 tokens: 8, 8 and 32 / 20 = 1 of them. The cost is 8 or
  // 16 (any of 8 draws is 2: 255/256), 24 or 32, 10 or 20.
  const LengthSampler lengths = sampler("20\n1\n3\n2\n10\n4\n", "bucket", 8, 3, 32);
  std::map<std::int64_t, int> seen;
  for (NodeId i = 0; i < 10; ++i) {
    for (Step k = 0; k < 3'000; ++k) ++seen[lengths.cost(i, k)];
  }
  std::set<std::int64_t> costs;
  for (const auto& [cost, count] : seen) costs.insert(cost);
  CHECK(costs == std::set<std::int64_t>{8, 16, 24, 32, 10, 20});
  // 30,000 batches, a third of each bucket; standard deviation of a count at most 82.
  CHECK(std::abs(seen[16] - 10'000 * 255 / 256) < 4 * 82);
  CHECK(std::abs(seen[32] - 10'000 * 255 / 256) < 4 * 82);
  CHECK(std::abs(seen[10] - 5'000) < 4 * 65);
  CHECK(std::abs(seen[20] - 5'000) < 4 * 65);
  CHECK(lengths.mean_batch_size() == doctest::Approx(17 / 3.0));
}

TEST_CASE("a batch depends on seed, node and draw alone") {
  const LengthSampler lengths = sampler("5\n6\n7\n8\n9\n11\n", "packed", 50);
  const LengthSampler again = sampler("5\n6\n7\n8\n9\n11\n", "packed", 50);
  int differs = 0;
  for (Step k = 99; k >= 0; --k) {
    CHECK(lengths.cost(3, k) == again.cost(3, k));
    differs += lengths.cost(3, k) != lengths.cost(2, k);
  }
  CHECK(differs > 80);
}

TEST_CASE("two numbers of a line make one length") {
  const std::map<std::string, std::int64_t> expected = {
      {"sum", 10}, {"longest", 7}, {"first", 3}, {"second", 7}};
  for (const auto& entry : expected) {
    CAPTURE(entry.first);
    const auto& [pair, length] = entry;
    CHECK(sampler("en,de\n3,7\n", "packed", 1, 1, 0, pair).cost(0, 0) == length);
  }
}

TEST_CASE("a timing workload counts tokens of the lengths that are shipped") {
  // 2,900 pairs of 6 to 41 words, 19.17 on the mean.
  const auto workload = make({{"batching", "packed"}, {"batch_size", "100"}});
  const WorkloadFacts& facts = workload->facts();
  CHECK(facts.cost_unit == "token");
  CHECK(facts.batch_size == 100);
  CHECK(facts.samples == std::vector<std::int64_t>{725, 725, 725, 725});
  double sum = 0;
  for (Step k = 0; k < 1'000; ++k) sum += static_cast<double>(workload->batch_cost(1, k));
  CHECK(sum / 100'000 == doctest::Approx(19.17).epsilon(0.005));
  CHECK(make({})->facts().cost_unit == "sample");
  // 10 buckets: 8,192 tokens are more than 256 of the shorter pairs and fewer than 256 of the longest.
  const auto capped = make({{"batching", "bucket"}, {"batch_size", "256"}});
  CHECK(capped->facts().batch_size < 256);
  CHECK(capped->facts().batch_size > 200);
  // Of the shipped pairs, 8192 / longest of a bucket and at most 256, over 10 buckets.
  CHECK(capped->facts().batch_size == doctest::Approx(250.3));
  for (Step k = 0; k < 1'000; ++k) CHECK(capped->batch_cost(0, k) <= 8192);
}

TEST_CASE("published lengths of videos go by their name") {
  // Li et al., PPoPP 2020, section 2.1: 29 to 1,776 frames, 187 on the mean, with a standard deviation of 97.
  const auto workload = make({{"batching", "packed"}, {"lengths", "ucf101"}, {"batch_size", "1"}});
  CHECK(workload->facts().samples[0] == (9'537 + 3) / 4);
  double sum = 0;
  double squares = 0;
  constexpr Step draws = 40'000;
  for (Step k = 0; k < draws; ++k) {
    const auto frames = static_cast<double>(workload->batch_cost(0, k));
    CHECK(frames >= 29);
    CHECK(frames <= 1776);
    sum += frames;
    squares += frames * frames;
  }
  const double mean = sum / draws;
  CHECK(mean == doctest::Approx(187).epsilon(0.015));
  CHECK(std::sqrt(squares / draws - mean * mean) == doctest::Approx(97).epsilon(0.03));
}

TEST_CASE("wrong lengths are errors that say where") {
  const auto expect = [](const std::string& text, const std::string& message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(sampler(text, "packed", 1), doctest::Contains(message.c_str()), Error);
  };
  expect("", ": expected at least one length, found none");
  expect("3\n0\n", ":2: expected whole numbers from 1 to 16777216, got \"0\"");
  expect("3\n2.5\n", ":2: expected whole numbers");
  expect("1,2,3\n", ":1: expected the length of a sample, or of both halves of a pair");
  CHECK_THROWS_WITH_AS(sampler("1\n2\n", "bucket", 1, 3, 10),
                       doctest::Contains("one sample for each of 3 buckets, found 2"), Error);
  const auto refuse = [](const test::Keys& keys, const char* message) {
    CHECK_THROWS_WITH_AS(make(keys), message, ScenarioError);
  };
  refuse({{"batching", "bucket"}, {"buckets", "0"}},
         "test.ini:7: workload.buckets must be from 1 to 1000000, got 0");
  refuse({{"batching", "bucket"}, {"max_tokens", "0"}},
         "test.ini:7: workload.max_tokens must be positive, got 0");
  CHECK_THROWS_WITH_AS(
      make({{"batching", "packed"}, {"lengths", "/nowhere/x.csv"}}),
      doctest::Contains("test.ini:7: workload.lengths /nowhere/x.csv: cannot open"), ScenarioError);
  CHECK_THROWS_WITH_AS(make({{"lengths", "x.csv"}}),
                       doctest::Contains("workload.lengths is not a key here"), ScenarioError);
}

}  // namespace starling::test_lengths
