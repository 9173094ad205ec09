// Act: something that let fibres of a node go on. The acts of a node in their order, and nothing else, decide what an
// asynchronous algorithm computes; so a real run that notes them can be repeated in simulation, bit for bit.
#pragma once

#include <cstdint>

#include "sim/base/types.hpp"

namespace starling {

struct Act {
  enum class Kind : std::uint8_t {
    delivery,  // a message came: `who` sent it, under `tag`
    resume,   // fibre `who` of the node went on: a gradient was ready, a sleep over, a signal given
    deadline  // fibre `who` waited for a message until its deadline
  };

  Kind kind = Kind::resume;
  std::int32_t who = 0;
  Tag tag = 0;  // of a delivery; 0 otherwise

  friend bool operator==(const Act&, const Act&) = default;
};

}  // namespace starling
