// The table of topologies: catalog.inc is read twice, to declare the makers and to list them.

#include "topology/registry.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.hpp"

namespace starling::topologies {

#define TOPOLOGY(name, summary) Topology name(const Section&, NodeId, std::uint64_t);
#include "topology/catalog.inc"
#undef TOPOLOGY

namespace {

constexpr TopologyEntry entries[] = {
#define TOPOLOGY(name, summary) {#name, summary, &name},
#include "topology/catalog.inc"
#undef TOPOLOGY
};

}  // namespace

std::span<const TopologyEntry> catalog() { return entries; }

const TopologyEntry& find(const Section& section) {
  std::vector<std::string> names;
  for (const TopologyEntry& entry : entries) names.emplace_back(entry.name);
  const std::string kind = section.choice("kind", names, "ring", "who talks with whom");
  const auto found = std::ranges::find(entries, kind, &TopologyEntry::name);
  ensure(found != std::end(entries), "a choice is one of its options");
  return *found;
}

}  // namespace starling::topologies
