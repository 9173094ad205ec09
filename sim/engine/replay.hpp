// Replay: makes a simulation follow the order in which things happened in a real run. An event of a node that comes
// before its turn waits until the acts before it have happened; times are those of the simulation all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/record/act.hpp"

namespace starling {

class Replay {
 public:
  /// `acts`: (nodes), of each in order.
  explicit Replay(const std::vector<std::vector<Act>>& acts)
      : acts_(acts), next_(acts.size()), early_(acts.size()) {}

  /// Whether `act` is what the node did next; it counts as done then.
  bool is_next(NodeId node, const Act& act);
  /// Keeps an event whose turn has not come.
  void hold(NodeId node, const Act& act, std::uint64_t event);
  /// The event among those held that is the node's next act, which counts as done; nothing if none is.
  std::optional<std::uint64_t> release(NodeId node);
  /// What a node that waits should do next, and what it would rather have done: for the error of a run that does not
  /// follow. Empty if all acts are done and nothing is held.
  std::string describe_mismatch() const;

 private:
  struct Early {
    Act act;
    std::uint64_t event;
  };
  const std::vector<std::vector<Act>>& acts_;
  std::vector<std::size_t> next_;          // (nodes)
  std::vector<std::vector<Early>> early_;  // (nodes), in the order they came
};

}  // namespace starling
