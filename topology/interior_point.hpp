// A barrier method for small convex problems over matrices that must stay positive definite. For growing t,
// Newton's method minimizes
//
//   t x_m + barrier(x),
//
// x_m the last of the variables, the barrier minus the logarithms of determinants and of what else must stay
// positive. At that minimum x_m is within parameter / t of the least, where `parameter` is the sum of the matrices' sizes and the number
// of single terms.
//
// All in plain loops of one thread and with our own logarithm: the results decide weights, so they are the same bits on every machine,
// which no library for eigenvalues or semidefinite programs promises. Takes time of the third power of sizes.
//
// Boyd, Vandenberghe, "Convex Optimization", 2004, sections 11.3 and 11.6.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies {

using Values = std::vector<double>;

/// A symmetric matrix, in full, row by row.
class Matrix {
 public:
  explicit Matrix(std::size_t size) : size_(size), values_(size * size, 0.0) {}

  std::size_t size() const { return size_; }
  double& at(std::size_t i, std::size_t j) { return values_[i * size_ + j]; }
  double at(std::size_t i, std::size_t j) const { return values_[i * size_ + j]; }

  /// Replaces the matrix by its inverse and answers the logarithm of its determinant; nothing if it is not
  /// positive definite. Gauss-Jordan elimination, which needs no pivoting then.
  std::optional<double> invert();

  /// Adds w a a^T, for a 1 at the first end of a connection and -1 at the second.
  void add(const Connection& a, double w);
  /// a^T M b for such a and b.
  double between(const Connection& a, const Connection& b) const;
  /// a^T M^2 a
  double squared(const Connection& a) const;
  double trace() const;
  double squared_norm() const;

 private:
  std::size_t size_;
  Values values_;
};

/// What minimize() wants of a problem.
template <class Problem>
concept ConvexProblem = requires(const Problem problem, Values variables, Values& gradient,
                                 const typename Problem::Point point) {
  // A point inside: `variables`, `barrier`, and what its derivatives need.
  { point.variables } -> std::convertible_to<Values>;
  { point.barrier } -> std::convertible_to<double>;
  // The point of these variables; nothing if it is not inside.
  { problem.point(std::move(variables)) } -> std::same_as<std::optional<typename Problem::Point>>;
  // Adds the barrier's gradient to `gradient` and answers its second derivatives.
  { problem.derivatives(point, gradient) } -> std::same_as<Matrix>;
  { problem.parameter() } -> std::convertible_to<double>;
};

namespace interior {

/// The first of the steps 1, 1/2, 1/4, .. along `direction` that stays inside and gains what it should.
template <ConvexProblem Problem>
std::optional<typename Problem::Point> descend(const Problem& problem,
                                               const typename Problem::Point& at,
                                               const Values& direction, double decrement,
                                               double t) {
  for (double length = 1; length > 1e-10; length *= 0.5) {
    Values variables = at.variables;
    for (std::size_t l = 0; l < variables.size(); ++l) variables[l] += length * direction[l];
    auto next = problem.point(std::move(variables));
    if (!next) continue;
    const double change = t * length * direction.back() + (next->barrier - at.barrier);
    if (change <= -0.25 * length * decrement) return next;
  }
  return std::nullopt;
}

/// Newton's method from `at` to the minimum for `t`.
template <ConvexProblem Problem>
typename Problem::Point center(const Problem& problem, typename Problem::Point at, double t) {
  // Square of Newton's decrement, of a quantity that is parameter / t large.
  constexpr double near = 1e-3;
  constexpr int most_steps = 100;
  for (int step = 0; step < most_steps; ++step) {
    Values gradient(at.variables.size(), 0.0);
    ensure(!gradient.empty(), "a convex problem without variables");
    gradient.back() = t;
    Matrix hessian = problem.derivatives(at, gradient);
    if (!hessian.invert()) return at;  // as near as doubles come
    Values direction(gradient.size(), 0.0);
    double decrement = 0;
    for (std::size_t l = 0; l < direction.size(); ++l) {
      for (std::size_t k = 0; k < direction.size(); ++k)
        direction[l] -= hessian.at(l, k) * gradient[k];
      decrement -= direction[l] * gradient[l];
    }
    if (!(decrement > near)) return at;
    auto next = descend(problem, at, direction, decrement, t);
    if (!next) return at;
    at = std::move(*next);
  }
  return at;
}

}  // namespace interior

/// The variables, from `start` inside on, whose last is within 1e-9 of the least.
template <ConvexProblem Problem>
Values minimize(const Problem& problem, Values start) {
  constexpr double most_missing = 1e-9;
  typename Problem::Point at = *problem.point(std::move(start));
  for (double t = 1;; t *= 16) {
    at = interior::center(problem, std::move(at), t);
    if (problem.parameter() / t < most_missing) return std::move(at.variables);
  }
}

}  // namespace starling::topologies
