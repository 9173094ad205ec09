// The workloads there are. catalog.inc names each once; its maker is a function of the same name
// that reads the [workload] section and builds the instance.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"
#include "sim/node/workload.hpp"

namespace starling::workloads {

/// Builds a workload for `nodes` nodes from its section. Throws ScenarioError for a wrong setting,
/// Error for a data file that cannot be read, ProbeFinished for a probe.
using Maker = std::unique_ptr<Workload> (*)(const Section& section, NodeId nodes,
                                            std::uint64_t seed);

struct WorkloadEntry {
  std::string_view name;     // value of `kind` in a scenario
  std::string_view summary;  // one line
  Maker make;
};

/// All workloads, sorted by name.
std::span<const WorkloadEntry> catalog();

/// The entry that the section's `kind` names; ScenarioError listing the names if there is none.
const WorkloadEntry& find(const Section& section);

/// Floats of the largest model that messages may have.
inline constexpr std::int64_t most_parameters = 10'000'000'000'000;

/// Reads `wire_parameters`, the key by which a small model stands in for a large one: the number of
/// floats the network sees, or 0 for as many as the model has.
std::int64_t read_wire_parameters(const Section& section);

}  // namespace starling::workloads
