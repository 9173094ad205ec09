#include "sim/base/error.hpp"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace starling {

Interrupted::Interrupted(int signal)
    : std::runtime_error(fmt::format("interrupted by signal {}", signal)), signal_(signal) {}

void ensure(bool condition, const char* what, std::source_location where) {
  if (condition) [[likely]]
    return;
  fmt::print(stderr, "starling: internal error: {}:{}: {}\n", where.file_name(), where.line(),
             what);
  std::abort();
}

}  // namespace starling
