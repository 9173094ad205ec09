// The bar in a terminal: a pseudo-terminal takes the place of standard error.

#include <cmath>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "tools/progress.hpp"

namespace starling::test_progress {
namespace {

/// What a bar shows of `share`.
std::string bar_of(double share) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(grantpt(terminal) == 0);
  REQUIRE(unlockpt(terminal) == 0);
  const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(end >= 0);
  const int before = dup(STDERR_FILENO);
  dup2(end, STDERR_FILENO);
  try {
    Progress().show(share, "wall time 1 s");
  } catch (...) {
    dup2(before, STDERR_FILENO);
    throw;
  }
  dup2(before, STDERR_FILENO);
  char shown[256];
  const ssize_t count = read(terminal, shown, sizeof shown);
  for (const int file : {before, end, terminal}) close(file);
  REQUIRE(count > 0);
  return {shown, static_cast<std::size_t>(count)};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a bar shows how much is done") {
  CHECK(holds(bar_of(0.5), "[===============               ]  50 %  wall time 1 s"));
}

TEST_CASE("a share past the end, as after run.until, fills the bar and throws nothing") {
  for (const double share : {1.02, 1.2, 40.0, HUGE_VAL}) {
    CAPTURE(share);
    CHECK(holds(bar_of(share), "[==============================] 100 %"));
  }
}

TEST_CASE("a share that is no number, or negative, is nothing done") {
  for (const double share : {std::nan(""), -0.5, -HUGE_VAL}) {
    CAPTURE(share);
    CHECK(holds(bar_of(share), "[                              ]   0 %"));
  }
}

}  // namespace starling::test_progress
