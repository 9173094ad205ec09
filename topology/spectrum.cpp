// The Lanczos iteration without reorthogonalization: it finds the largest eigenvalue, all that is
// wanted here, as well as with it (Paige, "Accuracy and effectiveness of the Lanczos algorithm for
// the symmetric eigenproblem", Linear Algebra and its Applications 34, 1980), in the memory of a
// few vectors. But of two that lie close together it may stay at the smaller one for long. So where
// nodes are few it goes on, with reorthogonalization, until no direction is left.

#include "topology/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/random.hpp"
#include "topology/circulant.hpp"

namespace starling::topologies {
namespace {

using Values = std::vector<double>;  // (nodes)

double dot(const Values& x, const Values& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

void remove_mean(Values& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  const double mean = sum / static_cast<double>(x.size());
  for (double& value : x) value -= mean;
}

void remove_part(Values& x, const Values& direction) {
  const double part = dot(x, direction);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= part * direction[i];
}

/// A vector of length 1 without mean.
Values random_direction(std::size_t size) {
  Values v(size);
  Random rng(0, "spectrum");
  for (double& value : v) value = rng.uniform() - 0.5;
  remove_mean(v);
  const double length = std::sqrt(dot(v, v));
  for (double& value : v) value /= length;
  return v;
}

/// The matrices W_p, and the symmetric operator x -> M^T (I - J) M x. Vectors of equal entries are in its kernel.
class Shrinkage {
 public:
  explicit Shrinkage(const Topology& topology) : topology_(topology), scratch_(size()) {
    for (std::size_t p = 0; p < topology.period(); ++p) {
      Values& self = self_.emplace_back(size(), 1.0);
      for (std::size_t i = 0; i < size(); ++i) {
        for (const Edge& edge : topology.in(static_cast<NodeId>(i), static_cast<Step>(p))) {
          self[i] -= static_cast<double>(edge.weight);
        }
      }
    }
  }

  std::size_t size() const { return static_cast<std::size_t>(topology_.nodes()); }

  void apply(Values& x) {
    for (std::size_t p = 0; p < self_.size(); ++p) step(x, p);
    remove_mean(x);
    for (std::size_t p = self_.size(); p-- > 0;) multiply(x, p, &Topology::out);
  }

  /// x <- W_p x
  void step(Values& x, std::size_t p) { multiply(x, p, &Topology::in); }

 private:
  /// x <- W_p x through the arcs into each node, W_p^T x through those out of it.
  void multiply(Values& x, std::size_t p, Edges (Topology::*edges)(NodeId, Step) const) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      double sum = self_[p][i] * x[i];
      for (const Edge& edge : (topology_.*edges)(static_cast<NodeId>(i), static_cast<Step>(p))) {
        sum += static_cast<double>(edge.weight) * x[static_cast<std::size_t>(edge.peer)];
      }
      scratch_[i] = sum;
    }
    x.swap(scratch_);
  }

  const Topology& topology_;
  std::vector<Values> self_;  // (period, nodes)
  Values scratch_;
};

/// A symmetric tridiagonal matrix that grows by a row per iteration.
struct Tridiagonal {
  std::vector<double> diagonal;
  std::vector<double> beside;  // beside[k] couples rows k and k + 1

  /// Largest eigenvalue, to the last bit or so, by bisection between bounds.
  double largest_eigenvalue() const {
    double low = *std::ranges::max_element(diagonal);
    double high = low;
    for (std::size_t k = 0; k < diagonal.size(); ++k) {
      const double before = k > 0 ? beside[k - 1] : 0;
      const double after = k + 1 < diagonal.size() ? beside[k] : 0;
      high = std::max(high, diagonal[k] + before + after);  // Gershgorin
    }
    for (;;) {
      const double middle = low + 0.5 * (high - low);
      if (middle <= low || middle >= high) return high;
      (has_eigenvalue_above(middle) ? low : high) = middle;
    }
  }

