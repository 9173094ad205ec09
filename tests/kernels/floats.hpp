// Rows of floats for tests of kernels: drawn, and compared bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"

namespace starling::test {

using Floats = std::vector<float>;

/// Normal, with this standard deviation.
inline Floats random_floats(Random& random, std::size_t count, double spread = 1) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(spread * random.normal());
  return values;
}

/// The same of a seed.
inline Floats random_floats(std::size_t count, std::uint64_t seed, double spread = 1) {
  Random random(seed, "values");
  return random_floats(random, count, spread);
}

/// Number of elements whose bits differ; NaN equals NaN.
inline std::size_t differences(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    count += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  }
  return count;
}

}  // namespace starling::test
