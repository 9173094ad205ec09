#include "algorithms/gradient_code.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "algorithms/exchange.hpp"
#include "sim/base/error.hpp"

namespace starling::algorithms {
namespace {

/// A column of a matrix: the rows from `first` on; all others are zero.
struct Column {
  std::size_t first = 0;
  std::vector<double> values = {};

  std::size_t end() const { return first + values.size(); }
  double& operator[](std::size_t row) { return values[row - first]; }
  /// Makes room for the rows from `begin` to `behind`.
  void widen(std::size_t begin, std::size_t behind) {
    if (begin < first) {
      values.insert(values.begin(), first - begin, 0.0);
      first = begin;
    }
    if (behind > end()) values.resize(behind - first);
  }
};

/// The x that minimizes |A x - b|, for A with at least as many rows as columns, by Householder reflections. The columns before
/// `wide` begin and end each behind the one before; of them only those that overlap are combined, which leaves out
/// nothing but zeros.
std::vector<double> least_squares(std::vector<Column> a, std::size_t wide, Column b) {
  const std::size_t columns = a.size();
  const auto for_later = [&](std::size_t c, std::size_t row, auto visit) {
    for (std::size_t o = c + 1; o < wide && a[o].first <= row; ++o) visit(o);
    for (std::size_t o = std::max(c + 1, wide); o < columns; ++o) visit(o);
  };
  for (std::size_t c = 0; c < columns; ++c) {
    a[c].widen(c, a[c].end());
    double norm = 0;
    for (std::size_t r = c; r < a[c].end(); ++r) norm = std::fma(a[c][r], a[c][r], norm);
    norm = std::sqrt(norm);
    ensure(norm > 0, "a gradient code with dependent rows");
    const std::size_t end = a[c].end();
    std::vector<double> v(a[c].values.end() - static_cast<std::ptrdiff_t>(end - c),
                          a[c].values.end());
    v[0] += a[c][c] > 0 ? norm : -norm;
    double square = 0;
    for (const double x : v) square = std::fma(x, x, square);
    const auto reflect = [&](Column& y) {
      y.widen(c, end);
      double along = 0;
      for (std::size_t r = c; r < end; ++r) along = std::fma(v[r - c], y[r], along);
      for (std::size_t r = c; r < end; ++r) y[r] -= 2 * along / square * v[r - c];
    };
    reflect(a[c]);
    for_later(c, end - 1, [&](std::size_t other) { reflect(a[other]); });
    reflect(b);
  }
  std::vector<double> x(columns);
  for (std::size_t c = columns; c-- > 0;) {
    double rest = b[c];
    for_later(c, c, [&](std::size_t other) { rest -= a[other][c] * x[other]; });
    x[c] = rest / a[c][c];
  }
  return x;
}

}  // namespace

GradientCode::GradientCode(Form form, std::size_t nodes, std::size_t stragglers, Random random)
    : form_(form), nodes_(nodes), stragglers_(stragglers), terms_(nodes) {
  ensure(stragglers < nodes, "a gradient code that needs nobody");
  if (form_ == Form::cyclic) {
    make_cyclic(random);
  } else {
    make_repetition();
  }
}

void GradientCode::make_repetition() {
  const std::size_t size = stragglers_ + 1;
  ensure(nodes_ % size == 0, "groups of a repetition code do not come out even");
  for (std::size_t i = 0; i < nodes_; ++i) {
    for (std::size_t p = 0; p < size; ++p) terms_[i].push_back({i / size * size + p, 1});
  }
}

void GradientCode::make_cyclic(Random random) {
  std::vector<std::vector<double>> h(nodes_, std::vector<double>(stragglers_));
  for (std::size_t r = 0; r < stragglers_; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c + 1 < nodes_; ++c) sum += h[c][r] = random.normal();
    h[nodes_ - 1][r] = -sum;
  }
  for (std::size_t i = 0; i < nodes_; ++i) {
    std::vector<Column> others;
    for (std::size_t p = 1; p <= stragglers_; ++p)
      others.push_back({.values = h[(i + p) % nodes_]});
    std::vector<double> right = h[i];
    for (double& x : right) x = -x;
    terms_[i].push_back({i, 1});
    if (stragglers_ == 0) continue;
    const std::vector<double> factors =
        least_squares(std::move(others), 0, {.values = std::move(right)});
    for (std::size_t p = 1; p <= stragglers_; ++p) {
      terms_[i].push_back({(i + p) % nodes_, factors[p - 1]});
    }
  }
}

