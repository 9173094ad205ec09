// Counts that come from the environment.
#include <cstdlib>

#include <doctest/doctest.h>

#include "sim/base/environment.hpp"
#include "sim/base/error.hpp"

namespace starling::test_environment {

TEST_CASE(
    "a count comes from the environment, if it is there, and must be a positive whole number") {
  constexpr const char* name = "STARLING_TEST_COUNT";
  const auto count = [] { return count_in_environment(name, 60, "seconds"); };
  unsetenv(name);
  CHECK(count() == 60);
  setenv(name, "7", 1);
  CHECK(count() == 7);
  for (const char* wrong : {"", "0", "-1", "1.5", "7 s", "99999999999"}) {
    setenv(name, wrong, 1);
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(count(), doctest::Contains("STARLING_TEST_COUNT: expected whole seconds"),
                         Error);
  }
  unsetenv(name);
}

}  // namespace starling::test_environment
