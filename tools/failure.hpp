// What went wrong, as one sentence on standard error and an exit status: 1 the run failed, 2 the scenario or the
// command line is wrong, 3 two runs differ (compare), 128 + signal when asked to end. `starling --help` tells them.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace starling {

/// A command line that cannot be understood.
class UsageError : public std::exception {
 public:
  explicit UsageError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// All has been said (by this process or another rank): end with `status`.
struct Ended {
  int status;
};

/// The exit status that `failure` deserves; says why first, if `speaks`.
int tell(const std::exception_ptr& failure, bool speaks = true);

}  // namespace starling
