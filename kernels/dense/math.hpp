// Constants of the kernels' float exp and log (polynomials of Moshier's Cephes library, expf and
// logf); the plain loops and the vectorized builds share them. Included by kernel builds only.
#pragma once

#include <cstdint>

namespace starling::dense {
namespace {

// exp: x = n ln 2 + r with n rounded to nearest by adding and subtracting 1.5 * 2^23;
// e^r = 1 + (r + r^2 q(r)); then two multiplications by powers of two, so that underflow is
// gradual.
constexpr float exp_highest = 89.0f;   // overflows
constexpr float exp_lowest = -104.0f;  // rounds to 0
constexpr float log2_e = 1.44269504088896341f;
constexpr float rounding_shift = 12582912.0f;
constexpr std::uint32_t rounding_shift_bits = 0x4B400000u;
constexpr float ln2_high = 0.693359375f;
constexpr float ln2_low = -2.12194440e-4f;
constexpr float exp_polynomial[6] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                     4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};

// log: x = 2^e m with m in [sqrt(1/2), sqrt(2)), f = m - 1;
// ln m = f - f^2 / 2 + f^3 p(f).
constexpr std::uint32_t sqrt_half_bits = 0x3F3504F3u;
constexpr float log_polynomial[9] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                     -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                     2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};

// Layer normalization, and GELU in the form with tanh.
constexpr float norm_epsilon = 1e-5f;
constexpr float gelu_cubic = 0.044715f;
constexpr float gelu_slope = 1.59576912160573071f;  // 2 sqrt(2 / pi)

}  // namespace
}  // namespace starling::dense
