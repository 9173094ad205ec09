// Journal: every number that the timeline, or the records, took from the compute graph, in order. A run that keeps one
// can be replayed without computing: the numbers it asks for come from the journal. Nothing else of what is computed
// reaches the timeline, so it repeats itself.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/base/error.hpp"

namespace starling {

class Journal {
 public:
  /// Keeps the numbers that pass from now on.
  void keep() { mode_ = Mode::keeping; }
  /// Hands out `numbers` in place of those that pass; until end_replay(), after which it keeps what passes behind them.
  void begin_replay(std::span<const double> numbers) {
    numbers_.assign(numbers.begin(), numbers.end());
    mode_ = Mode::replaying;
  }
  void end_replay() {
    ensure(is_used_up(), "a replay ends where its journal does");
    mode_ = Mode::keeping;
  }

  /// The number that counts: `number` itself, in a replay that of the journal. Throws Error if that has no more.
  double pass(double number) {
    if (mode_ == Mode::replaying) return next();
    if (mode_ == Mode::keeping) numbers_.push_back(number);
    return number;
  }

  bool is_replaying() const { return mode_ == Mode::replaying; }
  /// Whether all numbers of the replay have been handed out.
  bool is_used_up() const { return next_ == numbers_.size(); }
  std::span<const double> numbers() const { return numbers_; }

 private:
  enum class Mode { off, keeping, replaying };

  double next() {
    if (is_used_up()) throw Error("the replay asks for more numbers than the journal holds");
    return numbers_[next_++];
  }

  std::vector<double> numbers_;
  std::size_t next_ = 0;  // to be handed out
  Mode mode_ = Mode::off;
};

}  // namespace starling
