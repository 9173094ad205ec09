#include "algorithms/column_order.hpp"

#include <algorithm>

namespace starling::algorithms {

ColumnOrder::ColumnOrder(const Node& node) : has_matrices_(!node.matrices().empty()) {
  std::size_t at = 0;
  std::span<const WeightMatrix> matrices = node.matrices();
  const auto add_tensor = [&](std::size_t size) {
    if (!matrices.empty() && matrices[0].offset == at) {
      tensors_.push_back({at, matrices[0].rows, matrices[0].columns, true});
      matrices = matrices.subspan(1);
    } else {
      tensors_.push_back({at, static_cast<std::uint32_t>(size), 1, false});
    }
    at += size;
  };
  for (const std::size_t size : node.tensors()) add_tensor(size);
  if (at == 0) add_tensor(node.parameters());
}

template <class Reordering>
Vector ColumnOrder::reordered(const Vector& v) const {
  if (!has_matrices_) return v;
  std::vector<Vector> parts;
  for (const Tensor& t : tensors_) {
    const Vector part = v.slice(t.offset, t.size());
    parts.push_back(t.is_matrix ? transformed(Reordering{t.rows, t.columns, true}, {part}) : part);
  }
  return concatenate(parts);
}

Vector ColumnOrder::ordered(const Vector& v) const {
  return reordered<transforms::PanelsToRows>(v);
}

Vector ColumnOrder::restored(const Vector& v) const {
  return reordered<transforms::RowsToPanels>(v);
}

std::vector<Columns> ColumnOrder::columns_in(std::size_t begin, std::size_t size) const {
  std::vector<Columns> found;
  const std::size_t end = begin + size;
  for (const Tensor& t : tensors_) {
    std::size_t at = std::max(begin, t.offset);
    const std::size_t last = std::min(end, t.offset + t.size());
    while (at < last) {
      const std::size_t of_column = (at - t.offset) % t.rows;
      const std::size_t whole = of_column == 0 ? (last - at) / t.rows : 0;
      found.push_back(whole > 0 ? Columns{whole, t.rows}
                                : Columns{1, std::min(t.rows - of_column, last - at)});
      at += found.back().count * found.back().size;
    }
  }
  return found;
}

}  // namespace starling::algorithms
