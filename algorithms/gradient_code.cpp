#include "algorithms/gradient_code.hpp"

#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

namespace starling::algorithms {
namespace {

/// A dense matrix by columns.
using Columns = std::vector<std::vector<double>>;

/// The x that minimizes |A x - b|, for A with at least as many rows as columns, by Householder reflections.
std::vector<double> least_squares(Columns a, std::vector<double> b) {
  const std::size_t rows = b.size();
  const std::size_t columns = a.size();
  for (std::size_t c = 0; c < columns; ++c) {
    double norm = 0;
    for (std::size_t r = c; r < rows; ++r) norm = std::fma(a[c][r], a[c][r], norm);
    norm = std::sqrt(norm);
    ensure(norm > 0, "a gradient code with dependent rows");
    std::vector<double> v(a[c].begin() + static_cast<std::ptrdiff_t>(c), a[c].end());
    v[0] += a[c][c] > 0 ? norm : -norm;
    double square = 0;
    for (const double x : v) square = std::fma(x, x, square);
    const auto reflect = [&](std::vector<double>& y) {
      double along = 0;
      for (std::size_t r = c; r < rows; ++r) along = std::fma(v[r - c], y[r], along);
      for (std::size_t r = c; r < rows; ++r) y[r] -= 2 * along / square * v[r - c];
    };
    for (std::size_t other = c; other < columns; ++other) reflect(a[other]);
    reflect(b);
  }
  std::vector<double> x(columns);
  for (std::size_t c = columns; c-- > 0;) {
    double rest = b[c];
    for (std::size_t other = c + 1; other < columns; ++other) rest -= a[other][c] * x[other];
    x[c] = rest / a[c][c];
  }
  return x;
}

}  // namespace

GradientCode::GradientCode(const std::string& kind, std::size_t workers, std::size_t stragglers,
                           Random random)
    : workers_(workers), stragglers_(stragglers), is_cyclic_(kind == "cyclic"), terms_(workers) {
  ensure(stragglers < workers, "a gradient code that needs nobody");
  if (is_cyclic_) {
    make_cyclic(random);
  } else {
    make_repetition();
  }
}

void GradientCode::make_repetition() {
  const std::size_t size = stragglers_ + 1;
  ensure(workers_ % size == 0, "groups of a repetition code do not come out even");
  for (std::size_t i = 0; i < workers_; ++i) {
    for (std::size_t p = 0; p < size; ++p) terms_[i].push_back({i / size * size + p, 1});
  }
}

void GradientCode::make_cyclic(Random random) {
  Columns h(workers_, std::vector<double>(stragglers_));
  for (std::size_t r = 0; r < stragglers_; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c + 1 < workers_; ++c) sum += h[c][r] = random.normal();
    h[workers_ - 1][r] = -sum;
  }
  for (std::size_t i = 0; i < workers_; ++i) {
    Columns others;
    for (std::size_t p = 1; p <= stragglers_; ++p) others.push_back(h[(i + p) % workers_]);
    std::vector<double> right = h[i];
    for (double& x : right) x = -x;
    terms_[i].push_back({i, 1});
    if (stragglers_ == 0) continue;
    const std::vector<double> factors = least_squares(std::move(others), std::move(right));
    for (std::size_t p = 1; p <= stragglers_; ++p) {
      terms_[i].push_back({(i + p) % workers_, factors[p - 1]});
    }
  }
}

std::vector<double> GradientCode::decode(std::span<const std::size_t> arrived) const {
  if (!is_cyclic_) return decode_repetition(arrived);
  if (arrived.size() + stragglers_ < workers_) return {};
  Columns rows;
  for (const std::size_t worker : arrived.first(workers_ - stragglers_)) {
    rows.emplace_back(workers_);
    for (const Term& term : terms_[worker]) rows.back()[term.part] = term.factor;
  }
  std::vector<double> factors = least_squares(std::move(rows), std::vector<double>(workers_, 1.0));
  factors.resize(arrived.size());
  return factors;
}

std::vector<double> GradientCode::decode_repetition(std::span<const std::size_t> arrived) const {
  const std::size_t size = stragglers_ + 1;
  std::vector<double> factors(arrived.size());
  std::vector<bool> is_there(workers_ / size);
  std::size_t groups = 0;
  for (std::size_t a = 0; a < arrived.size(); ++a) {
    const std::size_t group = arrived[a] / size;
    if (is_there[group]) continue;
    is_there[group] = true;
    factors[a] = 1;
    ++groups;
  }
  if (groups < is_there.size()) return {};
  return factors;
}

}  // namespace starling::algorithms
