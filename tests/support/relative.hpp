// Comparisons of small numbers: doctest's own tolerance is absolute below one.
#pragma once

#include <cmath>

#include <doctest/doctest.h>

namespace starling::test {

/// Equals what lies within the share `tolerance` of `value`, however small that is. `Approx(value).epsilon(e)` allows
/// e (1 + |value|), so that 0 passes for 1e-9. `value` is not zero: of zero there is no share.
inline doctest::Approx relative(double value, double tolerance = 1e-5) {
  // doctest allows epsilon (scale + the larger of the two).
  return doctest::Approx(value).scale(std::abs(value)).epsilon(tolerance / 2);
}

}  // namespace starling::test
