// The workload without numbers: its sizes.
#include <memory>
#include <numeric>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/kernels/make_workload.hpp"

namespace starling::test_timing {
namespace {

std::unique_ptr<Workload> make(const test::Keys& keys) {
  return test::make_workload("timing", keys, 4);
}

}  // namespace

TEST_CASE("a timing workload has a size and no numbers") {
  const auto workload = make({{"parameters", "1000"}, {"batch_size", "8"}});
  const WorkloadFacts& facts = workload->facts();
  CHECK(!facts.has_numbers);
  CHECK(!facts.has_accuracy);
  CHECK(facts.parameters == 1000);
  CHECK(facts.wire_parameters == 1000);
  CHECK(facts.batch_size == 8);
  CHECK(workload->batch_cost(3, 99) == 8);
}

TEST_CASE("the size is said by model, parameters or bytes of 4 per parameter") {
  CHECK(make({})->facts().parameters == 25'559'081);
  CHECK(make({{"model", "resnet50"}})->facts().parameters == 25'559'081);
  CHECK(make({{"model", "transformer_base"}})->facts().parameters == 61'362'176);
  CHECK(make({{"model", "resnet18_lstm"}})->facts().parameters == 8'476'421);
  CHECK(make({{"model", "inception_lstm"}})->facts().parameters == 34'663'525);
  CHECK(make({{"bytes", "1 MiB"}})->facts().parameters == 262'144);
}

TEST_CASE("a model of more floats than a vector may have stands for itself on the wire") {
  const WorkloadFacts large =
      make({{"parameters", "70000000000"}, {"tensors", "resnet50"}})->facts();
  CHECK(large.wire_parameters == 70'000'000'000);
  CHECK(large.parameters == 70'000'000'000 / 33);
  CHECK(large.tensors.size() == 161);
  CHECK(std::accumulate(large.tensors.begin(), large.tensors.end(), std::size_t{0}) ==
        large.parameters);
  const WorkloadFacts largest_vector = make({{"parameters", "2147483647"}})->facts();
  CHECK(largest_vector.parameters == 2'147'483'647);
}

TEST_CASE("samples of a timing workload are divided as equally as can be") {
  const std::vector<std::int64_t> samples = make({{"samples", "10"}})->facts().samples;
  CHECK(samples == std::vector<std::int64_t>{3, 3, 2, 2});
  const auto imagenet = make({})->facts().samples;
  CHECK(std::accumulate(imagenet.begin(), imagenet.end(), std::int64_t{0}) == 1'281'167);
}

TEST_CASE("tensors with two numbers are matrices, where nothing scales them") {
  const WorkloadFacts facts = make({{"tensors", "100, 20x3, 7, 2 x 1, 1x5"}})->facts();
  CHECK(facts.parameters == 174);
  CHECK(facts.tensors == std::vector<std::size_t>{100, 60, 7, 2, 5});
  REQUIRE(facts.matrices.size() == 2);
  CHECK(facts.matrices[0].offset == 100);
  CHECK(facts.matrices[0].rows == 20);
  CHECK(facts.matrices[0].columns == 3);
  CHECK(facts.matrices[1].offset == 169);
  CHECK(make({{"model", "resnet50"}})->facts().matrices.size() == 54);
  CHECK(make({{"parameters", "1000000"}, {"tensors", "resnet50"}})->facts().matrices.empty());
  for (const std::string wrong : {"3x", "3x4x5", "x", "0x4", "2.5x4", "3 4", "-1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(make({{"tensors", "8, " + wrong}}),
                         doctest::Contains("must be whole numbers of floats, or shapes such as"),
                         ScenarioError);
  }
}

TEST_CASE("a list of tensors says the size of the model if no other key does") {
  const WorkloadFacts facts = make({{"tensors", "100, 20, 3"}})->facts();
  CHECK(facts.parameters == 123);
  CHECK(facts.tensors == std::vector<std::size_t>{100, 20, 3});
  CHECK(facts.description == "a model of 123 parameters, timing only");
  CHECK_THROWS_WITH_AS(
      make({{"tensors", "100, 20, 3"}, {"bytes", "500 B"}}),
      "test.ini:7: workload.tensors must add up to the model's 125 parameters, got 123",
      ScenarioError);
  // An empty list was a model of no parameters, and a division by them.
  CHECK_THROWS_WITH_AS(make({{"tensors", ""}}),
                       "test.ini:7: workload.tensors must name at least one tensor", ScenarioError);
}

TEST_CASE("wrong sizes are located in the scenario") {
  const auto wrong = [](const test::Keys& keys, const char* message) {
    CHECK_THROWS_WITH_AS(make(keys), message, ScenarioError);
  };
  wrong({{"parameters", "-1"}},
        "test.ini:7: workload.parameters must be from 0 to 10000000000000, got -1");
  wrong({{"parameters", "1e14"}},
        "test.ini:7: workload.parameters must be from 0 to 10000000000000, got 100000000000000");
  wrong({{"bytes", "6 B"}},
        "test.ini:7: workload.bytes must be a multiple of 4 B, a float's size, up to "
        "40000000000000 B, got 6 B; 8 B is one");
  wrong({{"bytes", "9223372036854775807 B"}},
        "test.ini:7: workload.bytes must be a multiple of 4 B, a float's size, up to "
        "40000000000000 B, got 9223372036854775807 B; 40000000000000 B is one");
  wrong({{"bytes", "8 B"}, {"parameters", "2"}},
        "test.ini:7: workload.bytes must not be given together with parameters");
  wrong({{"samples", "3"}},
        "test.ini:7: workload.samples must be at least the number of nodes, 4, got 3");
  wrong({{"batch_size", "0"}},
        "test.ini:7: workload.batch_size must be from 1 to 1073741824, got 0");
}

}  // namespace starling::test_timing
