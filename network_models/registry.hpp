// The catalog of network models. A network model is one file with one function, and one line in
// catalog.inc: the name of the function is the name in scenarios.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"
#include "sim/engine/network_model.hpp"

namespace starling::network_models {

/// A name of the catalog and what it stands for.
struct NetworkModelEntry {
  std::string_view name;
  std::string_view summary;
  /// Reads and checks the keys of the section other than `kind`, then builds a network that joins
  /// so many nodes. `seed` names its random streams, if it has any. Throws ScenarioError.
  std::unique_ptr<NetworkModel> (*make)(const Section& section, NodeId nodes, std::uint64_t seed);
};

/// Every network model, in order of name.
std::span<const NetworkModelEntry> catalog();

/// The entry that the key `kind` of the section names. Throws ScenarioError.
const NetworkModelEntry& find(const Section& section);

}  // namespace starling::network_models
