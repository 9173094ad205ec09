// What elementary.cpp's functions do for arguments that need no care, one argument or, in a loop that the compiler
// vectorizes, many: always inlined, without branches. Loops of them give the bits of the functions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace starling::cores {

inline constexpr double ln2 = 0x1.62e42fefa39efp-1;
inline constexpr double ln2_low = 0x1.abc9e3b39803fp-56;
inline constexpr double log2_e = 0x1.71547652b82fep+0;
inline constexpr double half_pi_low = 0x1.1a62633145c07p-54;

// (exp(x) - 1 - x) / x^2, |x| <= ln(2) / 2.
inline constexpr double exp_series[] = {
    1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
    1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};

// (2 atanh(s) - 2 s) / s^3 in s^2, |s| <= 0.172.
inline constexpr double log_series[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                        2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};

// sin(pi/2 a) / a and cos(pi/2 a) in a^2, |a| <= 1/2: (-1)^i (pi/2)^n / n!, n = 2 i + 1 and n = 2
// i.
inline constexpr double sine_series[] = {
    0x1.921fb54442d18p+0,  -0x1.4abbce625be53p-1,  0x1.466bc6775aae2p-4,
    -0x1.32d2cce62bd86p-8, 0x1.50783487ee782p-13,  -0x1.e3074fde8871fp-19,
    0x1.e8f434d018d63p-25, -0x1.6fadb9f155744p-31, 0x1.aaec32af93359p-38};
inline constexpr double cosine_series[] = {1.0,
                                           -0x1.3bd3cc9be45dep+0,
                                           0x1.03c1f081b5ac4p-2,
                                           -0x1.55d3c7e3cbffap-6,
                                           0x1.e1f506891babbp-11,
                                           -0x1.a6d1f2a204a8cp-16,
                                           0x1.f9d38a3763cc3p-22,
                                           -0x1.b6e24f44b128fp-28,
                                           0x1.20c62c2f2d7f5p-34};

/// coefficients[first] + x * (coefficients[first + 1] + x * ( ... )), one fused multiply-add per term.
template <int first = 0, int count>
[[gnu::always_inline]] inline double horner(double x, const double (&coefficients)[count]) {
  if constexpr (first == count - 1) {
    return coefficients[first];
  } else {
    return std::fma(horner<first + 1>(x, coefficients), x, coefficients[first]);
  }
}

/// 2^exponent, -1022 <= exponent <= 1023.
[[gnu::always_inline]] inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// |x| < 2^31. Loops with std::floor would not be vectorized.
[[gnu::always_inline]] inline double floor(double x) {
  const auto toward_zero = static_cast<double>(static_cast<int>(x));
  const auto is_above = static_cast<int>(std::bit_cast<std::uint64_t>(x - toward_zero) >> 63);
  return toward_zero - static_cast<double>(is_above);
}

/// -745.14 <= x <= 709.79
// e^x = 2^k e^r with k the whole number nearest to x / ln 2. The first product below is exact after
// its sum (x and k ln2 agree in their leading bits), so r is rounded once. 2^k is applied in two
// factors, because k reaches 1024 and -1075; only the second product can round, in the subnormal
// range.
[[gnu::always_inline]] inline double exp(double x) {
  const double k = floor(std::fma(x, log2_e, 0.5));
  const double r = std::fma(-k, ln2_low, std::fma(-k, ln2, x));
  const double value = 1.0 + std::fma(r * r, horner(r, exp_series), r);
  const int exponent = static_cast<int>(k);
  const int half = exponent / 2;
  return value * power_of_two(half) * power_of_two(exponent - half);
}

/// Logarithm of x 2^exponent; x is positive, finite and not subnormal.
// log(x) = k ln 2 + log(1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and with s = f / (2 + f)
//   log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + R(s^2)),  R(z) = 2/3 z + 2/5 z^2 + ...,
// where f is exact and everything after it is small (the scheme of fdlibm, Sun Microsystems, 1993).
[[gnu::always_inline]] inline double log(double x, int exponent = 0) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t mantissa = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
  const std::uint64_t is_large = mantissa > 0x3ff6a09e667f3bcdu;  // sqrt(2); then it is halved
  const double fraction = std::bit_cast<double>(mantissa - (is_large << 52));
  exponent += static_cast<int>((bits >> 52) + is_large) - 1023;
  const double f = fraction - 1.0;
  const double s = f / (2.0 + f);
  const double square = s * s;
  const double half_square = 0.5 * f * f;
  const double series = std::fma(square, horner(square, log_series), half_square);
  const auto k = static_cast<double>(exponent);
  const double small = half_square - std::fma(s, series, k * ln2_low);
  return std::fma(k, ln2, f - small);
}

/// sin(pi/2 a), |a| <= 1/2
// The leading pi/2 joins last, as a pair, so that its own rounding does not show.
[[gnu::always_inline]] inline double sine(double a) {
  const double square = a * a;
  const double rest = horner<1>(square, sine_series);
  return std::fma(a, sine_series[0], a * std::fma(rest, square, half_pi_low));
}

/// cos(pi/2 a), |a| <= 1/2
[[gnu::always_inline]] inline double cosine(double a) { return horner(a * a, cosine_series); }

}  // namespace starling::cores
