// Conformance of network models: what every entry of the catalog must do, whatever its model.

#include <cmath>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "network_models/registry.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/support/relative.hpp"

namespace starling::test_registry {
namespace {

/// What a model reads.
std::set<std::string> keys_read_by(std::string_view kind) {
  const Section probe = Section::probe("network", {{"kind", std::string(kind), "probe"}});
  CHECK_THROWS_AS(network_models::find(probe).make(probe, 4, 1), ProbeFinished);
  std::set<std::string> keys;
  for (const KeyUse& use : probe.uses()) keys.insert(use.key);
  return keys;
}

/// The settings of a model here; one that requires other keys than latency and bandwidth adds its line.
network_test::Keys keys_of(std::string_view kind) {
  network_test::Keys keys = {{"kind", std::string(kind)}};
  const std::set<std::string> known = keys_read_by(kind);
  if (known.contains("latency")) keys.emplace_back("latency", "2 us");
  if (known.contains("bandwidth")) keys.emplace_back("bandwidth", "1 GB/s");
  if (kind == "loggp") {
    keys.emplace_back("overhead", "300 ns");
    keys.emplace_back("gap", "500 ns");
  }
  if (kind == "tcp") keys.emplace_back("bandwidth_factor", "1");
  return keys;
}

std::vector<network_test::Start> random_starts(NodeId nodes, std::size_t count,
                                               std::string_view name) {
  Random random(3, name);
  std::vector<network_test::Start> starts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto source = static_cast<NodeId>(random.below(static_cast<std::uint64_t>(nodes)));
    const auto other = static_cast<NodeId>(random.below(static_cast<std::uint64_t>(nodes - 1)));
    // Sizes of every scale, within 1 ms, in whole us: plenty of overtaking, contention and ties.
    starts.push_back({static_cast<std::int64_t>(random.below(1'000) * 1'000'000), source,
                      other < source ? other : other + 1, std::int64_t{1} << random.below(18)});
  }
  return starts;
}

}  // namespace

TEST_CASE("every network model delivers each transfer exactly once and none before its latency") {
  for (const auto& entry : network_models::catalog()) {
    CAPTURE(entry.name);
    const auto model = network_test::network(keys_of(entry.name), 8);
    const auto starts = random_starts(8, 5'000, "once");
    const network_test::ScriptedRun run(*model, starts);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      REQUIRE(run.deliveries[i] == 1);
      REQUIRE(run.arrivals[i] >= starts[i].time + model->link_cost().latency.count());
    }
  }
}

TEST_CASE("every network model takes latency + bytes / bandwidth for a lone transfer") {
  for (const auto& entry : network_models::catalog()) {
    for (const std::int64_t bytes : {1LL, 8LL, 1'000'000LL, 100'000'000'000LL}) {
      CAPTURE(entry.name);
      CAPTURE(bytes);
      const auto model = network_test::network(keys_of(entry.name), 8);
      const LinkCost cost = model->link_cost();
      if (keys_read_by(entry.name).contains("bandwidth"))
        CHECK(cost.seconds_per_byte == test::relative(1e-9));
      const network_test::ScriptedRun run(*model, {{7'000, 2, 5, bytes}});
      const double expected = 7'000 + static_cast<double>(cost.latency.count()) +
                              1e12 * cost.seconds_per_byte * static_cast<double>(bytes);
      // LogGP counts the bytes after the first: one byte of leeway, 1 ns here, and the rounding of
      // doubles.
      CHECK(std::abs(static_cast<double>(run.arrivals[0]) - expected) <= 1'001);
    }
  }
}

TEST_CASE("every network model delivers the transfers of a pair in the order they were started") {
  for (const auto& entry : network_models::catalog()) {
    CAPTURE(entry.name);
    const auto model = network_test::network(keys_of(entry.name), 3);
    auto starts = random_starts(3, 3'000, "order");
    std::ranges::stable_sort(starts, {}, &network_test::Start::time);  // id = order of starting
    const network_test::ScriptedRun run(*model, starts);
    std::map<std::pair<NodeId, NodeId>, std::size_t> last;
    for (const std::size_t id : run.order) {
      const std::pair pair(starts[id].source, starts[id].destination);
      if (last.contains(pair)) REQUIRE(last[pair] < id);
      last[pair] = id;
    }
  }
}

TEST_CASE("every network model repeats itself") {
  for (const auto& entry : network_models::catalog()) {
    CAPTURE(entry.name);
    const auto starts = random_starts(5, 2'000, "repeat");
    const auto once = network_test::network(keys_of(entry.name), 5);
    const auto again = network_test::network(keys_of(entry.name), 5);
    CHECK(network_test::ScriptedRun(*once, starts).arrivals ==
          network_test::ScriptedRun(*again, starts).arrivals);
  }
}

TEST_CASE("every network model names its keys to a probe and builds nothing") {
  for (const auto& entry : network_models::catalog()) {
    CAPTURE(entry.name);
    const std::set<std::string> keys = keys_read_by(entry.name);
    CHECK(keys.contains("kind"));
    CHECK(keys.size() >= 2);
  }
}

TEST_CASE(
    "every network model refuses a key nobody reads, and so does the registry an unknown kind") {
  for (const auto& entry : network_models::catalog()) {
    CAPTURE(entry.name);
    auto keys = keys_of(entry.name);
    keys.emplace_back("latencyy", "1 us");
    CHECK_THROWS_WITH_AS(network_test::network(keys, 4),
                         doctest::Contains("test.ini:7: network.latencyy is not a key here"),
                         ScenarioError);
  }
  std::string names;
  for (const auto& entry : network_models::catalog())
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  const std::string expected =
      "test.ini:7: network.kind must be one of " + names + ", got carrier_pigeon";
  CHECK_THROWS_WITH_AS(network_test::network({{"kind", "carrier_pigeon"}}, 4), expected.c_str(),
                       ScenarioError);
}

}  // namespace starling::test_registry
