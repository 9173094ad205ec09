// The table of topologies: catalog.inc is read twice, to declare the makers and to list them.

#include "topology/registry.hpp"

#include "sim/base/kinds.hpp"

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
  return find_kind(section, entries, "ring", "who talks with whom");
}

}  // namespace starling::topologies
