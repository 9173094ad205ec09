// Folding: a sum whose gradient nobody else reads is computed together with the gradient, which is then never stored
// (GradientRequest::sums). Which sums these are is found here, once per window.
//
// A sum joins gradient g if g, or a sum that has joined g, is among its terms, and all its other terms are known
// before g is computed; for a sum that alone reads g, g waits until they are. g is folded if everybody who reads it
// has joined it, and no handle is left. Bits do not depend on it: the sum is the same chain of fused multiply-adds
// either way.

#include <algorithm>

#include "sim/node/compute_graph.hpp"

namespace starling {

ComputeGraph::OperationId ComputeGraph::gradient_to_join(const Operation& sum) {
  if (sum.kind != Kind::sum || sum.size != parameters_ || sum.term_count > most_folded_terms) {
    return none;
  }
  // The latest gradient among the terms; if there is none, the latest that a term has joined.
  OperationId joined = none;
  bool reads_gradient = false;
  for (std::uint32_t t = sum.first_term; t != none; t = open_.terms[t].next) {
    const Value& term = values_[open_.terms[t].value];
    if (term.gradient == none) continue;
    const bool is_gradient = term.producer == term.gradient;
    if (is_gradient < reads_gradient) continue;
    if (is_gradient > reads_gradient || joined == none ||
        open_.operations[term.gradient].level > open_.operations[joined].level) {
      joined = term.gradient;
      reads_gradient = is_gradient;
    }
  }
  if (joined == none) return none;
  Operation& gradient = open_.operations[joined];
  if (gradient.folded == most_folded_sums) return none;

  Level others = 0;  // when all other terms are known
  bool waits_for_gradient = false;
  for (std::uint32_t t = sum.first_term; t != none; t = open_.terms[t].next) {
    const Value& term = values_[open_.terms[t].value];
    if (term.gradient == joined) continue;
    others = std::max(others, term.available | gradient_depth);
    waits_for_gradient |=
        term.producer != none && term.producer == term.gradient && term.available > gradient.level;
  }
  if (others <= gradient.level) return joined;
  // Put off, unless it would leave its batch for that of another gradient in the same sum.
  Value& out = values_[gradient.out];
  if (!reads_gradient || waits_for_gradient || out.readers != 1) return none;
  gradient.level = others;
  set_available(gradient);
  return joined;
}

void ComputeGraph::fold_sums() {
  joins_.clear();
  for (const OperationId id : open_.order) {
    Operation& operation = open_.operations[id];
    set_level(operation);
    if (operation.kind == Kind::gradient) {
      Value& out = values_[operation.out];
      if (out.handles == 0) out.gradient = id;
    } else if (const OperationId joined = gradient_to_join(operation); joined != none) {
      values_[operation.out].gradient = joined;
      ++open_.operations[joined].folded;
      joins_.emplace_back(joined, id);
      set_level(operation);  // the gradient may have been put off
      for (std::uint32_t t = operation.first_term; t != none; t = open_.terms[t].next) {
        Value& term = values_[open_.terms[t].value];
        term.joined_readers += term.producer == joined;
      }
    }
    if (operation.out != none) set_available(operation);
  }
  // Linked backwards, so that each list begins with the sum that joined first.
  for (std::size_t j = joins_.size(); j-- > 0;) {
    const auto [gradient, sum] = joins_[j];
    Operation& host = open_.operations[gradient];
    const Value& out = values_[host.out];
    if (out.joined_readers != out.readers) continue;
    open_.operations[sum].next_folded = host.next_folded;
    open_.operations[sum].is_folded = true;
    host.next_folded = sum;
  }
  std::erase_if(open_.order, [this](OperationId id) { return open_.operations[id].is_folded; });
  order_by_level();
}

}  // namespace starling
