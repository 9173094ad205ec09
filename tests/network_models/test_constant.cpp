// The constant network by hand, and its table of pairs against a full table.

#include <string>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/network_models/scripted_run.hpp"

namespace starling::test_constant {

TEST_CASE("constant: transfers do not disturb each other") {
  // 5 us + 125 B / 1.25e9 B/s = 5.1 us from each start, even for the same source and destination.
  const auto model = network_test::network(
      {{"kind", "constant"}, {"latency", "5 us"}, {"bandwidth", "10 Gbit/s"}}, 4);
  const network_test::ScriptedRun run(
      *model, {{0, 0, 1, 125}, {0, 0, 1, 125}, {10, 2, 1, 125}, {10, 0, 3, 125}});
  CHECK(run.arrivals == std::vector<std::int64_t>{5'100'000, 5'100'000, 5'100'010, 5'100'010});
}

TEST_CASE("constant: a small message does not overtake a large one of its pair, but others do") {
  // Large: 1 us + 1000 B / 1e9 B/s = 2 us. Small ones start 0.1 us later and alone need 1 us + 1
  // ns.
  const auto model = network_test::network(
      {{"kind", "constant"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}}, 4);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 1'000},
                                               {100'000, 0, 1, 1},
                                               {100'000, 1, 0, 1},
                                               {100'000, 2, 1, 1},
                                               {1'500'000, 0, 1, 1}});
  CHECK(run.arrivals ==
        std::vector<std::int64_t>{2'000'000, 2'000'000, 1'101'000, 1'101'000, 2'501'000});
  CHECK(run.order == std::vector<std::size_t>{2, 3, 0, 1, 4});
}

TEST_CASE("constant: without a bandwidth, or with an infinite one, bytes cost nothing") {
  for (const network_test::Keys& keys :
       {network_test::Keys{{"kind", "constant"}, {"latency", "3 us"}},
        network_test::Keys{{"kind", "constant"}, {"latency", "3 us"}, {"bandwidth", "infinite"}}}) {
    const auto model = network_test::network(keys, 2);
    CHECK(model->link_cost().seconds_per_byte == 0);
    const network_test::ScriptedRun run(*model, {{1, 0, 1, 1'000'000'000'000}});
    CHECK(run.arrivals[0] == 3'000'001);
  }
}

TEST_CASE("constant: pairs keep their order through every change of the table of pairs") {
  // The obvious twin: a full table of pairs. A window of 150 busy pairs moves over the nodes, so
  // that new pairs make the table drop old ones many times.
  constexpr NodeId nodes = 1'100;
  Random random(5, "pairs");
  std::vector<network_test::Start> starts;
  std::int64_t time = 0;
  for (int i = 0; i < 50'000; ++i) {
    time += static_cast<std::int64_t>(random.below(2'000));
    const auto source = static_cast<NodeId>(i / 50 + static_cast<int>(random.below(50)));
    const auto destination = source + 1 + static_cast<NodeId>(random.below(3));
    starts.push_back({time, source, destination, static_cast<std::int64_t>(random.below(10'000))});
  }
  const auto model = network_test::network(
      {{"kind", "constant"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}}, nodes);
  const network_test::ScriptedRun run(*model, starts);
  std::vector<std::int64_t> last(nodes * nodes, 0);
  std::size_t wrong = 0;
  std::size_t held_back = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto& start = starts[i];
    std::int64_t& previous =
        last[static_cast<std::size_t>(start.source * nodes + start.destination)];
    const std::int64_t alone =
        start.time + 1'000'000 + 1'000 * start.bytes;  // 1 GB/s is 1000 ps per byte
    held_back += previous > alone;
    previous = std::max(previous, alone);
    wrong += run.arrivals[i] != previous;
  }
  CHECK(wrong == 0);
  CHECK(held_back > 100);
}

TEST_CASE("constant: mistakes in its keys are named") {
  CHECK_THROWS_WITH_AS(network_test::network({{"kind", "constant"}}, 2),
                       doctest::Contains("network.latency is missing"), ScenarioError);
  CHECK_THROWS_WITH_AS(
      network_test::network({{"kind", "constant"}, {"latency", "1 us"}, {"bandwidth", "10"}}, 2),
      doctest::Contains("or infinite"), ScenarioError);
  CHECK_THROWS_WITH_AS(network_test::network({{"kind", "constant"}, {"latency", "-1 us"}}, 2),
                       doctest::Contains("got \"-1 us\", which is negative"), ScenarioError);
}

TEST_CASE("constant: a transfer past the end of the clock is an error, not an early arrival") {
  // 1e18 B at 1 B/s is 1e18 s; the clock ends after 9.2e6 s.
  const auto model =
      network_test::network({{"kind", "constant"}, {"latency", "1 us"}, {"bandwidth", "1 B/s"}}, 2);
  CHECK_THROWS_WITH_AS(network_test::ScriptedRun(*model, {{0, 0, 1, 1'000'000'000'000'000'000}}),
                       doctest::Contains("106 days"), Error);
}

}  // namespace starling::test_constant
