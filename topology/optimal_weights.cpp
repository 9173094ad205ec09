// The barrier method for the fastest weights: for growing t, Newton's method minimizes
//
//   t s - log det P - log det Q,   P = s I - (W - J),   Q = s I + (W - J),   W = I - sum_l w_l a_l a_l^T
//
// over s and the weights w_l of all connections l, a_l being 1 at one end and -1 at the other. At the minimum
// s is within 2 n / t of the least.
//
// All in plain loops of one thread and with our own logarithm: weights decide results, so they are the same bits on every
// machine, which no library for eigenvalues or semidefinite programs promises. Newton's method ends within 1e-9 of the
// optimum, which subgradients come near only slowly, but the time grows fast with the connections (some 5 s for 400).
//
// Boyd, Vandenberghe, "Convex Optimization", 2004, sections 11.3 and 11.6.

#include "topology/optimal_weights.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "sim/base/elementary.hpp"
#include "topology/mixing.hpp"
#include "topology/spectrum.hpp"

namespace starling::topologies {
namespace {

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
  std::optional<double> invert() {
    double log_determinant = 0;
    for (std::size_t k = 0; k < size_; ++k) {
      double* const pivot_row = &values_[k * size_];
      const double pivot = pivot_row[k];
      if (!(pivot > 0)) return std::nullopt;
      log_determinant += exact_log(pivot);
      pivot_row[k] = 1;
      for (std::size_t j = 0; j < size_; ++j) pivot_row[j] /= pivot;
      for (std::size_t i = 0; i < size_; ++i) {
        if (i == k) continue;
        double* const row = &values_[i * size_];
        const double factor = std::exchange(row[k], 0.0);
        for (std::size_t j = 0; j < size_; ++j) row[j] -= factor * pivot_row[j];
      }
    }
    return log_determinant;
  }

  /// Adds w a a^T, for a as below.
  void add(const Connection& a, double w) {
    const auto i = static_cast<std::size_t>(a.first);
    const auto j = static_cast<std::size_t>(a.second);
    at(i, i) += w;
    at(j, j) += w;
    at(i, j) -= w;
    at(j, i) -= w;
  }
  /// a^T M b for a, b 1 at the first end of a connection and -1 at the second.
  double between(const Connection& a, const Connection& b) const {
    const auto i = static_cast<std::size_t>(a.first);
    const auto j = static_cast<std::size_t>(a.second);
    const auto p = static_cast<std::size_t>(b.first);
    const auto q = static_cast<std::size_t>(b.second);
    return (at(i, p) - at(i, q)) - (at(j, p) - at(j, q));
  }
  /// a^T M^2 a
  double squared(const Connection& a) const {
    double sum = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      const double entry =
          at(r, static_cast<std::size_t>(a.first)) - at(r, static_cast<std::size_t>(a.second));
      sum += entry * entry;
    }
    return sum;
  }
  double trace() const {
    double sum = 0;
    for (std::size_t i = 0; i < size_; ++i) sum += at(i, i);
    return sum;
  }
  double squared_norm() const {
    double sum = 0;
    for (const double value : values_) sum += value * value;
    return sum;
  }

 private:
  std::size_t size_;
  Values values_;
};

/// A point inside: weights and s, with the inverses of P and Q.
struct Interior {
  Values variables;  // (connections + 1): the weights, then s
  Matrix p_inverse;
  Matrix q_inverse;
  double log_determinants = 0;  // of P and Q together
};

class Barrier {
 public:
  Barrier(NodeId nodes, std::span<const Connection> connections)
      : nodes_(static_cast<std::size_t>(nodes)), connections_(connections) {}

  /// The point of these variables; nothing if it is not inside.
  std::optional<Interior> point(Values variables) const {
    const double s = variables.back();
    const double even = 1 / static_cast<double>(nodes_);
    Interior result{.variables = {}, .p_inverse = Matrix(nodes_), .q_inverse = Matrix(nodes_)};
    Matrix& p = result.p_inverse;
    Matrix& q = result.q_inverse;
    for (std::size_t i = 0; i < nodes_; ++i) {
      for (std::size_t j = 0; j < nodes_; ++j) {
        p.at(i, j) = even + (i == j ? s - 1 : 0);
        q.at(i, j) = -even + (i == j ? s + 1 : 0);
      }
    }
    for (std::size_t l = 0; l < connections_.size(); ++l) {
      p.add(connections_[l], variables[l]);
      q.add(connections_[l], -variables[l]);
    }
    const auto of_p = p.invert();
    if (!of_p) return std::nullopt;
    const auto of_q = q.invert();
    if (!of_q) return std::nullopt;
    result.log_determinants = *of_p + *of_q;
    result.variables = std::move(variables);
    return result;
  }

