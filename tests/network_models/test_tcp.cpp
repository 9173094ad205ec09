// The TCP variant of the fluid network by hand; as SimGrid has it, see test_fluid.cpp.

#include <array>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/network_models/simple_network.hpp"
#include "tests/support/relative.hpp"

namespace starling::test_tcp {
namespace {

using network_test::in_ns;
using network_test::Keys;
using network_test::Times;
using network_test::with;

}  // namespace

TEST_CASE("tcp: a link that carries both ways, as that within a host, has less for the message") {
  const auto model = network_test::network({{"kind", "tcp"},
                                            {"latency", "1 us"},
                                            {"bandwidth", "1 GB/s"},
                                            {"nodes_per_host", "2"},
                                            {"local_bandwidth", "1 GB/s"}},
                                           2);
  const LinkCost cost = model->link_cost();
  CHECK(cost.seconds_per_byte == test::relative(1.05 / 0.97e9));
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 970'000}});
  CHECK(cost.latency == Duration{0});
  CHECK(in_ns(run.arrivals) == Times{1'050'000});
}

TEST_CASE("tcp: its keys are SimGrid's numbers, and can be changed one by one") {
  // 2 us of latency: 13.01 times that, then 0.97 GB/s: 26.02 us + 970 B / 0.97 GB/s.
  const Keys keys = {
      {"kind", "tcp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}, {"check", "yes"}};
  const network_test::Start start{0, 0, 1, 970};
  const auto arrival = [&](const Keys& more) {
    const auto model = network_test::network(with(keys, more), 3);
    return network_test::ScriptedRun(*model, {start}).arrivals[0];
  };
  CHECK(arrival({}) == 27'020'000);
  CHECK(arrival({{"latency_factor", "1"}}) == 3'000'000);
  CHECK(arrival({{"bandwidth_factor", "0.5"}}) == 26'020'000 + 1'940'000);
  // 400 B of window over a round trip of 4 us: 100 B/us, times 0.97.
  CHECK(arrival({{"window", "400 B"}}) == 26'020'000 + 10'000'000);
  CHECK(arrival({{"window", "0 B"}}) == 27'020'000);
}

TEST_CASE("tcp: factors may depend on the size of a message") {
  // 2 us of latency, 1 GB/s. Up to 1000 B: 2 us + k / 0.5; above: 3 times 2 us + k / 0.8 ns.
  const Keys keys = {{"kind", "tcp"},
                     {"latency", "1 us"},
                     {"bandwidth", "1 GB/s"},
                     {"latency_factor", "0 B: 1, 1 kB: 3"},
                     {"bandwidth_factor", "0 B: 0.5, 1000 B: 0.8"},
                     {"check", "yes"}};
  const auto model = network_test::network(keys, 3);
  const auto arrival = [&](std::int64_t bytes) {
    return network_test::ScriptedRun(*model, {{0, 0, 1, bytes}}).arrivals[0];
  };
  CHECK(arrival(0) == 2'000'000);
  CHECK(arrival(100) == 2'200'000);
  CHECK(arrival(1'000) == 4'000'000);
  CHECK(arrival(1'001) == 6'000'000 + 1'251'250);
  CHECK(arrival(4'000) == 11'000'000);
  // Beside another message on the link, each has half of it, and half of what its size lets through.
  const network_test::ScriptedRun both(*model, {{0, 0, 2, 1'000}, {0, 1, 2, 1'000}});
  CHECK(in_ns(both.arrivals) == Times{6'000, 6'000});
  // Closed forms of collectives take those of large messages.
  CHECK(model->link_cost().latency == Duration{6'000'000});
  CHECK(model->link_cost().seconds_per_byte == test::relative(1 / 0.8e9));
}

TEST_CASE("tcp: mistakes in factors by size are named") {
  for (const auto& [text, complaint] : {
           std::array{"1 kB: 2", "must have sizes that begin with 0 B and grow, got 1 kB"},
           std::array{"0 B: 2, 9 B: 1, 9 B: 2", "that begin with 0 B and grow, got 9 B"},
           std::array{"0 B: 2, 5", "must be pairs such as \"a: b, c: d\", got \"5\""},
           std::array{"0 B: 0", "must be factors above 0 and up to 1000, got \"0\""},
           std::array{"0 B: 1, 5 B: nan", "up to 1000, got \"nan\""},
           std::array{"0 B: 1001", "up to 1000, got \"1001\""},
           std::array{"0: 1", "such as 64 MiB"},
           std::array{"2 3", "must be a number, got 2 3"},
           std::array{"0", "must be positive, got 0"},
       }) {
    for (const std::string key : {"latency_factor", "bandwidth_factor"}) {
      const std::string value = text;
      CAPTURE(key);
      CAPTURE(value);
      const Keys keys = {
          {"kind", "tcp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}, {key, value}};
      const std::string words = "test.ini:7: network." + key;
      CHECK_THROWS_WITH_AS(network_test::network(keys, 3), doctest::Contains(words.c_str()),
                           ScenarioError);
      CHECK_THROWS_WITH_AS(network_test::network(keys, 3), doctest::Contains(complaint),
                           ScenarioError);
    }
  }
}

TEST_CASE("tcp: a message without latency has the share of one with hardly any") {
  // It had a thirtieth of it, beside one that crosses an ocean.
  const auto arrivals = [](const std::string& latency) {
    const auto model = network_test::network({{"kind", "tcp"},
                                              {"latency", latency},
                                              {"bandwidth", "100 Mbit/s"},
                                              {"host_latencies", "1: 50 ms"},
                                              {"window", "0 B"},
                                              {"check", "yes"}},
                                             4);
    return network_test::ScriptedRun(*model, {{0, 1, 2, 10'000'000}, {0, 3, 2, 20'000'000}})
        .arrivals;
  };
  const Times none = arrivals("0 s");
  const Times hardly_any = arrivals("1 ps");
  for (std::size_t i = 0; i < 2; ++i) CHECK(std::abs(none[i] - hardly_any[i]) < 100'000);
  CHECK(none[1] < none[0]);
}

}  // namespace starling::test_tcp
