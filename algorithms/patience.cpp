#include "algorithms/patience.hpp"

namespace starling::algorithms {

Duration read_patience(const Section& section) {
  return section.optional<Duration>("patience", Duration{0},
                                    "give up on a silent node after that long; 0 s: never");
}

std::optional<Time> patience_ends(const Node& node, Duration patience) {
  if (patience == Duration::zero()) return std::nullopt;
  return after(node.now(), patience);
}

}  // namespace starling::algorithms
