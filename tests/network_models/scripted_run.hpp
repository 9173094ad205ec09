// Drives a network model alone: a list of transfers, each started at its time, on a calendar. This
// is all of the engine that a network model ever sees, in a page.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "network_models/registry.hpp"
#include "sim/engine/calendar.hpp"
#include "sim/engine/network_model.hpp"
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

class ScriptedRun final : public NetworkClock {
 public:
  /// Runs all transfers, to their end or `until` then; `starts[i]` has id i.
  ScriptedRun(NetworkModel& model, const std::vector<Start>& starts, Time until = Time::max())
      : arrivals(starts.size(), -1),
        deliveries(starts.size(), 0),
        due_(starts.size(), Time::min()) {
    for (std::size_t i = 0; i < starts.size(); ++i)
      calendar_.push(Time{Duration{starts[i].time}}, 3 * i);
    while (!calendar_.empty()) {
      const Event event = calendar_.pop();
      now_ = std::min(event.time, until);
      if (event.time > until) return;
      const std::uint64_t value = event.payload / 3;
      if (event.payload % 3 == 0) {
        const Start& start = starts[value];
        model.start({static_cast<std::uint32_t>(value), start.source, start.destination,
                     start.bytes, start.stream},
                    *this);
      } else if (event.payload % 3 == 1) {
        model.on_timer(value, *this);
      } else if (due_[value] == now_) {  // else it was put off
        arrivals[value] = now_.time_since_epoch().count();
        ++deliveries[value];
        order.push_back(value);
      } else if (due_[value] == Time{-now_.time_since_epoch()}) {
        due_[value] = Time::min();  // its event has passed
      }
    }
  }

  Time now() const override { return now_; }
  void set_timer(Time time, std::uint64_t cookie) override { calendar_.push(time, 3 * cookie + 1); }
  void deliver(Time time, std::uint32_t id) override {
    const bool has_event = due_[id] == Time{-time.time_since_epoch()};
    due_[id] = time;
    if (!has_event) calendar_.push(time, 3 * std::uint64_t{id} + 2);
  }
  void put_off(std::uint32_t id) override {
    due_[id] = Time{-due_[id].time_since_epoch()};
    ++put_offs;
  }

  std::vector<std::int64_t> arrivals;  // (transfers), ps; -1 if never delivered
  std::vector<int> deliveries;         // (transfers), how often
  int put_offs = 0;                    // deliveries announced and taken back
  std::vector<std::size_t> order;      // transfers as they were delivered

 private:
  std::vector<Time> due_;  // negative: put off
  Calendar calendar_;
  Time now_{};
};

}  // namespace starling::network_test
