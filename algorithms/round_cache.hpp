// RoundCache: what all nodes of a run would compute alike for a round (a random matching, who sends
// to whom), computed once per process. Only a cache: values are pure functions of the round, and
// one that was evicted is computed again.
#pragma once

#include <array>
#include <utility>

#include "sim/base/types.hpp"

namespace starling::algorithms {

template <class Value>
class RoundCache {
 public:
  /// The value of `round`; `make()` if it is not here. Valid until the next call.
  template <class Make>
  const Value& at(Step round, Make make) {
    Entry& entry = entries_[static_cast<std::size_t>(round) % entries_.size()];
    if (entry.round != round) entry = {round, make()};
    return entry.value;
  }

 private:
  struct Entry {
    Step round = -1;
    Value value{};
  };
  std::array<Entry, 64> entries_;  // nodes that wait for each other are never far apart
};

}  // namespace starling::algorithms
