// The clock of a network model that is tried out alone. With its calendar this is all of the engine that a network model ever
// sees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/calendar.hpp"
#include "sim/engine/network_model.hpp"

namespace starling::network_test {

class TestClock : public NetworkClock {
 public:
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

  int put_offs = 0;  // deliveries announced and taken back

 protected:
  /// Has run() call on_start(what) then.
  void set_start(Time time, std::uint64_t what) { calendar_.push(time, 3 * what); }

  /// A transfer of that id sets off.
  void send(NetworkModel& model, const Transfer& transfer) {
    if (due_.size() <= transfer.id) due_.resize(transfer.id + 1);
    due_[transfer.id] = Time::min();
    model.start(transfer, *this);
  }

  /// Until nothing is left to happen, or `until` then; on_delivery(id) when a transfer arrives.
  void run(NetworkModel& model, const auto& on_start, const auto& on_delivery,
           Time until = Time::max()) {
    while (!calendar_.empty()) {
      const Event event = calendar_.pop();
      now_ = std::min(event.time, until);
      if (event.time > until) return;
      const std::uint64_t what = event.payload / 3;
      if (event.payload % 3 == 0) {
        on_start(what);
      } else if (event.payload % 3 == 1) {
        model.on_timer(what, *this);
      } else if (due_[what] == now_) {  // else it was put off
        on_delivery(static_cast<std::uint32_t>(what));
      } else if (due_[what] == Time{-now_.time_since_epoch()}) {
        due_[what] = Time::min();  // its event has passed
      }
    }
  }

 private:
  std::vector<Time> due_;  // by id; negative: put off
  Calendar calendar_;
  Time now_{};
};

}  // namespace starling::network_test
