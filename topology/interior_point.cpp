#include "topology/interior_point.hpp"

#include "sim/base/elementary.hpp"

namespace starling::topologies {

std::optional<double> Matrix::invert() {
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

void Matrix::add(const Connection& a, double w) {
  const std::size_t i = static_cast<std::size_t>(a.first);
  const std::size_t j = static_cast<std::size_t>(a.second);
  at(i, i) += w;
  at(j, j) += w;
  at(i, j) -= w;
  at(j, i) -= w;
}

double Matrix::between(const Connection& a, const Connection& b) const {
  const std::size_t i = static_cast<std::size_t>(a.first);
  const std::size_t j = static_cast<std::size_t>(a.second);
  const std::size_t p = static_cast<std::size_t>(b.first);
  const std::size_t q = static_cast<std::size_t>(b.second);
  return (at(i, p) - at(i, q)) - (at(j, p) - at(j, q));
}

double Matrix::squared(const Connection& a) const {
  double sum = 0;
  for (std::size_t r = 0; r < size_; ++r) {
    const double entry =
        at(r, static_cast<std::size_t>(a.first)) - at(r, static_cast<std::size_t>(a.second));
    sum += entry * entry;
  }
  return sum;
}

double Matrix::trace() const {
  double sum = 0;
  for (std::size_t i = 0; i < size_; ++i) sum += at(i, i);
  return sum;
}

double Matrix::squared_norm() const {
  double sum = 0;
  for (const double value : values_) sum += value * value;
  return sum;
}

}  // namespace starling::topologies
