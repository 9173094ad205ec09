#include "topology/circulant.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

namespace starling::topologies {
namespace {

/// exp(i pi j/n), 0 <= j < n.
using HalfTurns = std::vector<std::complex<double>>;

/// A row of weights, of which every other row is a rotation.
struct Circulant {
  std::vector<Edge> row;   // of node 0
  double even_weight = 0;  // of all others, besides

  /// 1 - |lambda_k|, where lambda_k is the sum of W_0d w^d, w = exp(2 pi i k/n). As a row sums to one,
  /// 1 - lambda_k is that of W_0d (1 - w^d), and 1 - exp(2ia) = 2 sin(a) (sin(a) - i cos(a)).
  double shrinkage(std::size_t k, const HalfTurns& half_turns) const {
    const std::size_t n = half_turns.size();
    std::complex<double> distance =
        even_weight * static_cast<double>(n);  // all w^d together sum to nothing
    for (const Edge& edge : row) {
      const std::complex<double> half = half_turns[k * static_cast<std::size_t>(edge.peer) % n];
      distance += 2 * static_cast<double>(edge.weight) * half.imag() *
                  std::complex(half.imag(), -half.real());
    }
    const double squared = 2 * distance.real() - std::norm(distance);  // 1 - |lambda_k|^2
    return squared / (1 + std::sqrt(std::max(0.0, 1 - squared)));
  }
};

std::optional<Circulant> circulant(const Topology& topology, Step phase) {
  if (topology.is_complete()) return Circulant{{}, static_cast<double>(topology.in(0)[0].weight)};
  const Edges first = topology.in(0, phase);
  std::vector<float> weight_at(static_cast<std::size_t>(topology.nodes()));
  for (const Edge& edge : first) weight_at[static_cast<std::size_t>(edge.peer)] = edge.weight;
  for (NodeId node = 1; node < topology.nodes(); ++node) {
    const Edges edges = topology.in(node, phase);
    if (edges.size() != first.size()) return std::nullopt;
    for (const Edge& edge : edges) {
      const NodeId distance = edge.peer - node + (edge.peer < node ? topology.nodes() : 0);
      if (weight_at[static_cast<std::size_t>(distance)] != edge.weight) return std::nullopt;
    }
  }
  return Circulant{{first.begin(), first.end()}};
}

}  // namespace

std::optional<double> circulant_gap(const Topology& topology) {
  std::vector<Circulant> phases;
  for (std::size_t p = 0; p < topology.period(); ++p) {
    std::optional<Circulant> phase = circulant(topology, static_cast<Step>(p));
    if (!phase) return std::nullopt;
    phases.push_back(*std::move(phase));
  }
  const auto n = static_cast<std::size_t>(topology.nodes());
  HalfTurns half_turns(n);
  for (std::size_t j = 0; j < n; ++j)
    half_turns[j] =
        std::polar(1.0, std::numbers::pi * static_cast<double>(j) / static_cast<double>(n));
  double gap = 1;
  for (std::size_t k = 1; k <= n / 2; ++k) {  // lambda_(n-k) is the conjugate of lambda_k
    double logarithm = 0;                     // of the product
    for (const Circulant& phase : phases)
      logarithm += std::log1p(-std::min(1.0, phase.shrinkage(k, half_turns)));
    gap = std::min(gap, -std::expm1(logarithm));
  }
  return gap;
}

}  // namespace starling::topologies
