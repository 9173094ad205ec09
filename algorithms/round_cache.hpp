// RoundCache: what all nodes of a run would compute alike for a round (a random matching, who sends
// to whom), computed once per process and kept until all have asked for it: on a ring of n nodes some may be n / 2
// rounds ahead of others. Only a cache: values are pure functions of the round, and one that was evicted is computed
// again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "sim/base/types.hpp"

namespace starling::algorithms {

template <class Value>
class RoundCache {
 public:
  /// For `askers` nodes, each of which asks once for a round; a value takes about `bytes`.
  RoundCache(NodeId askers, std::size_t bytes)
      : askers_(askers),
        most_(std::clamp<std::size_t>(most_bytes / std::max<std::size_t>(bytes, 1), 64, 65'536)) {}

  /// The value of `round`; `make()` if it is not here. Valid until the next call.
  template <class Make>
  const Value& at(Step round, Make make) {
    rounds_.erase(std::exchange(finished_, -1));
    auto entry = rounds_.find(round);
    if (entry == rounds_.end()) {
      if (rounds_.size() == most_)
        rounds_.erase(rounds_.begin());  // what only the slowest may still ask for
      entry = rounds_.emplace(round, Entry{make()}).first;
    }
    if (++entry->second.asked == askers_) finished_ = round;
    return entry->second.value;
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;

  struct Entry {
    Value value;
    NodeId asked = 0;  // by so many; nodes that have stopped never ask
  };
  NodeId askers_;
  std::size_t most_;  // rounds that are kept
  std::map<Step, Entry> rounds_;
  Step finished_ = -1;  // for which all have asked, the last one just now; -1: none
};

}  // namespace starling::algorithms
