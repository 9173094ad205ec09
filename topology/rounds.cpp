#include "topology/rounds.hpp"

#include "topology/mixing.hpp"

namespace starling::topologies {

Step read_rounds(const Section& section) {
  const auto rounds = section.optional<std::int64_t>(
      "rounds", 128, "steps for which the topology is drawn; then it repeats");
  section.expect(rounds >= 1, "rounds", "must be at least 1, got {}", rounds);
  return rounds;
}

void expect_rounds_fit(const Section& section, Step rounds, NodeId nodes) {
  expect_arcs_fit(section, "rounds", static_cast<double>(rounds) * static_cast<double>(nodes));
}

}  // namespace starling::topologies
