#include "sim/base/error.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/core.h>

namespace starling {

Diverged::Diverged(const std::string& what, double value, const std::string& when)
    : Error(fmt::format("{} became {} {}: the run diverged; a smaller learning rate may help", what,
                        std::isnan(value) ? "nan" : fmt::format("{}", value), when)) {}

Interrupted::Interrupted(int signal)
    : std::runtime_error(fmt::format("interrupted by signal {}", signal)), signal_(signal) {}

void abort_because(const char* what, Where where) {
  fmt::print(stderr, "starling: internal error: {}:{}: {}\n", where.file_name(), where.line(),
             what);
  std::abort();
}

}  // namespace starling
