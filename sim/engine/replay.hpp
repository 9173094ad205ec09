// Replay: makes a simulation follow the order in which things happened in a real run. An event of a node that comes
// before its turn waits until the acts before it have happened; times are those of the simulation, but for programs that
// ask for the time: they are told what they were told in the real run, and so decide alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/record/act.hpp"

namespace starling {

class Replay {
 public:
  /// `acts`: (nodes), of each in order; they outlive the replay. `is_cut`: the real run was ended before its programs were.
  explicit Replay(const std::vector<std::vector<Act>>& acts, bool is_cut = false)
      : acts_(acts), next_(acts.size()), early_(acts.size()), is_cut_(is_cut) {}
  explicit Replay(std::vector<std::vector<Act>>&& acts, bool is_cut = false) = delete;

  /// Whether `act` is what the node did next; it counts as done then.
  bool is_next(NodeId node, const Act& act);
  /// What the node's program read from the clock next; counts as done. Throws Error if it did something else.
  Time read_clock(NodeId node);
  /// Keeps an event whose turn has not come.
  void hold(NodeId node, const Act& act, std::uint64_t event);
  /// The event among those held that is the node's next act, which counts as done; nothing if none is.
  std::optional<std::uint64_t> release(NodeId node);
  /// The event held that was to be `act`, which will not happen any more; nothing if none is.
  std::optional<std::uint64_t> withdraw(NodeId node, const Act& act);
  /// Whether the real run was cut here: all acts are done, and what is held came later.
  bool is_at_cut() const;
  /// What the first node that does not follow did next in the real run, and what it would do here. Empty if all acts
  /// are done and nothing is held.
  std::string describe_mismatch() const;

 private:
  struct Early {
    Act act;
    std::uint64_t event;
  };
  std::string describe_next(std::size_t node) const;

  const std::vector<std::vector<Act>>& acts_;
  std::vector<std::size_t> next_;          // (nodes)
  std::vector<std::vector<Early>> early_;  // (nodes), in the order they came
  bool is_cut_;
};

}  // namespace starling
