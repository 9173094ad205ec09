// exp, log and cosine by argument reduction and a Taylor polynomial, in fused multiply-adds
// of one written order. The polynomials are the plain series (their coefficients are read off, not
// fitted), cut where the rest is below 2^-57 of the result; the error left is that of the last two
// or three roundings: at most 1.04 ulp where measured, see tests/sim/base/test_elementary.cpp. A
// constant that one double cannot hold is a pair x, x_low.
#include "sim/base/elementary.hpp"

#include <cmath>
#include <limits>

#include "sim/base/elementary_cores.hpp"
#include "sim/base/target_clones.hpp"

// For processors with and without the instruction: a call of the C library per fused multiply-add would be most of the
// time. Both are exact, so the bits are the same.
#define STARLING_WITH_FMA STARLING_TARGET_CLONES("fma", "default")

namespace starling {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

STARLING_WITH_FMA double exact_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.79) return infinity;
  if (x < -745.14) return 0;
  return cores::exp(x);
}

STARLING_WITH_FMA double exact_log(double x) {
  if (std::isnan(x) || x == infinity) return x;
  if (x == 0) return -infinity;
  if (x < 0) return not_a_number;
  const bool is_subnormal = x < std::numeric_limits<double>::min();
  return is_subnormal ? cores::log(x * 0x1p54, -54) : cores::log(x);
}

STARLING_WITH_FMA double exact_cos_turns(double turns) {
  if (!(turns >= 0 && turns <= 1)) return not_a_number;
  const double rounded = std::floor(std::fma(turns, 4.0, 0.5));
  const double a = std::fma(turns, 4.0, -rounded);  // right angles beyond, |a| <= 1/2
  const int quadrant = static_cast<int>(rounded) % 4;
  const double value = quadrant % 2 == 0 ? cores::cosine(a) : cores::sine(a);
  return quadrant == 0 || quadrant == 3 ? value : -value;
}

}  // namespace starling
