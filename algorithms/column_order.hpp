// Column order: a model whose weight matrices lie column by column, so that a piece of it is columns and parts of columns. A
// column is the weights into one unit, of a matrix of inputs x outputs; any other tensor is one column.
#pragma once

#include <vector>

#include "algorithms/codec.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

class ColumnOrder {
 public:
  explicit ColumnOrder(const Node& node);

  /// `v`, of a model's size, in column order, and back.
  Vector ordered(const Vector& v) const;
  Vector restored(const Vector& v) const;
  /// The columns in [begin, begin + size) of a model in column order; one that begins before or ends behind with what lies
  /// in there.
  std::vector<Columns> columns_in(std::size_t begin, std::size_t size) const;

 private:
  struct Tensor {
    std::size_t offset;
    std::uint32_t rows, columns;
    bool is_matrix;
    std::size_t size() const { return std::size_t{rows} * columns; }
  };

  template <class Reordering>
  Vector reordered(const Vector& v) const;

  bool has_matrices_;
  std::vector<Tensor> tensors_;
};

}  // namespace starling::algorithms
