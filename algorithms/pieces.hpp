// Models in pieces: how shared exchanges cut a vector, see ExchangePlan. A vector of the model's size travels in the
// plan's pieces, any other (a shard, a pair of vectors) as it is.
#pragma once

#include <span>
#include <vector>

#include "sim/node/node.hpp"

namespace starling::algorithms {

class Cut {
 public:
  Cut(const Node& node, const Vector& v)
      : vector_(v), whole_{0, v.size(), 1.0}, pieces_(node.pieces()) {
    if (v.size() != node.parameters() || pieces_.size() == 1) pieces_ = std::span(&whole_, 1);
  }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  std::size_t count() const { return pieces_.size(); }
  const Piece& operator[](std::size_t i) const { return pieces_[i]; }
  Vector part(std::size_t i) const { return vector_.slice(pieces_[i].offset, pieces_[i].size); }

  /// The vector that has these parts, in the order of pieces (which is from the end of the vector).
  Vector join(std::vector<Vector>& parts) const {
    if (parts.size() == 1) return parts[0];
    const std::vector<Vector> ordered(parts.rbegin(), parts.rend());
    return concatenate(ordered);
  }

 private:
  Vector vector_;
  Piece whole_;
  std::span<const Piece> pieces_;
};

}  // namespace starling::algorithms
