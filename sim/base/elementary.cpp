// exp, log, sine and cosine by argument reduction and a Taylor polynomial, in fused multiply-adds
// of one written order. The polynomials are the plain series (their coefficients are read off, not
// fitted), cut where the rest is below 2^-57 of the result; the error left is that of the last two
// or three roundings: at most 1.04 ulp where measured, see tests/sim/base/test_elementary.cpp. A
// constant that one double cannot hold is a pair x, x_low.
#include "sim/base/elementary.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Compiled twice, for processors with and without the instruction: a call of the C library per fused multiply-add
// would be most of the time. Both are exact, so the bits are the same.
#if defined(__x86_64__) && defined(__gnu_linux__)
#define STARLING_WITH_FMA __attribute__((target_clones("fma", "default")))
#else
#define STARLING_WITH_FMA
#endif

namespace starling {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

constexpr double ln2 = 0x1.62e42fefa39efp-1;
constexpr double ln2_low = 0x1.abc9e3b39803fp-56;
constexpr double log2_e = 0x1.71547652b82fep+0;
constexpr double half_pi_low = 0x1.1a62633145c07p-54;

/// coefficients[0] + x * (coefficients[1] + x * ( ... )), one fused multiply-add per term.
template <int count>
[[gnu::always_inline]] inline double horner(double x, const double (&coefficients)[count]) {
  double sum = coefficients[count - 1];
  for (int i = count - 2; i >= 0; --i) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

/// 2^exponent, -1022 <= exponent <= 1023.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// (exp(x) - 1 - x) / x^2, |x| <= ln(2) / 2.
constexpr double exp_series[] = {
    1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
    1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};

// (2 atanh(s) - 2 s) / s^3 in s^2, |s| <= 0.172.
constexpr double log_series[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};

// sin(pi/2 a) / a and cos(pi/2 a) in a^2, |a| <= 1/2: (-1)^i (pi/2)^n / n!, n = 2 i + 1 and n = 2
// i.
constexpr double sine_series[] = {
    0x1.921fb54442d18p+0,  -0x1.4abbce625be53p-1,  0x1.466bc6775aae2p-4,
    -0x1.32d2cce62bd86p-8, 0x1.50783487ee782p-13,  -0x1.e3074fde8871fp-19,
    0x1.e8f434d018d63p-25, -0x1.6fadb9f155744p-31, 0x1.aaec32af93359p-38};
constexpr double cosine_series[] = {1.0,
                                    -0x1.3bd3cc9be45dep+0,
                                    0x1.03c1f081b5ac4p-2,
                                    -0x1.55d3c7e3cbffap-6,
                                    0x1.e1f506891babbp-11,
                                    -0x1.a6d1f2a204a8cp-16,
                                    0x1.f9d38a3763cc3p-22,
                                    -0x1.b6e24f44b128fp-28,
                                    0x1.20c62c2f2d7f5p-34};

/// Sine of `quadrants` + a right angles, |a| <= 1/2.
[[gnu::always_inline]] inline double sine_of_quadrant(int quadrants, double a) {
  const double square = a * a;
  double value = 0;
  if (quadrants % 2 == 0) {
    // The leading pi/2 joins last, as a pair, so that its own rounding does not show.
    double rest = sine_series[8];
    for (int i = 7; i >= 1; --i) rest = std::fma(rest, square, sine_series[i]);
    value = std::fma(a, sine_series[0], a * std::fma(rest, square, half_pi_low));
  } else {
    value = horner(square, cosine_series);
  }
  return quadrants % 4 < 2 ? value : -value;
}

}  // namespace

// e^x = 2^k e^r with k the whole number nearest to x / ln 2. The first product below is exact after
// its sum (x and k ln2 agree in their leading bits), so r is rounded once. 2^k is applied in two
// factors, because k reaches 1024 and -1075; only the second product can round, in the subnormal
// range.
STARLING_WITH_FMA double exact_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.79) return infinity;
  if (x < -745.14) return 0;
  const double k = std::floor(std::fma(x, log2_e, 0.5));
  const double r = std::fma(-k, ln2_low, std::fma(-k, ln2, x));
  const double value = 1.0 + std::fma(r * r, horner(r, exp_series), r);
  const int exponent = static_cast<int>(k);
  const int half = exponent / 2;
  return value * power_of_two(half) * power_of_two(exponent - half);
}

// log(x) = k ln 2 + log(1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and with s = f / (2 + f)
//   log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + R(s^2)),  R(z) = 2/3 z + 2/5 z^2 + ...,
// where f is exact and everything after it is small (the scheme of fdlibm, Sun Microsystems, 1993).
STARLING_WITH_FMA double exact_log(double x) {
  if (std::isnan(x) || x == infinity) return x;
  if (x == 0) return -infinity;
  if (x < 0) return not_a_number;
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double fraction = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (fraction > 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    fraction *= 0.5;
    ++exponent;
  }
  const double f = fraction - 1.0;
  const double s = f / (2.0 + f);
  const double square = s * s;
  const double half_square = 0.5 * f * f;
  const double series = std::fma(square, horner(square, log_series), half_square);
  const auto k = static_cast<double>(exponent);
  const double small = half_square - std::fma(s, series, k * ln2_low);
  return std::fma(k, ln2, f - small);
}

STARLING_WITH_FMA double exact_sin_turns(double turns) {
  if (!(turns >= 0 && turns <= 1)) return not_a_number;
  const double quadrants = std::floor(std::fma(turns, 4.0, 0.5));
  return sine_of_quadrant(static_cast<int>(quadrants), std::fma(turns, 4.0, -quadrants));
}

STARLING_WITH_FMA double exact_cos_turns(double turns) {
  if (!(turns >= 0 && turns <= 1)) return not_a_number;
  const double quadrants = std::floor(std::fma(turns, 4.0, 0.5));
  return sine_of_quadrant(static_cast<int>(quadrants) + 1, std::fma(turns, 4.0, -quadrants));
}

}  // namespace starling
