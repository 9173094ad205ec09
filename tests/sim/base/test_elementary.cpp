// Compares the project's own elementary functions with the C library's, evaluated in long double
// (64 or 113 bits of significand), at many random points, and checks special values and a few exact
// bit patterns.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include "sim/base/elementary.hpp"
#include "sim/base/random.hpp"

namespace starling::test_elementary {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double bound_in_ulp = 1.5;
constexpr int points = 200'000;

/// Distance of `found` from `exact` in units of the last place of `exact` (never below the
/// subnormal unit).
double error_in_ulp(double found, long double exact) {
  const auto rounded = std::abs(static_cast<double>(exact));
  const double ulp = rounded > 0 ? std::nextafter(rounded, infinity) - rounded : 0x1p-1074;
  return static_cast<double>(std::abs(static_cast<long double>(found) - exact) / ulp);
}

/// Largest error of `function` against `reference` over uniform points of [low, high).
template <class Function, class Reference>
double largest_error(double low, double high, Function function, Reference reference) {
  Random random(1, "elementary");
  double largest = 0;
  for (int i = 0; i < points; ++i) {
    const double x = low + (high - low) * random.uniform();
    largest = std::max(largest, error_in_ulp(function(x), reference(x)));
  }
  return largest;
}

long double reference_exp(double x) { return std::exp(static_cast<long double>(x)); }
long double reference_log(double x) { return std::log(static_cast<long double>(x)); }

TEST_CASE("the exponential is within 1.5 ulp of the exact value over its whole range") {
  for (const auto& range : {std::pair{-1.0, 1.0}, {-20.0, 20.0}, {-708.0, 709.7}}) {
    CAPTURE(range.first);
    const auto& [low, high] = range;
    CHECK(largest_error(low, high, exact_exp, reference_exp) < bound_in_ulp);
  }
  // Below e^-708 results are subnormal: the one rounding there adds half a (constant) unit.
  CHECK(largest_error(-745.0, -708.0, exact_exp, reference_exp) < bound_in_ulp);
}

TEST_CASE("the exponential has the usual special values") {
  CHECK(exact_exp(0.0) == 1.0);
  CHECK(exact_exp(-0.0) == 1.0);
  CHECK(exact_exp(infinity) == infinity);
  CHECK(exact_exp(-infinity) == 0.0);
  CHECK(std::isnan(exact_exp(std::nan(""))));
  // log(largest double) = 709.78271..., log(smallest subnormal / 2) = -745.13321...
  CHECK(std::isfinite(exact_exp(709.7827)));
  CHECK(exact_exp(709.7828) == infinity);
  CHECK(exact_exp(1e300) == infinity);
  CHECK(exact_exp(-745.0) == 0x1p-1074);
  CHECK(exact_exp(-745.2) == 0.0);
  CHECK(exact_exp(-1e300) == 0.0);
}

TEST_CASE("the logarithm is within 1.5 ulp of the exact value from subnormal to huge") {
  for (const auto& range :
       {std::pair{0.0, 1.0}, {0.5, 2.0}, {0.99, 1.01}, {0.0, 1e6}, {0.0, 1e300}, {0.0, 1e-310}}) {
    CAPTURE(range.first);
    CAPTURE(range.second);
    const auto& [low, high] = range;
    CHECK(largest_error(low, high, exact_log, reference_log) < bound_in_ulp);
  }
}

TEST_CASE("the logarithm has the usual special values") {
  CHECK(exact_log(1.0) == 0.0);
  CHECK(exact_log(0.0) == -infinity);
  CHECK(exact_log(-0.0) == -infinity);
  CHECK(exact_log(infinity) == infinity);
  CHECK(std::isnan(exact_log(-1.0)));
  CHECK(std::isnan(exact_log(-infinity)));
  CHECK(std::isnan(exact_log(std::nan(""))));
  // Next to one the series starts with f itself: log(1 + 2^-52) = 2^-52 - 2^-105 + 2^-156 / 3 - ...
  CHECK(exact_log(1.0 + 0x1p-52) == 0x1p-52 - 0x1p-105);
  CHECK(error_in_ulp(exact_log(0x1p-1074), reference_log(0x1p-1074)) < bound_in_ulp);
  const double largest = std::numeric_limits<double>::max();
  CHECK(error_in_ulp(exact_log(largest), reference_log(largest)) < bound_in_ulp);
}

TEST_CASE("the cosine of turns is within 1.5 ulp, also next to its zeros") {
  // 2 pi t loses all relative accuracy near a zero even in long double, so the angle is reduced to
  // a = 4 t - q, |a| <= 1/2, exactly, before the reference multiplies by pi / 2.
  const long double half_pi = std::acos(-1.0L) / 2;
  const auto cosine = [half_pi](double turns) {
    const double quadrants = std::floor(turns * 4 + 0.5);
    const long double angle = half_pi * static_cast<long double>(turns * 4 - quadrants);
    switch (static_cast<int>(quadrants) % 4) {
      case 0:
        return std::cos(angle);
      case 1:
        return -std::sin(angle);
      case 2:
        return -std::cos(angle);
      default:
        return std::sin(angle);
    }
  };
  for (const auto& range :
       {std::pair{0.0, 1.0}, {0.0, 1e-9}, {0.249, 0.251}, {0.499, 0.501}, {0.7499, 0.7501}}) {
    CAPTURE(range.first);
    const auto& [low, high] = range;
    CHECK(largest_error(low, high, exact_cos_turns, cosine) < bound_in_ulp);
  }
}

TEST_CASE("whole quarter turns are exact") {
  const double cosines[] = {1, 0, -1, 0, 1};
  for (int quarter = 0; quarter <= 4; ++quarter) {
    CAPTURE(quarter);
    CHECK(exact_cos_turns(quarter / 4.0) == cosines[quarter]);
  }
}

TEST_CASE("the angle must be within one turn") {
  for (const double turns : {-0.01, 1.01, infinity, std::nan("")}) {
    CHECK(std::isnan(exact_cos_turns(turns)));
  }
}

TEST_CASE("the elementary functions give these bits on every machine") {
  // A checksum over the bits of many results; it was computed on x86-64 with fused multiply-add
  // instructions and again without them. A different value means that results will differ between
  // machines.
  Random random(7, "bits");
  std::uint64_t checksum = 0;
  const auto add = [&checksum](double value) {
    checksum = checksum * 0x9e3779b97f4a7c15u + std::bit_cast<std::uint64_t>(value);
  };
  for (int i = 0; i < 10'000; ++i) {
    const double x = random.uniform();
    add(exact_exp(200 * x - 100));
    add(exact_log(x));
    add(exact_cos_turns(x));
  }
  CHECK(checksum == 521291350693257720u);
}

}  // namespace
}  // namespace starling::test_elementary
