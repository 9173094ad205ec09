// The fixed point that all algorithms share which average models after blocks of local steps.
#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/quadratic.hpp"
#include "sim/base/types.hpp"

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

}  // namespace starling::test