  /// Newton's method from `at` to the minimum for `t`.
  Interior center(Interior at, double t) const {
    // Square of Newton's decrement, of a quantity that is 2 n / t large.
    constexpr double near = 1e-3;
    constexpr int most_steps = 100;
    for (int step = 0; step < most_steps; ++step) {
      Values gradient;
      Matrix hessian = derivatives(at, t, gradient);
      if (!hessian.invert()) return at;  // as near as doubles come
      Values direction(gradient.size(), 0.0);
      double decrement = 0;
      for (std::size_t l = 0; l < direction.size(); ++l) {
        for (std::size_t k = 0; k < direction.size(); ++k)
          direction[l] -= hessian.at(l, k) * gradient[k];
        decrement -= direction[l] * gradient[l];
      }
      if (!(decrement > near)) return at;
      std::optional<Interior> next = descend(at, direction, decrement, t);
      if (!next) return at;
      at = std::move(*next);
    }
    return at;
  }

 private:
  Matrix derivatives(const Interior& at, double t, Values& gradient) const {
    const std::size_t m = connections_.size();
    const Matrix& p = at.p_inverse;
    const Matrix& q = at.q_inverse;
    Matrix hessian(m + 1);
    gradient.assign(m + 1, 0.0);
    for (std::size_t l = 0; l < m; ++l) {
      const Connection& a = connections_[l];
      gradient[l] = q.between(a, a) - p.between(a, a);
      for (std::size_t k = 0; k <= l; ++k) {
        const double of_p = p.between(a, connections_[k]);
        const double of_q = q.between(a, connections_[k]);
        hessian.at(l, k) = hessian.at(k, l) = of_p * of_p + of_q * of_q;
      }
      hessian.at(l, m) = hessian.at(m, l) = p.squared(a) - q.squared(a);
    }
    gradient[m] = t - p.trace() - q.trace();
    hessian.at(m, m) = p.squared_norm() + q.squared_norm();
    return hessian;
  }

  /// The first of the steps 1, 1/2, 1/4, .. along `direction` that stays inside and gains what it should.
  std::optional<Interior> descend(const Interior& at, const Values& direction, double decrement,
                                  double t) const {
    for (double length = 1; length > 1e-10; length *= 0.5) {
      Values variables = at.variables;
      for (std::size_t l = 0; l < variables.size(); ++l) variables[l] += length * direction[l];
      std::optional<Interior> next = point(std::move(variables));
      if (!next) continue;
      const double change =
          t * length * direction.back() - (next->log_determinants - at.log_determinants);
      if (change <= -0.25 * length * decrement) return next;
    }
    return std::nullopt;
  }

  std::size_t nodes_;
  std::span<const Connection> connections_;
};

/// The spectral gap of the graph with the same weight on every connection. W may be any such matrix, also one
/// that does not average.
double gap_of_constant(NodeId nodes, std::span<const Connection> connections, float weight) {
  std::vector<Topology::Arc> arcs;
  for (const auto& [first, second] : connections) {
    arcs.push_back({.sender = first, .receiver = second, .weight = weight});
    arcs.push_back({.sender = second, .receiver = first, .weight = weight});
  }
  const SpectralGap found = spectral_gap(complete_rows(nodes, {std::move(arcs)}),
                                         {.tolerance = 1e-8, .iterations = 20000});
  if (!found.converged) {
    throw std::invalid_argument(
        "the best constant weight of so long a graph cannot be found: its eigenvalues lie too "
        "dense");
  }
  return found.gap;
}

Values degrees(NodeId nodes, std::span<const Connection> connections) {
  Values degree(static_cast<std::size_t>(nodes), 0.0);
  for (const auto& [first, second] : connections) {
    ++degree[static_cast<std::size_t>(first)];
    ++degree[static_cast<std::size_t>(second)];
  }
  return degree;
}

}  // namespace

double best_constant_weight(NodeId nodes, std::span<const Connection> connections) {
  // I - c L has the eigenvalues 1 - c l_i. With c small all are positive, and the gap is c l_{n-1}; with
  // c large, as l_1 is more than the largest degree, that of l_1 is the farthest from 0: gap = 2 - c l_1.
  const auto degree = static_cast<float>(std::ranges::max(degrees(nodes, connections)));
  const float small = 0.5F / degree;
  const float large = 4 / (degree + 1);
  const double least = gap_of_constant(nodes, connections, small) / static_cast<double>(small);
  const double largest =
      (2 - gap_of_constant(nodes, connections, large)) / static_cast<double>(large);
  return 2 / (largest + least);
}

std::vector<double> fastest_weights(NodeId nodes, std::span<const Connection> connections) {
  if (connections.size() > fastest_limit) {
    throw std::invalid_argument(
        fmt::format("the fastest mixing weights are found for at most {} connections, not for {}; "
                    "mixing = best_constant "
                    "has no such limit",
                    fastest_limit, connections.size()));
  }
  // Metropolis weights shrink every distance: they are inside for s = 2.
  const Values degree = degrees(nodes, connections);
  Values variables;
  for (const auto& [first, second] : connections) {
    variables.push_back(1 / (1 + std::max(degree[static_cast<std::size_t>(first)],
                                          degree[static_cast<std::size_t>(second)])));
  }
  variables.push_back(2);

  constexpr double most_missing = 1e-9;
  const Barrier barrier(nodes, connections);
  Interior at = *barrier.point(std::move(variables));
  for (double t = 1;; t *= 16) {
    at = barrier.center(std::move(at), t);
    if (2.0 * nodes / t < most_missing) break;
  }
  at.variables.pop_back();
  return at.variables;
}

}  // namespace starling::topologies
