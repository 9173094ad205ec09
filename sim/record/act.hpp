// Act: something a node's programs cannot foresee: what let a fibre go on, and what the clock said when one looked. The
// acts of a node in their order, and nothing else, decide what an asynchronous algorithm computes; so a real run that
// notes them can be repeated in simulation, bit for bit.
#pragma once

#include <cstdint>

#include "sim/base/time.hpp"
#include "sim/base/types.hpp"

namespace starling {

struct Act {
  enum class Kind : std::uint8_t {
    delivery,  // a message came: `who` sent it, under the tag `what`; somebody waited for it or not
    resume,  // fibre `who` went on: it was started, a gradient was ready, a sleep over, a signal given
    deadline,  // fibre `who` had waited for a message until its deadline
    clock      // a program asked for the time, and read `what` picoseconds
  };

  Kind kind = Kind::resume;
  std::int32_t who = 0;
  std::uint64_t what = 0;

  static Act delivery(NodeId source, Tag tag) { return {Kind::delivery, source, tag}; }
  static Act resume(std::int32_t fibre) { return {Kind::resume, fibre, 0}; }
  static Act deadline(std::int32_t fibre) { return {Kind::deadline, fibre, 0}; }
  static Act clock(Time time) {
    return {Kind::clock, 0, static_cast<std::uint64_t>(time.time_since_epoch().count())};
  }

  friend bool operator==(const Act&, const Act&) = default;
};

}  // namespace starling
