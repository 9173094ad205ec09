// Machines by name: the same message over one switch takes the same time in every model, and more switches
// cost what switches take.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "network_models/presets.hpp"
#include "sim/base/error.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_presets {
namespace {

using network_test::network;

struct Expected {
  std::string preset;
  std::int64_t latency;  // L + 2 o, ps
  double bytes_per_second;
  std::int64_t hop;  // ps
};

const Expected all[] = {
    {"aries", 1'300'000, 10e9, 100'000},      {"edr", 1'100'000, 12.2e9, 90'000},
    {"hdr", 1'000'000, 24.5e9, 130'000},      {"slingshot", 4'100'000, 25e9, 350'000},
    {"10gbe", 25'000'000, 1.18e9, 1'000'000}, {"wan", 50'020'000'000, 117.6e6, 25'000'000'000},
};

TEST_CASE("every preset is a network, and its keys can be overridden") {
  std::vector<std::string> names;
  for (const Expected& expected : all) {
    CAPTURE(expected.preset);
    names.push_back(expected.preset);
    for (const char* kind : {"loggp", "fluid"}) {
      CAPTURE(kind);
      const auto model = network({{"kind", kind}, {"preset", expected.preset}}, 4);
      CHECK(model->link_cost().latency == Duration{expected.latency});
      CHECK(1 / model->link_cost().seconds_per_byte == doctest::Approx(expected.bytes_per_second));
    }
    const auto loggp = network(
        {{"kind", "loggp"}, {"preset", expected.preset}, {"latency", "0 s"}, {"overhead", "1 us"}},
        4);
    CHECK(loggp->link_cost().latency == Duration{2'000'000});
    const auto fluid = network({{"kind", "fluid"},
                                {"preset", expected.preset},
                                {"latency", "0 s"},
                                {"message_latency", "1 us"},
                                {"bandwidth", "1 GB/s"}},
                               4);
    CHECK(fluid->link_cost().latency == Duration{1'000'000});
    CHECK(1 / fluid->link_cost().seconds_per_byte == doctest::Approx(1e9));
  }
  CHECK(names == network_models::preset_names());
}

TEST_CASE("a preset's links cost a switch each, wherever a message goes") {
  for (const Expected& expected : all) {
    CAPTURE(expected.preset);
    // A tree of 4-port switches: hosts 0 and 1 share the lowest, 2 the next above, 4 the top: 2, 4 and 6 links.
    const auto tree =
        network({{"kind", "fluid"}, {"preset", expected.preset}, {"fabric", "fat_tree"}}, 16);
    const network_test::ScriptedRun run(*tree, {{0, 0, 1, 0}, {0, 0, 2, 0}, {0, 0, 4, 0}});
    CHECK(run.arrivals == std::vector<std::int64_t>{expected.latency,
                                                    expected.latency + 2 * expected.hop,
                                                    expected.latency + 4 * expected.hop});
  }
}

TEST_CASE("a preset's links do not come on top of a matrix without a word") {
  const test::TemporaryFile matrix("ms, Oregon, Tokyo\nOregon, -, 49\nTokyo, 50, -\n");
  network_test::Keys keys = {
      {"kind", "fluid"}, {"preset", "wan"}, {"fabric", "matrix"}, {"latencies", matrix.path()}};
  CHECK_THROWS_WITH_AS(network(keys, 2),
                       doctest::Contains("network.latency is missing: with fabric = matrix"),
                       ScenarioError);
  keys.emplace_back("latency", "0 s");
  CHECK(network(keys, 2) != nullptr);
}

TEST_CASE("tcp: a preset's bandwidth is payload, its links are what slow start multiplies") {
  const auto model = network({{"kind", "tcp"}, {"preset", "10gbe"}, {"window", "0 B"}}, 4);
  CHECK(model->link_cost().latency == Duration{26'020'000});
  CHECK(1 / model->link_cost().seconds_per_byte == doctest::Approx(1.18e9));
  CHECK_THROWS_WITH_AS(network({{"kind", "tcp"}, {"preset", "aries"}}, 4),
                       "test.ini:7: network.preset must be one of none, 10gbe, wan, got aries",
                       ScenarioError);
}

TEST_CASE("fluid: every message pays message_latency, also within a host") {
  const auto model = network({{"kind", "fluid"},
                              {"latency", "1 us"},
                              {"bandwidth", "1 GB/s"},
                              {"message_latency", "5 us"},
                              {"nodes_per_host", "2"},
                              {"local_bandwidth", "1 GB/s"},
                              {"local_latency", "300 ns"}},
                             4);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 1'000}, {0, 0, 2, 1'000}});
  CHECK(run.arrivals == std::vector<std::int64_t>{6'300'000, 8'000'000});
  CHECK_THROWS_WITH_AS(network({{"kind", "fluid"},
                                {"latency", "1 us"},
                                {"bandwidth", "1 GB/s"},
                                {"message_latency", "2 min"}},
                               4),
                       doctest::Contains("message_latency must be at most 60 s"), ScenarioError);
}

}  // namespace
}  // namespace starling::test_presets
