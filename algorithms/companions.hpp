// Companions: the fibres that a program spawned beside itself, so that it can wait for their end.
// They share state in the program's frame, which must not end before they do.
#pragma once

#include <utility>

#include "sim/node/node.hpp"

namespace starling::algorithms {

class Companions {
 public:
  explicit Companions(Node& node) : node_(node), ended_(node) {}

  /// Starts `fibre` beside the program.
  void spawn(Task<> fibre) {
    ++running_;
    node_.spawn(accompany(std::move(fibre)));
  }

  /// Waits until all have ended; called by the program.
  Task<> join() {
    if (running_ == 0) co_return;
    node_.begin_joining();
    while (running_ > 0) co_await ended_.wait();
    node_.end_joining();
  }

 private:
  Task<> accompany(Task<> fibre) {
    co_await fibre;
    --running_;
    ended_.notify();
  }

  Node& node_;
  Signal ended_;
  int running_ = 0;
};

}  // namespace starling::algorithms
