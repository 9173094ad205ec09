// Progress of a run or a sweep on standard error: a bar with the time left on a terminal, a heartbeat line every minute
// in a log.
#pragma once

#include <chrono>
#include <string>

namespace starling {

class Progress {
 public:
  Progress();
  /// `share` of the work is done, 0 to 1 (beyond, the nearer end counts); `what` says where it is ("virtual time 2 s"), and in a
  /// log `details`, too. Calls that come sooner after the last one than a reader could follow are passed over.
  void show(double share, const std::string& what, const std::string& details = "");
  /// The work done so far, `share` of all, took other time than the rest will: what is left is reckoned from here on.
  void begin_at(double share);
  /// Since the start, or begin_at().
  double seconds() const;
  /// Removes the bar, so that what follows starts on a clean line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_terminal_;
  bool is_shown_ = false;
  Clock::duration interval_;
  double share_before_ = 0;
  Clock::time_point started_;
  Clock::time_point last_shown_;
};

}  // namespace starling
