// What the tests of [compute] share: a model out of keys, moments of draws.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/compute_time.hpp"
#include "tests/support/section_of_keys.hpp"

namespace starling::test {

inline ComputeTime compute(const Keys& keys, NodeId nodes = 8, std::uint64_t seed = 1,
                           BatchCost cost = {}) {
  return ComputeTime(section_of_keys("compute", keys), nodes, seed, std::move(cost));
}

/// Of the durations of all nodes at all steps, in seconds.
struct Moments {
  double mean, deviation, least;
};

inline Moments moments(const ComputeTime& time, NodeId nodes, Step steps) {
  double sum = 0, squares = 0, least = 1e300;
  for (NodeId i = 0; i < nodes; ++i) {
    for (Step k = 0; k < steps; ++k) {
      const double seconds = to_seconds(time.duration(i, k));
      sum += seconds;
      squares += seconds * seconds;
      least = std::min(least, seconds);
    }
  }
  const double count = static_cast<double>(nodes) * static_cast<double>(steps);
  return {sum / count, std::sqrt(squares / count - sum / count * (sum / count)), least};
}

}  // namespace starling::test
