#include "topology/matcha.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "sim/base/elementary.hpp"
#include "topology/interior_point.hpp"
#include "topology/matchings.hpp"

namespace starling::topologies {
namespace {

/// Minimizes s = -(algebraic connectivity) over the probabilities and s such that
///
///   P = sum_j p_j L_j + s (I - J) + J
///
/// is positive definite, and probabilities keep within their bounds and the budget.
class GreatestConnectivity {
 public:
  struct Point {
    Values variables;  // (matchings + 1): the probabilities, then s
    double barrier;
    Matrix p_inverse;
  };

  GreatestConnectivity(NodeId nodes, const Matchings& matchings, double budget)
      : nodes_(static_cast<std::size_t>(nodes)),
        matchings_(matchings),
        most_(budget * static_cast<double>(matchings.size())) {}

  double parameter() const { return static_cast<double>(nodes_ + 2 * matchings_.size() + 1); }

  Values start() const {
    // Eigenvalues of P are those of the graph, at least 0, and more.
    Values variables(matchings_.size(), 0.5 * most_ / static_cast<double>(matchings_.size()));
    variables.push_back(1);
    return variables;
  }

  std::optional<Point> point(Values variables) const {
    const double s = variables.back();
    double barrier = 0;
    double left = most_;
    for (std::size_t j = 0; j < matchings_.size(); ++j) {
      const double probability = variables[j];
      if (!(probability > 0 && probability < 1)) return std::nullopt;
      barrier -= exact_log(probability) + exact_log(1 - probability);
      left -= probability;
    }
    if (!(left > 0)) return std::nullopt;
    barrier -= exact_log(left);

    Matrix p(nodes_);
    const double even = (1 - s) / static_cast<double>(nodes_);
    for (std::size_t i = 0; i < nodes_; ++i) {
      for (std::size_t k = 0; k < nodes_; ++k) p.at(i, k) = even + (i == k ? s : 0);
    }
    for (std::size_t j = 0; j < matchings_.size(); ++j) {
      for (const Connection& a : matchings_[j]) p.add(a, variables[j]);
    }
    const auto log_determinant = p.invert();
    if (!log_determinant) return std::nullopt;
    barrier -= *log_determinant;
    return Point{std::move(variables), barrier, std::move(p)};
  }

  Matrix derivatives(const Point& at, Values& gradient) const {
    const std::size_t m = matchings_.size();
    const Matrix& p = at.p_inverse;
    Matrix hessian(m + 1);
    double left = most_;
    for (std::size_t j = 0; j < m; ++j) left -= at.variables[j];
    for (std::size_t j = 0; j < m; ++j) {
      const double probability = at.variables[j];
      gradient[j] += 1 / left + 1 / (1 - probability) - 1 / probability;
      for (const Connection& a : matchings_[j]) {
        gradient[j] -= p.between(a, a);
        hessian.at(j, m) += p.squared(a);
      }
      hessian.at(m, j) = hessian.at(j, m);
      for (std::size_t k = 0; k <= j; ++k) {
        double sum = 1 / (left * left);
        for (const Connection& a : matchings_[j]) {
          for (const Connection& b : matchings_[k]) {
            const double entry = p.between(a, b);
            sum += entry * entry;
          }
        }
        hessian.at(j, k) = hessian.at(k, j) = sum;
      }
      hessian.at(j, j) +=
          1 / (probability * probability) + 1 / ((1 - probability) * (1 - probability));
    }
    // P^-1 has the eigenvector of all ones, with eigenvalue 1.
    gradient[m] -= p.trace() - 1;
    hessian.at(m, m) = p.squared_norm() - 1;
    return hessian;
  }

 private:
  std::size_t nodes_;
  const Matchings& matchings_;
  double most_;  // sum of the probabilities
};

Matrix product(const Matrix& a, const Matrix& b) {
  const std::size_t n = a.size();
  Matrix result(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      const double factor = a.at(i, k);
      if (factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) result.at(i, j) += factor * b.at(k, j);
    }
  }
  return result;
}

/// The trace of a product.
double trace_of_product(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) sum += a.at(i, j) * b.at(j, i);
  }
  return sum;
}

