// A codec written down a second time, for slow twins of algorithms: the largest entries of a vector, by sorting.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace starling::test {

/// The `count` entries of largest magnitude, of equal ones those with the higher position; 0 elsewhere.
inline std::vector<double> keep_largest(const std::vector<double>& v, std::size_t count) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&v](std::size_t a, std::size_t b) { return std::abs(v[a]) < std::abs(v[b]); });
  std::vector<double> kept(v.size());
  for (std::size_t i = v.size() - count; i < v.size(); ++i) kept[order[i]] = v[order[i]];
  return kept;
}

}  // namespace starling::test