 private:
  /// True if `x` minus the matrix is not positive definite: a pivot of its elimination is not
  /// positive.
  bool has_eigenvalue_above(double x) const {
    double pivot = x - diagonal[0];
    for (std::size_t k = 1; k < diagonal.size(); ++k) {
      if (pivot <= 0) return true;
      pivot = x - diagonal[k] - beside[k - 1] * beside[k - 1] / pivot;
    }
    return pivot <= 0;
  }
};

}  // namespace

SpectralGap spectral_gap(const Topology& topology, SpectrumLimits limits) {
  if (topology.nodes() == 1) return {.gap = 1, .converged = true};
  if (const auto exact = circulant_gap(topology)) return {.gap = *exact, .converged = true};
  if (limits.iterations < 1) return {.gap = 1, .converged = false};
  // Once the residual is so small, the square of it, which is the error of the eigenvalue, is
  // nothing.
  constexpr double exhausted = 1e-12;
  constexpr NodeId few_nodes = 256;  // some hundredths of a second

  const auto directions = topology.nodes() - 1;  // without that of equal entries
  const bool takes_all = topology.nodes() <= few_nodes && limits.iterations >= directions;
  std::vector<Values> taken;

  Shrinkage shrinkage(topology);
  Values v = random_direction(shrinkage.size());

  Values previous(v.size(), 0.0);
  Values w;
  Tridiagonal tridiagonal;
  double beta = 0;
  double gap = 1;
  int agreements = 0;
  int next_check = 4;
  for (int k = 1;; ++k) {
    w = v;
    shrinkage.apply(w);
    const double alpha = dot(w, v);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= alpha * v[i] + beta * previous[i];
    remove_mean(w);  // rounding would let the eigenvalue 1 of M back in
    if (takes_all) {
      taken.push_back(v);
      for (const Values& direction : taken) remove_part(w, direction);
    }
    beta = std::sqrt(dot(w, w));
    tridiagonal.diagonal.push_back(alpha);

    const bool is_exhausted = beta <= exhausted || (takes_all && k == directions);
    const bool is_last = k >= limits.iterations;
    if (is_exhausted || is_last || (!takes_all && k == next_check)) {
      next_check = k + std::max(2, k / 8);
      const double last_gap = gap;
      gap = 1 - std::sqrt(std::max(0.0, tridiagonal.largest_eigenvalue()));
      // Below 1e-12 the gap is rounding: the topology is not connected, or only permutes.
      const double change = std::abs(last_gap - gap);
      agreements = change <= limits.tolerance * std::abs(gap) + 1e-12 ? agreements + 1 : 0;
      if (is_exhausted || agreements == 2) return {gap, true};
      if (is_last) return {gap, false};
    }
    tridiagonal.beside.push_back(beta);
    previous.swap(v);
    for (std::size_t i = 0; i < w.size(); ++i) v[i] = w[i] / beta;
  }
}

double long_run_gap(const Topology& topology) {
  if (topology.nodes() == 1) return 1;
  constexpr std::size_t fewest_phases = 1000;
  constexpr std::size_t fewest_periods = 4;
  const std::size_t period = topology.period();
  const std::size_t periods = std::max(fewest_periods, fewest_phases / period + 1);
  Shrinkage shrinkage(topology);
  Values x = random_direction(shrinkage.size());
  double logarithm = 0;  // of what is left
  const std::size_t begin = periods / 2;
  for (std::size_t k = 0; k < periods; ++k) {
    for (std::size_t p = 0; p < period; ++p) {
      shrinkage.step(x, p);
      remove_mean(x);
      const double length = std::sqrt(dot(x, x));
      if (length == 0) return 1;
      for (double& value : x) value /= length;
      if (k >= begin) logarithm += std::log(length);
    }
  }
  return -std::expm1(logarithm / static_cast<double>((periods - begin) * period));
}

}  // namespace starling::topologies
