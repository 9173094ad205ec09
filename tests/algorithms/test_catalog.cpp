// Conformance: every algorithm of the catalog, before its author writes a line of test.

#include <algorithm>
#include <cmath>
#include <string_view>

#include <doctest/doctest.h>

#include "algorithms/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

using namespace starling;

namespace {

/// Whether the algorithm has a key `period`: asked for without building it.
bool has_period(const algorithms::AlgorithmEntry& entry) {
  const Topology alone(1, {{}}, {{1.0}});
  const Section section = Section::probe("algorithm");
  try {
    entry.make(section, {.nodes = 1, .steps = 1, .topology = alone});
  } catch (const ProbeFinished&) {
  }
  return std::ranges::any_of(section.uses(), [](const KeyUse& use) { return use.key == "period"; });
}

/// The [algorithm] section of `name` with the keys it requires; periods so short that the runs below have many.
std::string section_of(std::string_view name) {
  std::string text = "kind = " + std::string(name) + "\nlearning_rate = 0.05";
  for (const auto& entry : algorithms::catalog()) {
    if (entry.name == name && has_period(entry)) text += "\nperiod = 3";
  }
  return text;
}

}  // namespace

TEST_CASE("every algorithm repeats itself to the bit, whatever the window") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const std::string text = test::quadratic_scenario(8, 30, "ring", section_of(entry.name));
    const std::vector<std::string> random{"compute.distribution=lognormal", "compute.sigma=0.4",
                                          "workload.noise=0.1"};
    std::vector<std::string> narrow = random;
    narrow.emplace_back("run.window=64 B");
    const Recorder once = test::run(text, random);
    CHECK(once.models == test::run(text, random).models);
    CHECK(once.models == test::run(text, narrow).models);
  }
}

TEST_CASE("every algorithm solves a quadratic") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    // Equal problems: nothing but the optimum can be a fixed point.
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 400, "ring", section_of(entry.name)),
                  {"workload.centers=list", "workload.center_values=3"});
    for (NodeId i = 0; i < 8; ++i)
      CHECK(test::model(recorder, i, 0) == doctest::Approx(3).epsilon(1e-3));
  }
}

TEST_CASE("every algorithm survives a node that is twice as slow") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 40, "ring", section_of(entry.name)),
                  {"compute.slow_nodes=1", "compute.slowdown=2"});
    for (const NodeTotals& node : recorder.nodes) CHECK(node.steps == 40);
  }
}

TEST_CASE("every algorithm runs without numbers") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    std::string text = test::quadratic_scenario(8, 10, "ring", section_of(entry.name));
    const std::string quadratic = "kind = quadratic\ndimension = 5";
    text.replace(text.find(quadratic), quadratic.size(), "kind = timing\nmodel = resnet50");
    const Recorder hollow = test::run(text);
    CHECK(hollow.nodes[3].steps == 10);
    // In ten steps at least a quarter of a model; of a thousandth of the entries, 8 bytes each, 2 MB.
    constexpr std::string_view sparse[] = {"compressed_parameter_server", "def", "dgc"};
    const bool is_sparse = std::ranges::find(sparse, entry.name) != std::end(sparse);
    CHECK(hollow.nodes[3].bytes_sent > (is_sparse ? 2'000'000 : 25'559'081));
  }
}

TEST_CASE("every algorithm refuses a learning rate that is not positive") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const std::string text = test::quadratic_scenario(8, 10, "ring", section_of(entry.name));
    CHECK_THROWS_AS(test::run(text, {"algorithm.learning_rate=-1"}), ScenarioError);
  }
}
