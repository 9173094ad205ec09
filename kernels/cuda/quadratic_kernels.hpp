// Diagonal quadratics on a device (kernels/quadratic.cpp has the formulas). The loss is one chain of fused multiply-adds
// over all coordinates, so one thread adds what the block has prepared.
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

struct QuadraticTask {
  const float* x;
  float* gradient;
  const float* slopes;  // noise of this draw, or null
  std::uint64_t first;  // of the node's coordinates
};

inline constexpr unsigned quadratic_threads = 128;
inline constexpr std::uint32_t quadratic_tile = 1024;

/// Two factors of every term, side by side.
struct QuadraticTerms {
  double left[quadratic_tile], right[quadratic_tile];
};

/// loss <- fma(left_k, right_k, loss) for k = 0, 1, ..; terms(k, left, right) prepares coordinate k.
template <class Terms>
STARLING_DEVICE void add_in_order(const Block& block, std::uint32_t count, double start,
                                  double* result, const Terms& terms) {
  auto& tile = *reinterpret_cast<QuadraticTerms*>(block.shared_memory);
  block.each([&](unsigned thread) {
    if (thread == 0) *result = start;
  });
  for (std::uint32_t begin = 0; begin < count; begin += quadratic_tile) {
    const std::uint32_t here = lesser(quadratic_tile, count - begin);
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < here; i += quadratic_threads)
        terms(begin + i, tile.left[i], tile.right[i]);
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      double loss = *result;
      for (std::uint32_t i = 0; i < here; ++i) loss = fma(tile.left[i], tile.right[i], loss);
      *result = loss;
    });
  }
}

/// Gradient and loss of task `block`.
struct QuadraticKernel {
  static constexpr unsigned threads = quadratic_threads;
  static constexpr std::uint32_t shared_bytes = sizeof(QuadraticTerms);
  struct Arguments {
    const QuadraticTask* tasks;
    const float* curvature;  // (nodes, dimension)
    const float* center;
    double* losses;
    std::uint32_t dimension;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const QuadraticTask task = a.tasks[block.index];
    const float* curvature = a.curvature + task.first;
    const float* center = a.center + task.first;
    add_in_order(block, a.dimension, 0.0, a.losses + block.index,
                 [&](std::uint32_t k, double& left, double& right) {
                   const float slope = task.slopes == nullptr ? 0.0F : task.slopes[k];
                   const float away = task.x[k] - center[k];
                   const float g = fmaf(curvature[k], away, slope);
                   task.gradient[k] = g;
                   left = 0.5 * away;
                   right = double{g} + slope;
                 });
  }
};

/// The global objective at the model of task `block`.
struct QuadraticScoreKernel {
  static constexpr unsigned threads = quadratic_threads;
  static constexpr std::uint32_t shared_bytes = sizeof(QuadraticTerms);
  struct Arguments {
    const float* const* models;
    const double* mean_curvature;  // (dimension)
    const double* optimum;
    double optimal_loss;
    double* losses;
    std::uint32_t dimension;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const float* x = a.models[block.index];
    add_in_order(block, a.dimension, a.optimal_loss, a.losses + block.index,
                 [&](std::uint32_t k, double& left, double& right) {
                   right = x[k] - a.optimum[k];
                   left = 0.5 * a.mean_curvature[k] * right;
                 });
  }
};

}  // namespace starling::cuda
