// Progress of a run or a sweep on standard error: a bar with the time left on a terminal, a plain line now and then in a log.
#pragma once

#include <chrono>
#include <string>

namespace starling {

class Progress {
 public:
  Progress();
  /// `share` of the work is done; `what` says where it is ("virtual time 2 s").
  void show(double share, const std::string& what);
  /// Removes the bar, so that what follows starts on a clean line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_terminal_;
  bool is_shown_ = false;
  Clock::time_point started_;
  Clock::time_point last_line_;
};

}  // namespace starling