std::vector<double> GradientCode::decode(std::span<const std::size_t> arrived) const {
  if (form_ == Form::repetition) return decode_repetition(arrived);
  if (arrived.size() + stragglers_ < nodes_) return {};
  std::vector<Column> rows;
  std::size_t wide = 0;
  for (const std::size_t node : arrived.first(nodes_ - stragglers_)) {
    const bool goes_around = node + stragglers_ >= nodes_;
    if (!goes_around) ++wide;
    Column& row = rows.emplace_back();
    row.first = goes_around ? 0 : node;
    row.values.resize(goes_around ? nodes_ : stragglers_ + 1);
    for (const Term& term : terms_[node]) row[term.part] = term.factor;
  }
  std::vector<double> factors =
      least_squares(std::move(rows), wide, {.values = std::vector<double>(nodes_, 1.0)});
  factors.resize(arrived.size());
  return factors;
}

std::vector<double> GradientCode::decode_repetition(std::span<const std::size_t> arrived) const {
  const std::size_t size = stragglers_ + 1;
  std::vector<double> factors(arrived.size());
  std::vector<bool> is_there(nodes_ / size);
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

std::shared_ptr<SharedGradientCode> read_gradient_code(const Section& section, std::int64_t nodes,
                                                       std::string_view where) {
  using Form = GradientCode::Form;
  const auto form =
      section.choice<Form>("code", {{"cyclic", Form::cyclic}, {"repetition", Form::repetition}},
                           "cyclic", "which parts a node computes, and how they combine");
  const auto stragglers = section.optional<std::int64_t>(
      "stragglers", 1,
      fmt::format("nodes that a step can do without{}; each node computes one part more than that",
                  where));
  const bool leaves_some = stragglers >= 0 && stragglers < nodes;
  section.expect(leaves_some, "stragglers", "must be from 0 to {}{}, got {}", nodes - 1, where,
                 stragglers);
  section.expect(form == Form::cyclic || (leaves_some && nodes % (stragglers + 1) == 0),
                 "stragglers", "plus one must divide the {} nodes{} for a repetition code, got {}",
                 nodes, where, stragglers);
  return std::make_shared<SharedGradientCode>(form, static_cast<std::size_t>(nodes),
                                              static_cast<std::size_t>(stragglers));
}

Task<Message> answer(Node& node, std::span<const GradientCode::Term> terms, NodeId first_part,
                     Step k, Vector x, Tag next_model) {
  Vector combination;
  for (const GradientCode::Term& term : terms) {
    const auto owner = first_part + static_cast<NodeId>(term.part);
    auto [g, next] = co_await node.gradient_unless(0, next_model, owner, k, x);
    if (!g) co_return std::move(next);
    if (!combination) combination = node.zeros(x.size());
    combination.add_scaled(term.factor, g->values);
  }
  node.send(0, tag_of(Channel::request), combination, static_cast<double>(k));
  Message next = co_await node.receive(0, next_model);
  co_return next;
}

CodedAnswers::CodedAnswers(const GradientCode& code, std::size_t nodes)
    : code_(code), combinations_(nodes), has_kind_(nodes) {}

void CodedAnswers::take(std::size_t node, Vector combination) {
  if (combinations_[node]) return;
  combinations_[node] = std::move(combination);
  ++count_;
  const std::size_t kind = code_.kind_of(node);
  if (!has_kind_[kind]) ++kinds_;
  has_kind_[kind] = true;
}

Vector CodedAnswers::sum() const {
  if (kinds_ < code_.kinds_needed()) return {};
  std::vector<std::size_t> arrived;
  for (std::size_t i = 0; i < combinations_.size(); ++i) {
    if (combinations_[i]) arrived.push_back(i);
  }
  const std::vector<double> factors = code_.decode(arrived);
  std::vector<Weighted> terms;
  for (std::size_t a = 0; a < factors.size(); ++a) {
    if (factors[a] != 0) terms.push_back({factors[a], combinations_[arrived[a]]});
  }
  return weighted_sum(terms);
}

}  // namespace starling::algorithms
