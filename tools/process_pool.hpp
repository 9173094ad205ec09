// ProcessPool: runs programs side by side, so many at a time. A program that crashes takes nothing else along, and none
// outlives the pool's own process, however that ends.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace starling {

class ProcessPool {
 public:
  struct Task {
    std::vector<std::string> words;  // program and its arguments
    std::string log;                 // file that gets standard output and standard error
  };
  /// The exit status of a task that was not begun, as another pool's has the log of its name (EX_TEMPFAIL).
  static constexpr int taken = 75;
  /// How a task ended: exit status, or 128 + signal.
  using Ended = std::function<void(std::size_t task, int status)>;

  /// The programs do not get the variables `kept_back` of the environment.
  explicit ProcessPool(std::size_t at_once, std::vector<const char*> kept_back = {})
      : at_once_(at_once), kept_back_(std::move(kept_back)) {}

  /// Runs all tasks, fewer at once while no more processes can be started. `ended` is told of each; `pulse` is called
  /// every few milliseconds and ends all if it answers true: the tasks are asked to end (SIGTERM) and waited for, the rest
  /// is never begun. Before each task `goes_on` is asked; if it says no, those that run are the last. Returns whether nobody
  /// asked to end. Throws Error if not one process can be started.
  bool run(const std::vector<Task>& tasks, const Ended& ended, const std::function<bool()>& pulse,
           const std::function<bool()>& goes_on);

 private:
  /// Whether it was started; if not, those that run make room for it when they end.
  bool start(const Task& task, std::size_t index);
  void collect(bool waits, const Ended& ended);

  std::size_t at_once_;
  std::vector<const char*> kept_back_;
  std::map<pid_t, std::size_t> running_;
};

}  // namespace starling