/// Minimizes s over the weight w, v >= w w, and s such that
///
///   P = s I - (I - 2 w A + v K - J)
///
/// is positive definite, where A is the mean Laplacian, and K, of the squares, as in matcha.hpp.
class BestWeight {
 public:
  struct Point {
    Values variables;  // w, v, s
    double barrier;
    Matrix p_inverse;
  };

  BestWeight(NodeId nodes, const Matchings& matchings, const Values& probabilities)
      : mean_(static_cast<std::size_t>(nodes)), squares_(static_cast<std::size_t>(nodes)) {
    for (std::size_t j = 0; j < matchings.size(); ++j) {
      for (const Connection& a : matchings[j]) mean_.add(a, probabilities[j]);
    }
    squares_ = product(mean_, mean_);
    for (std::size_t j = 0; j < matchings.size(); ++j) {
      for (const Connection& a : matchings[j])
        squares_.add(a, 2 * probabilities[j] * (1 - probabilities[j]));
    }
  }

  double parameter() const { return static_cast<double>(mean_.size() + 1); }
  Values start() const { return {0, 1, 2 + squares_.trace()}; }

  std::optional<Point> point(Values variables) const {
    const double w = variables[0];
    const double v = variables[1];
    const double s = variables[2];
    const double above = v - w * w;
    if (!(above > 0)) return std::nullopt;
    const std::size_t n = mean_.size();
    const double even = 1 / static_cast<double>(n);
    Matrix p(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        p.at(i, j) = even + (i == j ? s - 1 : 0) + 2 * w * mean_.at(i, j) - v * squares_.at(i, j);
      }
    }
    const auto log_determinant = p.invert();
    if (!log_determinant) return std::nullopt;
    return Point{std::move(variables), -(*log_determinant + exact_log(above)), std::move(p)};
  }

  Matrix derivatives(const Point& at, Values& gradient) const {
    const double w = at.variables[0];
    const double above = at.variables[1] - w * w;
    const Matrix of_mean = product(at.p_inverse, mean_);
    const Matrix of_squares = product(at.p_inverse, squares_);
    gradient[0] += 2 * w / above - 2 * of_mean.trace();
    gradient[1] += of_squares.trace() - 1 / above;
    gradient[2] -= at.p_inverse.trace();
    Matrix hessian(3);
    const auto set = [&](std::size_t i, std::size_t j, double value) {
      hessian.at(i, j) = hessian.at(j, i) = value;
    };
    const double curvature = 1 / (above * above);
    set(0, 0, 4 * trace_of_product(of_mean, of_mean) + 2 / above + 4 * w * w * curvature);
    set(0, 1, -2 * trace_of_product(of_mean, of_squares) - 2 * w * curvature);
    set(0, 2, 2 * trace_of_product(of_mean, at.p_inverse));
    set(1, 1, trace_of_product(of_squares, of_squares) + curvature);
    set(1, 2, -trace_of_product(of_squares, at.p_inverse));
    set(2, 2, at.p_inverse.squared_norm());
    return hessian;
  }

 private:
  Matrix mean_;
  Matrix squares_;
};

}  // namespace

Matcha find_matcha(NodeId nodes, std::span<const Connection> connections, double budget) {
  if (nodes > matcha_most_nodes || connections.size() > matcha_most_connections) {
    throw std::invalid_argument(
        fmt::format("MATCHA's probabilities are found for at most {} nodes and {} connections, not "
                    "for {} and {}",
                    matcha_most_nodes, matcha_most_connections, nodes, connections.size()));
  }
  Matcha result{.matchings = split_into_matchings(nodes, connections),
                .probabilities = {},
                .weight = 0,
                .rho = 0};
  if (result.matchings.empty()) return result;
  if (budget == 1) {
    result.probabilities.assign(result.matchings.size(), 1);
  } else {
    const GreatestConnectivity problem(nodes, result.matchings, budget);
    result.probabilities = minimize(problem, problem.start());
    result.probabilities.pop_back();
  }
  const BestWeight problem(nodes, result.matchings, result.probabilities);
  const Values best = minimize(problem, problem.start());
  result.weight = best[0];
  result.rho = best[2];
  return result;
}

}  // namespace starling::topologies
