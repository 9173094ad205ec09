// How things fail. Scenario mistakes are ScenarioError (located), files, devices and MPI are Error, our own
// bugs end in ensure(). Messages start lower-case, have no full stop, say what was expected and what was found.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace starling {

/// Something outside the program failed: what was tried, on what, the system's words. Exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The numbers of a run became useless; the message says whose and when. Exit status 1.
class Diverged : public Error {
 public:
  using Error::Error;
  /// "the loss of node 3 became nan at its gradient 5: the run diverged; a smaller learning rate may help".
  Diverged(const std::string& what, double value, const std::string& when);
};

/// A node's program failed, so the timeline ends here, in all processes that share it. The results so far are whole.
/// Exit status 1.
class Halted : public Error {
 public:
  using Error::Error;
};

/// The same because nothing can happen any more although programs wait; the message says who waits for whom, and who failed.
class Stalled : public Halted {
 public:
  using Halted::Halted;
};

/// The user's scenario is wrong; the message begins with `file:line:` or `command line:`. Exit status 2.
class ScenarioError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The run was ended from outside (Ctrl-C, SIGTERM); results so far are kept. Exit status 128 + signal.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal);
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Whose fault it is: a verb that programs use takes it as its last argument, so that ensure() names their line.
using Where = std::source_location;

[[noreturn]] void abort_because(const char* what, Where where);

/// Aborts with file, line and `what` if `condition` is false: the program itself is wrong.
inline void ensure(bool condition, const char* what, Where where = Where::current()) {
  if (!condition) [[unlikely]]
    abort_because(what, where);
}

}  // namespace starling
