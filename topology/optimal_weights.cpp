// The fastest weights minimize s over the weights w_l of all connections l and s such that
//
//   P = s I - (W - J),   Q = s I + (W - J),   W = I - sum_l w_l a_l a_l^T
//
// are positive definite, a_l being 1 at one end and -1 at the other. Newton's method ends within 1e-9 of the optimum, which subgradients
// come near only slowly, but the time grows fast with the connections (some 5 s for 400).

#include "topology/optimal_weights.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "topology/interior_point.hpp"
#include "topology/mixing.hpp"
#include "topology/spectrum.hpp"

namespace starling::topologies {
namespace {

class FastestWeights {
 public:
  /// Weights and s, with the inverses of P and Q.
  struct Point {
    Values variables;  // (connections + 1): the weights, then s
    double barrier;
    Matrix p_inverse;
    Matrix q_inverse;
  };

  FastestWeights(NodeId nodes, std::span<const Connection> connections)
      : nodes_(static_cast<std::size_t>(nodes)), connections_(connections) {}

  double parameter() const { return 2.0 * static_cast<double>(nodes_); }

  std::optional<Point> point(Values variables) const {
    const double s = variables.back();
    const double even = 1 / static_cast<double>(nodes_);
    Matrix p(nodes_);
    Matrix q(nodes_);
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
    return Point{std::move(variables), -(*of_p + *of_q), std::move(p), std::move(q)};
  }

  Matrix derivatives(const Point& at, Values& gradient) const {
    const std::size_t m = connections_.size();
    const Matrix& p = at.p_inverse;
    const Matrix& q = at.q_inverse;
    Matrix hessian(m + 1);
    for (std::size_t l = 0; l < m; ++l) {
      const Connection& a = connections_[l];
      gradient[l] += q.between(a, a) - p.between(a, a);
      for (std::size_t k = 0; k <= l; ++k) {
        const double of_p = p.between(a, connections_[k]);
        const double of_q = q.between(a, connections_[k]);
        hessian.at(l, k) = hessian.at(k, l) = of_p * of_p + of_q * of_q;
      }
      hessian.at(l, m) = hessian.at(m, l) = p.squared(a) - q.squared(a);
    }
    gradient[m] -= p.trace();
    gradient[m] -= q.trace();
    hessian.at(m, m) = p.squared_norm() + q.squared_norm();
    return hessian;
  }

 private:
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

  variables = minimize(FastestWeights(nodes, connections), std::move(variables));
  variables.pop_back();
  return variables;
}

}  // namespace starling::topologies
