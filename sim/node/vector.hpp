// Vector and Scalar: the numbers an algorithm computes with. A handle names an immutable value that may not
// exist yet; verbs append an operation to the ComputeGraph and let the handle name the result. Copying a handle
// copies no numbers, so a snapshot or a message costs nothing.
//
// Arithmetic is exact to the bit by contract: x.add_scaled(a, y) is fma(a, y[i], x[i]) in single precision for
// every element, whatever is batched, fused or moved to another device underneath.
//
// Whoever copies handles includes compute_graph.hpp, which knows how they are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/node/transform.hpp"

namespace starling {

class ComputeGraph;
class Scalar;
struct Weighted;

class Vector {
 public:
  /// Names nothing; only assignment, size() and `bool` are allowed.
  Vector() = default;
  inline Vector(const Vector& other);
  Vector(Vector&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)),
        value_(other.value_),
        place_(other.place_),
        size_(other.size_) {}
  inline Vector& operator=(const Vector& other);
  Vector& operator=(Vector&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(value_, other.value_);
    std::swap(place_, other.place_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Vector() {
    if (graph_ != nullptr) release();
  }

  explicit operator bool() const { return graph_ != nullptr; }
  /// Number of floats.
  std::size_t size() const { return size_; }
  /// False for a workload of sizes only.
  bool has_numbers() const;
  /// Bytes on the wire; a stand-in workload's vectors count as the big model's, numbers as themselves.
  inline std::int64_t wire_bytes() const;

  /// The same floats as numbers beside a model (averages, scalars), not as part of one: 4 bytes each, whatever the workload
  /// stands in for. Their slices and sums are numbers, and so is what is added or appended to numbers; what a transform makes
  /// of them is not.
  Vector as_numbers() const;

  /// What wire_bytes() depends on beside the size, for a message to another process: whether the floats are numbers beside a
  /// model and, of a vector without numbers, the fraction of a float beyond its size.
  std::uint32_t wire_marks() const;
  /// The same floats with the marks of the vector that they are a copy of.
  Vector with_wire_marks(std::uint32_t marks) const;

  /// Elements [offset, offset + size) as a vector of their own; no copy.
  Vector slice(std::size_t offset, std::size_t size, Where where = Where::current()) const;
  /// The index-th of so many slices, of nearly equal size; without numbers of equal size, not of whole floats.
  Vector share(std::size_t index, std::size_t count, Where where = Where::current()) const;

  /// x <- factor * x
  void scale(double factor, Where where = Where::current());
  /// x <- x + factor * y; equal sizes.
  void add_scaled(double factor, const Vector& y, Where where = Where::current());
  /// x <- x + y
  void add(const Vector& y, Where where = Where::current()) { add_scaled(1.0, y, where); }

 private:
  friend class ComputeGraph;
  friend Vector weighted_sum(std::span<const Weighted> terms, Where where);
  friend Vector concatenate(std::span<const Vector> pieces, Where where);
  friend Vector transformed(const Transform& transform, std::initializer_list<Vector> inputs,
                            Where where);
  friend Scalar measured(const Measure& measure, std::initializer_list<Vector> inputs, Where where);
  friend Scalar squared_distance(const Vector& a, const Vector& b, Where where);
  Vector(ComputeGraph* graph, std::uint32_t value, std::uint32_t offset, std::uint32_t size)
      : graph_(graph), value_(value), place_(offset), size_(size) {}
  inline void release();
  /// The graph, for a verb.
  ComputeGraph& graph(Where where) const {
    ensure(graph_ != nullptr, "an operation on an empty vector", where);
    return *graph_;
  }

  /// Set where the floats are numbers beside a model: a field of its own would make every move of a handle longer.
  static constexpr std::uint32_t numbers_bit = std::uint32_t{1} << 31;
  std::uint32_t offset() const { return place_ & ~numbers_bit; }
  /// A vector without numbers has the fraction of a float beyond its size in place of an offset.
  static constexpr int fraction_bits = 30;
  std::uint64_t size_with_fraction() const {
    return (std::uint64_t{size_} << fraction_bits) + offset();
  }
  void set_size_with_fraction(std::uint64_t size);
  bool are_numbers() const { return (place_ & numbers_bit) != 0; }

  ComputeGraph* graph_ = nullptr;
  std::uint32_t value_ = 0;
  std::uint32_t place_ = 0;  // the offset of the first float (or a fraction), and numbers_bit
  std::uint32_t size_ = 0;
};

/// A vector, which outlives it, and the factor it enters a sum with.
struct Weighted {
  double factor;
  const Vector& vector;
};

/// sum_t factor_t * v_t, terms in order; at least one term, equal sizes.
Vector weighted_sum(std::span<const Weighted> terms, Where where = Where::current());
/// (1/n) x_0 + (1/n) x_1 + ..., in order.
Vector mean(std::span<const Vector> vectors, Where where = Where::current());
/// The pieces one after the other.
Vector concatenate(std::span<const Vector> pieces, Where where = Where::current());
/// The result of a transform (sim/node/transform.hpp says which inputs it takes).
Vector transformed(const Transform& transform, std::initializer_list<Vector> inputs,
                   Where where = Where::current());

/// One number of the graph: a loss, a distance.
class Scalar {
 public:
  Scalar() = default;
  inline Scalar(const Scalar& other);
  Scalar(Scalar&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), slot_(other.slot_) {}
  Scalar& operator=(Scalar other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  inline ~Scalar();

  explicit operator bool() const { return graph_ != nullptr; }
  /// The number itself; a workload without numbers has none. Computes everything recorded so far: an algorithm that
  /// branches on values pays for it.
  double value(Where where = Where::current()) const;

 private:
  friend class ComputeGraph;
  Scalar(ComputeGraph* graph, std::uint32_t slot) : graph_(graph), slot_(slot) {}

  ComputeGraph* graph_ = nullptr;
  std::uint32_t slot_ = 0;
};

/// The number that a measure gives; not for vectors without numbers.
Scalar measured(const Measure& measure, std::initializer_list<Vector> inputs,
                Where where = Where::current());
/// sum_i (a_i - b_i)^2
Scalar squared_distance(const Vector& a, const Vector& b, Where where = Where::current());

/// A stochastic gradient and the loss of its mini-batch, both taken at the snapshot that was handed over.
struct Gradient {
  Vector values;
  Scalar loss;
  Scalar episodes{};  // that ended in its rollout; where WorkloadFacts::counts_episodes
};

/// Quality of one model on held-out data.
struct ModelQuality {
  Scalar loss;
  Scalar accuracy;  // NaN where the workload has none
};

}  // namespace starling
