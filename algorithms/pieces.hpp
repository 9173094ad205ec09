// Models in pieces: how shared exchanges cut a vector, see ExchangePlan. A vector of the model's size travels in the
// plan's pieces, any other (a shard, a pair of vectors) as it is.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "sim/node/node.hpp"

namespace starling::algorithms {

class Cut {
 public:
  /// With a `piece` of the model, to which the vector belongs: as it is, when that is there.
  Cut(const Node& node, Vector v, const Piece* piece = nullptr)
      : vector_(std::move(v)), whole_{0, vector_.size(), 1.0}, pieces_(node.pieces()) {
    if (piece != nullptr) {
      whole_.ready = piece->ready;
      whole_.is_bucket = piece->is_bucket;
    }
    if (piece != nullptr || vector_.size() != node.parameters()) pieces_ = std::span(&whole_, 1);
  }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  std::size_t count() const { return pieces_.size(); }
  const Piece& operator[](std::size_t i) const { return pieces_[i]; }
  Vector part(std::size_t i) const { return vector_.slice(pieces_[i].offset, pieces_[i].size); }

 private:
  Vector vector_;
  Piece whole_;
  std::span<const Piece> pieces_;
};

/// What the parts of a vector have become, one after the other in the order of pieces: from the vector's end.
class Parts {
 public:
  explicit Parts(std::size_t count) { others_.reserve(count - 1); }
  void add(Vector part) {
    if (last_) others_.push_back(std::move(last_));
    last_ = std::move(part);
  }
  /// The vector that has these parts, at least one.
  Vector join() {
    if (others_.empty()) return std::move(last_);
    std::vector<Vector> ordered{std::move(last_)};
    ordered.insert(ordered.end(), others_.rbegin(), others_.rend());
    return concatenate(ordered);
  }

 private:
  Vector last_;
  std::vector<Vector> others_;  // empty for a vector in one piece: no memory is asked for
};

}  // namespace starling::algorithms
