// Drives a network model alone: a list of transfers, each started at its time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "network_models/registry.hpp"
#include "tests/network_models/test_clock.hpp"
#include "tests/support/section_of_keys.hpp"

namespace starling::network_test {

struct Start {
  std::int64_t time;  // ps
  NodeId source;
  NodeId destination;
  std::int64_t bytes;
  std::uint64_t stream = 0;
};

using Times = std::vector<std::int64_t>;

/// Of whole nanoseconds in picoseconds.
inline Times in_ns(const Times& picoseconds) {
  Times result;
  for (const std::int64_t time : picoseconds) {
    REQUIRE(time % 1'000 == 0);
    result.push_back(time / 1'000);
  }
  return result;
}

/// What a scenario says in [network].
using test::Keys;

inline Keys with(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

inline Section section(const Keys& keys) { return test::section_of_keys("network", keys); }

inline std::unique_ptr<NetworkModel> network(const Keys& keys, NodeId nodes) {
  const Section keys_of_network = section(keys);
  return network_models::find(keys_of_network).make(keys_of_network, nodes, 1);
}

class ScriptedRun final : public TestClock {
 public:
  /// Runs all transfers, to their end or `until` then; `starts[i]` has id i.
  ScriptedRun(NetworkModel& model, const std::vector<Start>& starts, Time until = Time::max())
      : arrivals(starts.size(), -1), deliveries(starts.size(), 0) {
    for (std::size_t i = 0; i < starts.size(); ++i) set_start(Time{Duration{starts[i].time}}, i);
    const auto on_start = [&](std::uint64_t i) {
      const Start& s = starts[i];
      send(model, {static_cast<std::uint32_t>(i), s.source, s.destination, s.bytes, s.stream});
    };
    const auto on_delivery = [&](std::uint32_t id) {
      arrivals[id] = now().time_since_epoch().count();
      ++deliveries[id];
      order.push_back(id);
    };
    run(model, on_start, on_delivery, until);
  }

  std::vector<std::int64_t> arrivals;  // (transfers), ps; -1 if never delivered
  std::vector<int> deliveries;         // (transfers), how often
  std::vector<std::size_t> order;      // transfers as they were delivered
};

}  // namespace starling::network_test
