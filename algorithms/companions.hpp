// Companions: the fibres that a program spawned beside itself, so that it can wait for their end.
// They share state in the program's frame, which must not end before they do.
#pragma once

#include "sim/node/node.hpp"

namespace starling::algorithms {

class Companions {
 public:
  explicit Companions(Node& node) : ended_(node) {}

  /// Whoever spawns a fibre says so; the fibre's last act is leave().
  void enter() { ++running_; }
  void leave() {
    --running_;
    ended_.notify();
  }
  int running() const { return running_; }

  /// Waits until all have left.
  Task<> join() {
    while (running_ > 0) co_await ended_.wait();
  }

 private:
  Signal ended_;
  int running_ = 0;
};

}  // namespace starling::algorithms
