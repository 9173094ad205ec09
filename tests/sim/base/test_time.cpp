// Checks the conversions of virtual time and the end of its clock.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/time.hpp"

namespace starling::test_time {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST_CASE("standard durations become picoseconds without loss") {
  CHECK(Duration(1s).count() == 1'000'000'000'000);
  CHECK(Duration(3ns).count() == 3'000);
  CHECK(Duration(24h * 106).count() > 0);  // 106 days fit
}

TEST_CASE("seconds are rounded to the nearest picosecond") {
  CHECK(from_seconds(0.1) == Duration(100ms));
  CHECK(from_seconds(1.4e-12) == Duration(1));
  CHECK(from_seconds(1.6e-12) == Duration(2));
  CHECK(from_seconds(-2.0) == Duration(-2s));
  CHECK(from_seconds(0.0) == Duration(0));
}

TEST_CASE("seconds that the clock cannot hold are refused") {
  for (const double seconds : {9.3e6, -9.3e6, 1e300, HUGE_VAL, std::nan("")}) {
    CAPTURE(seconds);
    CHECK_THROWS_WITH_AS(
        from_seconds(seconds),
        doctest::Contains("is outside the clock, which counts picoseconds up to 106 days"),
        std::invalid_argument);
  }
  CHECK_NOTHROW(from_seconds(9.1e6));
}

TEST_CASE("seconds of a time are those since the start of the run") {
  CHECK(to_seconds(Duration(1500ms)) == 1.5);
  CHECK(to_seconds(Time(Duration(1500ms))) == 1.5);
  CHECK(to_seconds(Time()) == 0);
}

TEST_CASE("seconds of whole milliseconds are those that one writes") {
  for (int i = 0; i < 100'000; ++i) {
    CAPTURE(i);
    REQUIRE(to_seconds(Duration(std::chrono::milliseconds(i))) == i / 1000.);
  }
}

TEST_CASE("a sum is exact up to the last tick and an error past it") {
  const Time end{Duration(largest)};
  CHECK(after(Time(Duration(2s)), Duration(1)) == Time(Duration(2'000'000'000'001)));
  CHECK(after(Time(Duration(largest - 1)), Duration(1)) == end);
  CHECK_THROWS_WITH_AS(
      after(end, Duration(1)),
      "virtual time passes the end of the clock (106 days): 9.22337e+06 s + 1e-12 s", Error);
}

}  // namespace
}  // namespace starling::test_time
