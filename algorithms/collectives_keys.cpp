// The keys that say how collectives go.

#include <cstdint>
#include <limits>

#include "algorithms/collectives.hpp"

namespace starling::algorithms {

CollectiveKind read_collective(const Section& section, std::string_view fallback) {
  using enum CollectiveKind;
  const auto kind = section.choice<CollectiveKind>(
      "collective",
      {{"ring", ring},
       {"recursive_doubling", recursive_doubling},
       {"rabenseifner", rabenseifner},
       {"tree", tree},
       {"by_size", by_size},
       {"hierarchical", hierarchical}},
      fallback,
      "how models or gradients are summed over all nodes; unless their number is a "
      "power of two, all but rings first fold pairs of nodes, which then send up to "
      "twice the bytes; by_size: see collective_switch; hierarchical: rings of two "
      "levels, see collective_group");
  const ExchangeSettings usual;
  if (kind == by_size) {
    section.optional<Bytes>("collective_switch", Bytes{usual.collective_switch},
                            "largest piece that by_size sums by recursive doubling");
  }
  if (kind == hierarchical) {
    const auto group = section.optional<std::int64_t>(
        "collective_group", 0,
        "consecutive nodes, such as those of a host, that form a lower ring; 0: as "
        "network.nodes_per_host says, or 8; if the nodes that sum do not divide into equal groups, "
        "one ring of all");
    section.expect_range("collective_group", group, 0, std::numeric_limits<NodeId>::max());
  }
  return kind;
}

}  // namespace starling::algorithms
