// Dealing samples to nodes and drawing mini-batches from them.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <doctest/doctest.h>

#include "kernels/data/partition.hpp"
#include "sim/base/error.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/section_of_keys.hpp"

namespace starling::test_partition {
namespace {

using Parts = std::vector<std::vector<std::int32_t>>;

/// `samples` samples without features; sample s has label s mod classes and length 1 + s mod 7.
Dataset make_dataset(std::size_t samples, int classes) {
  Dataset data;
  data.samples = samples;
  data.classes = classes;
  for (std::size_t s = 0; s < samples; ++s) {
    data.y.push_back(static_cast<std::int32_t>(s % static_cast<std::size_t>(classes)));
    data.length.push_back(static_cast<std::int32_t>(1 + s % 7));
  }
  return data;
}

Parts deal(const test::Keys& keys, const Dataset& data, NodeId nodes, std::uint64_t seed = 1) {
  const Section section = test::section_of_keys("workload", keys);
  const PartitionSettings partition_settings = read_partition_settings(section);
  section.finish();
  return partition(section, partition_settings, data, nodes, seed);
}

std::vector<std::string> warnings_of(const Dataset& data) {
  const Section section = test::section_of_keys("workload", {{"dataset", "hdf5"}});
  section.optional<std::string>("dataset", "", "");
  const PartitionSettings settings = read_partition_settings(section);
  section.finish();
  partition(section, settings, data, 1, 1);
  return section.warnings();
}

/// All samples of all parts, sorted.
std::vector<std::int32_t> all_of(const Parts& parts) {
  std::vector<std::int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::int32_t> first_numbers(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::set<std::int32_t> labels_of(const std::vector<std::int32_t>& part, const Dataset& data) {
  std::set<std::int32_t> labels;
  for (const std::int32_t sample : part) labels.insert(data.y[static_cast<std::size_t>(sample)]);
  return labels;
}

/// `count` draws of `batch_size` of one node, one after the other.
std::vector<std::int32_t> draws(const BatchSampler& sampler, NodeId node, Step first, Step count) {
  std::vector<std::int32_t> all, batch(static_cast<std::size_t>(sampler.batch_size()));
  for (Step draw = first; draw < first + count; ++draw) {
    sampler.batch(node, draw, batch);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

}  // namespace

TEST_CASE("every partition deals every sample exactly once and leaves no node without") {
  const Dataset data = make_dataset(103, 10);
  const std::vector<test::Keys> kinds = {{},
                                         {{"partition", "contiguous"}},
                                         {{"partition", "by_label"}},
                                         {{"partition", "by_label"}, {"shards_per_node", "7"}},
                                         {{"partition", "by_length"}},
                                         {{"partition", "dirichlet"}, {"alpha", "100"}},
                                         {{"partition", "dirichlet"}, {"alpha", "0.01"}},
                                         {{"partition", "dirichlet"}, {"alpha", "1e-6"}}};
  for (const auto& keys : kinds) {
    for (const NodeId nodes : {1, 2, 7, 14}) {
      const Parts parts = deal(keys, data, nodes);
      REQUIRE(parts.size() == static_cast<std::size_t>(nodes));
      CHECK(all_of(parts) == first_numbers(103));
      for (const auto& part : parts) CHECK(!part.empty());
    }
  }
}

TEST_CASE("as many nodes as samples get one each, also when proportions would leave some without") {
  const Dataset data = make_dataset(40, 3);
  for (const char* kind : {"iid", "contiguous", "by_length", "dirichlet"}) {
    for (const auto& part : deal({{"partition", kind}}, data, 40)) CHECK(part.size() == 1);
  }
}

TEST_CASE("iid parts differ in size by one at most and depend on the seed") {
  const Dataset data = make_dataset(103, 10);
  const Parts parts = deal({}, data, 10);
  std::map<std::size_t, int> sizes;
  for (const auto& part : parts) ++sizes[part.size()];
  CHECK(sizes == std::map<std::size_t, int>{{10, 7}, {11, 3}});  // 103 = 7 * 10 + 3 * 11
  CHECK(parts == deal({}, data, 10, 1));
  CHECK(parts != deal({}, data, 10, 2));
}

TEST_CASE("by_label gives every node as many labels as shards, where shards fit the labels") {
  // 100 samples, 10 labels of 10 samples, 10 nodes * 2 shards of 5 samples: a shard never straddles
  // two labels.
  const Dataset data = make_dataset(100, 10);
  const Parts parts = deal({{"partition", "by_label"}}, data, 10);
  bool is_mixed = false;
  for (const auto& part : parts) {
    CHECK(part.size() == 10);
    CHECK(labels_of(part, data).size() <= 2);
    is_mixed = is_mixed || labels_of(part, data).size() == 2;
  }
  CHECK(is_mixed);
  for (const auto& part : deal({{"partition", "by_label"}, {"shards_per_node", "1"}}, data, 10)) {
    CHECK(labels_of(part, data).size() == 1);
  }
}

TEST_CASE("how many labels a node has is counted in its samples") {
  const Dataset data = make_dataset(100, 10);
  const Parts parts = deal({{"partition", "dirichlet"}, {"alpha", "0.3"}}, data, 7);
  std::vector<std::int32_t> counted;
  for (const auto& part : parts)
    counted.push_back(static_cast<std::int32_t>(labels_of(part, data).size()));
  CHECK(std::set(counted.begin(), counted.end()).size() > 1);
  CHECK(BatchSampler(parts, 4, "epochs", 1).labels(data) == counted);
  CHECK(BatchSampler(parts, 4, "epochs", 1).labels({.samples = 100}).empty());
}

TEST_CASE("contiguous gives node after node the next samples") {
  // 10 samples on 3 nodes: cuts at 10 / 3 = 3 and 20 / 3 = 6.
  const Parts expected = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8, 9}};
  CHECK(deal({{"partition", "contiguous"}}, make_dataset(10, 2), 3) == expected);
}

TEST_CASE("by_length gives neighbors in length to one node") {
  // 70 samples, 10 of each length 1 .. 7, 7 nodes: each node has one length.
  const Dataset data = make_dataset(70, 2);
  std::set<std::int32_t> lengths;
  for (const auto& part : deal({{"partition", "by_length"}}, data, 7)) {
    const auto length = [&](std::int32_t sample) {
      return data.length[static_cast<std::size_t>(sample)];
    };
    for (const std::int32_t sample : part) CHECK(length(sample) == length(part[0]));
    lengths.insert(length(part[0]));
  }
  CHECK(lengths.size() == 7);
}

TEST_CASE("by_target gives neighbors in target to one node") {
  Dataset data{.samples = 12, .features = 1};
  for (std::size_t s = 0; s < 12; ++s) data.target.push_back(static_cast<float>(s * 5 % 12) - 6.5F);
  const Section section = test::section_of_keys("workload", {{"partition", "by_target"}});
  const PartitionSettings settings = read_target_partition_settings(section);
  section.finish();
  const Parts parts = partition(section, settings, data, 4, 1);
  CHECK(all_of(parts) == first_numbers(12));
  std::set<int> ranges;
  for (const auto& part : parts) {
    CHECK(part.size() == 3);
    const auto range = [&](std::int32_t sample) {
      return static_cast<int>(data.target[static_cast<std::size_t>(sample)] + 6.5F) / 3;
    };
    for (const std::int32_t sample : part) CHECK(range(sample) == range(part[0]));
    ranges.insert(range(part[0]));
  }
  CHECK(ranges == std::set{0, 1, 2, 3});
}

TEST_CASE("Dirichlet proportions have the variance that alpha implies") {
  // The share of a node in one label of very many samples is Beta(alpha, (n - 1) alpha): mean 1/n,
  // variance (1/n)(1 - 1/n) / (n alpha + 1). n = 4, alpha = 0.5: 3/16 / 3 = 0.0625. 500 labels of
  // 200 samples: rounding down shifts a share by less than 1/200, and 2000 shares fix the variance
  // to a few per cent.
  const Dataset data = make_dataset(100'000, 500);
  const Parts parts = deal({{"partition", "dirichlet"}, {"alpha", "0.5"}}, data, 4);
  double squares = 0;
  for (const auto& part : parts) {
    std::vector<double> share(500);
    for (const std::int32_t sample : part)
      share[static_cast<std::size_t>(sample % 500)] += 1.0 / 200;
    for (const double value : share) squares += (value - 0.25) * (value - 0.25);
  }
  CHECK(squares / 2000 == test::relative(0.0625, 0.1));
}

TEST_CASE("a partition that cannot be is an error located in the scenario") {
  Dataset data = make_dataset(10, 2);
  const auto wrong = [&](const test::Keys& keys, NodeId nodes, const char* message) {
    CHECK_THROWS_WITH_AS(deal(keys, data, nodes), message, ScenarioError);
  };
  wrong({}, 11,
        "test.ini:1: workload.partition needs at least one training sample for each of 11 nodes, "
        "found 10 samples");
  wrong({{"partition", "by_label"}}, 6,
        "test.ini:1: workload.shards_per_node needs at least one training sample for each of 6 "
        "nodes times 2 "
        "shards, found 10 samples");
  wrong({{"partition", "dirichlet"}, {"alpha", "0"}}, 2,
        "test.ini:7: workload.alpha must be positive, got 0");
  wrong({{"partition", "dirichlet"}, {"alpha", "1e308"}}, 2,  // the sum of proportions overflows
        "test.ini:7: workload.alpha must be at most 1000000000000, got 1e+308");
  wrong({{"partition", "by_label"}, {"shards_per_node", "0"}}, 2,
        "test.ini:7: workload.shards_per_node must be from 1 to 1000000, got 0");
  wrong({{"alpha", "1"}}, 2,
        "test.ini:7: workload.alpha is not a key here; known keys: partition, sampling");
  data.length.clear();
  wrong({{"partition", "by_length"}}, 2,
        "test.ini:7: workload.partition by_length needs samples with lengths, and this dataset has "
        "none");
}

TEST_CASE("each epoch visits each sample exactly once, in a new order") {
  // Sizes on both sides of 64, where the method changes, of powers of two, and 1.
  for (const std::size_t size : {1u, 2u, 3u, 5u, 63u, 64u, 65u, 100u, 128u, 129u, 1000u}) {
    std::vector<std::int32_t> part = first_numbers(size);
    for (std::int32_t& sample : part) sample += 1000;
    const BatchSampler sampler({part}, 1, "epochs", 1);
    std::vector<std::int32_t> last;
    for (Step epoch = 0; epoch < 3; ++epoch) {
      const auto samples = static_cast<Step>(size);
      std::vector<std::int32_t> order = draws(sampler, 0, epoch * samples, samples);
      if (size > 5) CHECK(order != last);
      last = order;
      std::sort(order.begin(), order.end());
      CHECK(order == part);
    }
  }
}

TEST_CASE("the batch size only cuts the sequence of samples differently") {
  const Parts parts = {first_numbers(7), first_numbers(90)};
  for (const NodeId node : {0, 1}) {
    const auto ones = draws(BatchSampler(parts, 1, "epochs", 3), node, 0, 240);
    CHECK(ones ==
          draws(BatchSampler(parts, 16, "epochs", 3), node, 0, 15));  // batches straddle epochs
    CHECK(ones == draws(BatchSampler(parts, 240, "epochs", 3), node, 0, 1));
  }
}

TEST_CASE("draws are random access, and differ between nodes and seeds") {
  for (const char* sampling : {"epochs", "uniform"}) {
    const Parts parts = {first_numbers(200), first_numbers(200)};
    const BatchSampler sampler(parts, 20, sampling, 9);
    const auto forward = draws(sampler, 1, 0, 40);
    for (Step draw = 39; draw >= 0; --draw) {
      const auto batch = draws(sampler, 1, draw, 1);
      CHECK(std::equal(batch.begin(), batch.end(), forward.begin() + 20 * draw));
    }
    CHECK(forward != draws(sampler, 0, 0, 40));
    CHECK(forward != draws(BatchSampler(parts, 20, sampling, 10), 1, 0, 40));
  }
}

TEST_CASE("all orders of a few samples are equally likely") {
  // 24 orders of 4 samples in 24000 epochs: the sum of (count - 1000)^2 / 1000 is chi-square with
  // 23 degrees of freedom, which exceeds 50 with probability 0.001. Streams are fixed, so this
  // passes always or never.
  const BatchSampler sampler({first_numbers(4)}, 4, "epochs", 1);
  std::map<std::vector<std::int32_t>, int> counts;
  for (Step epoch = 0; epoch < 24000; ++epoch) ++counts[draws(sampler, 0, epoch, 1)];
  REQUIRE(counts.size() == 24);
  double chi_square = 0;
  for (const auto& [order, count] : counts)
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  CHECK(chi_square < 50);
}

TEST_CASE("pairs of samples at two places of a long epoch are equally likely") {
  // 128 * 127 ordered pairs at positions 0 and 64, 40 epochs for each: chi-square with 16255
  // degrees of freedom, standard deviation sqrt(2 * 16255) = 180; the bound is 4 of them above the
  // mean. Two positions half a power of two apart are the pair that too few rounds of mixing betray
  // first.
  constexpr std::int32_t size = 128;
  const BatchSampler sampler({first_numbers(size)}, 1, "epochs", 1);
  std::vector<int> counts(size * size);
  std::int32_t first = 0, second = 0;
  for (Step epoch = 0; epoch < 40 * size * (size - 1); ++epoch) {
    sampler.batch(0, epoch * size, {&first, 1});
    sampler.batch(0, epoch * size + 64, {&second, 1});
    ++counts[static_cast<std::size_t>(first * size + second)];
  }
  double chi_square = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i % (size + 1) == 0) {
      CHECK(counts[i] == 0);  // a sample comes once in an epoch
    } else {
      chi_square += (counts[i] - 40.0) * (counts[i] - 40.0) / 40;
    }
  }
  CHECK(chi_square < 16255 + 4 * 180);
}

TEST_CASE("uniform sampling draws with replacement") {
  // 5 samples, 5000 draws: each 1000 times, standard deviation sqrt(5000 * 0.2 * 0.8) = 28.
  const BatchSampler sampler({first_numbers(5)}, 5, "uniform", 1);
  std::vector<int> counts(5);
  for (const std::int32_t sample : draws(sampler, 0, 0, 1000))
    ++counts[static_cast<std::size_t>(sample)];
  for (const int count : counts) CHECK(std::abs(count - 1000) < 4 * 28);
}

TEST_CASE("a batch costs the lengths of its samples, or their number") {
  Dataset data = make_dataset(50, 2);
  const BatchSampler sampler({first_numbers(50)}, 8, "epochs", 1);
  for (Step draw = 0; draw < 10; ++draw) {
    std::int64_t sum = 0;
    for (const std::int32_t sample : draws(sampler, 0, draw, 1)) sum += 1 + sample % 7;
    CHECK(sampler.cost(0, draw, data) == sum);
  }
  data.length.clear();
  CHECK(sampler.cost(0, 3, data) == 8);
  CHECK(BatchSampler({first_numbers(3), first_numbers(5)}, 8, "epochs", 1).samples() ==
        std::vector<std::int64_t>{3, 5});
}

TEST_CASE("labels that begin at 1, and data of one class, are warned of") {
  CHECK(warnings_of(make_dataset(12, 3)).empty());
  Dataset from_one = make_dataset(12, 2);
  for (std::int32_t& label : from_one.y) ++label;
  from_one.classes = 3;
  CHECK(warnings_of(from_one) ==
        std::vector<std::string>{"test.ini:7: workload.dataset has no training sample of label 0; "
                                 "labels begin at 0"});
  CHECK(warnings_of(make_dataset(12, 1)) ==
        std::vector<std::string>{"test.ini:7: workload.dataset has one class alone, so there is "
                                 "nothing to tell apart"});
}

}  // namespace starling::test_partition
