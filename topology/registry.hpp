// The catalog of topologies. A topology is one file with one function, and one line in catalog.inc:
// the name of the function is the name in scenarios.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"
#include "sim/node/topology.hpp"

namespace starling::topologies {

/// A name of the catalog and what it stands for.
struct TopologyEntry {
  std::string_view name;
  std::string_view summary;
  /// Reads and checks the keys of the section other than `kind`, then builds the topology of so
  /// many nodes; the seed matters to random ones only. Throws ScenarioError.
  Topology (*make)(const Section& section, NodeId nodes, std::uint64_t seed);
};

/// Every topology, in order of name.
std::span<const TopologyEntry> catalog();

/// The entry that the key `kind` of the section names; ring if it says nothing. Throws
/// ScenarioError.
const TopologyEntry& find(const Section& section);

}  // namespace starling::topologies
