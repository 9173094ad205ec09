#include "sim/node/vector.hpp"

#include <array>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/node/compute_graph.hpp"

namespace starling {
namespace {

constexpr const char* different_sizes = "a sum of vectors of different sizes";

}  // namespace

bool Vector::has_numbers() const { return graph_->has_numbers_; }

Vector Vector::slice(std::size_t offset, std::size_t size, Where where) const {
  ensure(offset <= size_ && size <= size_ - offset, "a slice reaches past the end of its vector",
         where);
  Vector part = *this;
  if (!graph(where).has_numbers_) {
    part.set_size_with_fraction(std::uint64_t{size} << fraction_bits);
    return part;
  }
  part.place_ += static_cast<std::uint32_t>(offset);
  part.size_ = static_cast<std::uint32_t>(size);
  return part;
}

Vector Vector::share(std::size_t index, std::size_t count, Where where) const {
  ensure(index < count, "the index of a share is not below their count", where);
  if (graph(where).has_numbers_) {
    const std::size_t begin = index * size_ / count;
    return slice(begin, (index + 1) * size_ / count - begin, where);
  }
  Vector part = *this;
  part.set_size_with_fraction(size_with_fraction() / count);
  return part;
}

void Vector::set_size_with_fraction(std::uint64_t size) {
  constexpr std::uint64_t fraction = (std::uint64_t{1} << fraction_bits) - 1;
  size_ = static_cast<std::uint32_t>(size >> fraction_bits);
  place_ = (place_ & numbers_bit) | static_cast<std::uint32_t>(size & fraction);
}

Vector Vector::as_numbers() const {
  Vector numbers = *this;
  numbers.place_ |= numbers_bit;
  return numbers;
}

std::uint32_t Vector::wire_marks() const {
  return graph_->has_numbers_ ? place_ & numbers_bit : place_;
}

Vector Vector::with_wire_marks(std::uint32_t marks) const {
  Vector marked = *this;
  const std::uint32_t fraction = (std::uint32_t{1} << fraction_bits) - 1;
  marked.place_ |= marks & (graph_->has_numbers_ ? numbers_bit : numbers_bit | fraction);
  return marked;
}

void Vector::scale(double factor, Where where) { graph(where).scale(*this, factor); }
void Vector::add_scaled(double factor, const Vector& y, Where where) {
  ComputeGraph& graph = this->graph(where);
  y.graph(where);
  ensure(size_ == y.size_, different_sizes, where);
  graph.add_scaled(*this, factor, y);
}

double Scalar::value(Where where) const {
  ensure(graph_ != nullptr, "the value of an empty scalar", where);
  return graph_->read(*this);
}

Vector weighted_sum(std::span<const Weighted> terms, Where where) {
  ensure(!terms.empty(), "an empty weighted sum", where);
  const std::uint32_t size = terms[0].vector.size_;
  for (const Weighted& term : terms) {
    term.vector.graph(where);
    ensure(term.vector.size_ == size, different_sizes, where);
  }
  ComputeGraph& graph = terms[0].vector.graph(where);
  if (!graph.has_numbers_) return terms[0].vector;
  ComputeGraph::Operation& operation = graph.begin(ComputeGraph::Kind::sum);
  for (const Weighted& term : terms) {
    graph.add_term(operation, term.vector, static_cast<float>(term.factor));
  }
  const Vector sum = graph.finish_vector(size);
  return terms[0].vector.are_numbers() ? sum.as_numbers() : sum;
}

Vector mean(std::span<const Vector> vectors, Where where) {
  std::vector<Weighted> terms;
  terms.reserve(vectors.size());
  for (const Vector& v : vectors) terms.push_back({1.0 / static_cast<double>(vectors.size()), v});
  return weighted_sum(terms, where);
}

Vector concatenate(std::span<const Vector> pieces, Where where) {
  ensure(!pieces.empty(), "an empty concatenation", where);
  std::uint32_t size = 0;
  for (const Vector& piece : pieces) {
    piece.graph(where);
    size += piece.size_;
  }
  ComputeGraph& graph = pieces[0].graph(where);
  const auto finished = [&] {
    if (!graph.has_numbers_) {
      std::uint64_t with_fractions = 0;
      for (const Vector& piece : pieces) with_fractions += piece.size_with_fraction();
      Vector whole = graph.hollow(size);
      whole.set_size_with_fraction(with_fractions);
      return whole;
    }
    ComputeGraph::Operation& operation = graph.begin(ComputeGraph::Kind::concatenation);
    for (const Vector& piece : pieces) graph.add_term(operation, piece, 1.0F);
    return graph.finish_vector(size);
  };
  const Vector whole = finished();
  return pieces[0].are_numbers() ? whole.as_numbers() : whole;
}

Vector transformed(const Transform& transform, std::initializer_list<Vector> inputs, Where where) {
  ensure(inputs.size() >= 1 && inputs.size() <= most_inputs, "a transform of too many vectors",
         where);
  std::array<std::size_t, most_inputs> sizes{};
  std::size_t count = 0;
  for (const Vector& v : inputs) {
    v.graph(where);
    sizes[count++] = v.size_;
  }
  const auto size =
      static_cast<std::uint32_t>(result_size(transform, {sizes.data(), count}, where));
  ComputeGraph& graph = inputs.begin()->graph(where);
  if (!graph.has_numbers_) return graph.hollow(size);
  ComputeGraph::Operation& operation = graph.begin(ComputeGraph::Kind::transform);
  operation.call = static_cast<std::uint32_t>(graph.open_.transforms.size());
  graph.open_.transforms.push_back(transform);
  for (const Vector& v : inputs) graph.add_term(operation, v, 1.0F);
  return graph.finish_vector(size);
}

Scalar measured(const Measure& measure, std::initializer_list<Vector> inputs, Where where) {
  ensure(inputs.size() > 0, "a measure of no vector", where);
  for (const Vector& v : inputs) {
    v.graph(where);
    ensure(v.size_ == inputs.begin()->size_, "a measure of vectors of different sizes", where);
  }
  ComputeGraph& graph = inputs.begin()->graph(where);
  ensure(graph.has_numbers_, "a measure of vectors without numbers", where);
  ComputeGraph::Operation& operation = graph.begin(ComputeGraph::Kind::measure);
  operation.call = static_cast<std::uint32_t>(graph.open_.measures.size());
  graph.open_.measures.push_back(measure);
  for (const Vector& v : inputs) graph.add_term(operation, v, 1.0F);
  return graph.set_scalar(operation, 0);
}

Scalar squared_distance(const Vector& a, const Vector& b, Where where) {
  ComputeGraph& graph = a.graph(where);
  b.graph(where);
  ensure(a.size_ == b.size_, "a distance of vectors of different sizes", where);
  ensure(graph.has_numbers_, "a distance of vectors without numbers", where);
  ComputeGraph::Operation& operation = graph.begin(ComputeGraph::Kind::distance);
  graph.add_term(operation, a, 1.0F);
  graph.add_term(operation, b, 1.0F);
  return graph.set_scalar(operation, 0);
}

}  // namespace starling
