// The commands of the program `starling`, one function each. They print to standard output and throw what goes
// wrong; main() turns that into a sentence and an exit status.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace starling {

/// Words after the command's name.
using Arguments = std::vector<std::string>;

void run_command(const Arguments& arguments);
void describe_command(const Arguments& arguments);
void list_command(const Arguments& arguments);
void export_command(const Arguments& arguments);

/// A command line that cannot be understood: exit status 2.
class UsageError : public std::exception {
 public:
  explicit UsageError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// Another rank has said it: end with exit status 1 and no further word.
struct SilentFailure {};

}  // namespace starling
