// A gradient that is not finite makes its loss NaN, so that the run ends, or leaves the node out, there and then: mixed
// with others it would be another node's.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace starling {

inline bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t exponent = 0x7F800000u;  // all ones in infinity and NaN
  std::uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<std::uint32_t>(value) & exponent) == exponent;
  }
  return found == 0;
}

/// What GradientRequest::loss becomes; one that is not finite stays.
inline double loss_with(bool finite_gradient, double loss) {
  return finite_gradient || !std::isfinite(loss) ? loss : std::numeric_limits<double>::quiet_NaN();
}

/// Whether this thread, since it last asked, had a result too large for its type, or none (infinity minus infinity): the
/// processor notes it at no cost. Of finite numbers nothing else gives one that is not, but a division by 0.
inline bool has_overflowed() {
  constexpr int noted = FE_OVERFLOW | FE_INVALID;
  if (std::fetestexcept(noted) == 0) [[likely]]
    return false;
  std::feclearexcept(noted);
  return true;
}

}  // namespace starling
