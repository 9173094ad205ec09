// The fixed point that all algorithms share which average models after blocks of local steps.
#pragma once

#include <cmath>
#include <string>

#include "kernels/quadratic.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test {

/// Where the average of models stays put: H local steps on f_i move x - b_i by the factor (1 - lr
/// a_i)^H, so sum_i w_i (x - b_i) = 0 with w_i = 1 - (1 - lr a_i)^H. No averaged progress, no
/// momentum: outer rules do not move it.
inline double local_fixed_point(const Quadratic& problem, NodeId nodes, std::size_t k,
                                double learning_rate, int period) {
  double above = 0;
  double below = 0;
  for (NodeId i = 0; i < nodes; ++i) {
    const double w =
        1 - std::pow(1 - learning_rate * static_cast<double>(problem.curvature(i, k)), period);
    above += w * static_cast<double>(problem.center(i, k));
    below += w;
  }
  return above / below;
}

/// Largest difference of two runs' models, over nodes and coordinates.
inline double largest_difference(const Recorder& a, const Recorder& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.models.size(); ++i) {
    for (std::size_t k = 0; k < a.models[i].size(); ++k) {
      largest = std::fmax(largest, std::abs(static_cast<double>(a.models[i][k]) -
                                            static_cast<double>(b.models[i].at(k))));
    }
  }
  return largest;
}

}  // namespace starling::test
