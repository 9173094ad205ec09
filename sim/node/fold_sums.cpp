// Folding: a sum whose gradient nobody else reads is computed together with the gradient, which is then never stored
// (GradientRequest::sums). Which sums these are is found here, once per window.
//
// A sum joins gradient g if g, or a sum that has joined g, is among its terms, and all its other terms are known
// before g is computed; for a sum that alone reads g, g waits until they are. g is folded if everybody who reads it
// has joined it, and no handle is left. Bits do not depend on it: the sum is the same chain of fused multiply-adds
// either way.

#include <algorithm>
#include <utility>

#include "sim/node/compute_graph.hpp"

namespace starling {

ComputeGraph::Place ComputeGraph::earliest(const Operation& operation) const {
  Place place;
  bool reads_gradient = false;
  for (std::uint32_t t = operation.first_term; t != none; t = open_.terms[t].next) {
    const OperationId producer = open_.terms[t].producer;
    if (producer == none) continue;
    const Place& made = places_[producer];
    place.level = std::max(place.level, made.level + 1);
    if (made.gradient == none) continue;
    // The latest gradient among the terms; if there is none, the latest that a term has joined.
    const bool is_gradient = made.gradient == producer;
    if (is_gradient < reads_gradient) continue;
    if (is_gradient > reads_gradient || place.gradient == none ||
        places_[made.gradient].level > places_[place.gradient].level) {
      place.gradient = made.gradient;
      reads_gradient = is_gradient;
    }
  }
  return place;
}

bool ComputeGraph::can_join(const Operation& sum, OperationId gradient) {
  if (sum.kind != Kind::sum || sum.size != parameters_ || sum.term_count > most_folded_terms ||
      places_[gradient].sums == most_folded_sums) {
    return false;
  }
  Level others = 0;  // when all other terms are known
  bool reads_gradient = false;
  bool waits_for_gradient = false;
  for (std::uint32_t t = sum.first_term; t != none; t = open_.terms[t].next) {
    const OperationId producer = open_.terms[t].producer;
    if (producer == none) continue;
    const Place& made = places_[producer];
    reads_gradient |= producer == gradient;
    if (made.gradient == gradient) continue;
    others = std::max(others, (made.level + 1) | gradient_depth);
    waits_for_gradient |= producer == made.gradient && made.level + 1 > places_[gradient].level;
  }
  if (others <= places_[gradient].level) return true;
  // Put off, unless it would leave its batch for that of another gradient in the same sum.
  if (!reads_gradient || waits_for_gradient ||
      values_[open_.operations[gradient].out].readers != 1) {
    return false;
  }
  places_[gradient].level = others;
  return true;
}

void ComputeGraph::place_operations() {
  places_.resize(open_.operations.size());
  joins_.clear();
  for (OperationId id = 0; id < open_.operations.size(); ++id) {
    const Operation& operation = open_.operations[id];
    if (operation.fate == Fate::dropped) continue;
    Place& place = places_[id];
    place = earliest(operation);
    if (operation.kind == Kind::gradient) {
      const bool may_fold = folds_sums_ && values_[operation.out].handles == 0;
      place.level |= gradient_depth;  // after all sums of its stage
      place.gradient = may_fold ? id : none;
    } else if (place.gradient != none && can_join(operation, place.gradient)) {
      Place& host = places_[place.gradient];
      place.level = std::max(place.level, host.level + 1);  // it may have been put off
      ++host.sums;
      for (std::uint32_t t = operation.first_term; t != none; t = open_.terms[t].next) {
        host.readers += open_.terms[t].producer == place.gradient;
      }
      joins_.emplace_back(place.gradient, id);
    } else {
      place.gradient = none;
      // What nobody reads yet would only stand between the gradients of two stages.
      if (operation.kind == Kind::sum && values_[operation.out].readers == 0) place.level = last;
    }
  }
  // Linked backwards, so that each list begins with the sum that joined first.
  for (std::size_t j = joins_.size(); j-- > 0;) {
    const auto [gradient, sum] = joins_[j];
    Operation& host = open_.operations[gradient];
    if (places_[gradient].readers != values_[host.out].readers) continue;
    Operation& folded = open_.operations[sum];
    folded.next_folded = std::exchange(host.next_folded, sum);
    folded.fate = Fate::folded;
    ++host.folded_sums;
    host.folded_terms = static_cast<std::uint8_t>(host.folded_terms + folded.term_count);
  }
}

}  // namespace starling
