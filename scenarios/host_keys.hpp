// The keys of [network] that describe a node's host: staging between device and host memory, arithmetic in host memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/node/host.hpp"

namespace starling {

/// What a scenario says of hosts; HostCosts are for models of one size.
struct HostSettings {
  HostCosts costs;                               // of models that do not fit the cache
  double cached_reduction_seconds_per_byte = 0;  // of those that do
  std::int64_t cache = 0;                        // bytes

  HostCosts costs_for(std::int64_t model_bytes) const;
};

/// A cost that the scenario itself sets, and the warning due if nobody has paid it by the end of a simulation.
struct HostCostWarning {
  bool HostUses::*use;
  std::string warning;
};

/// Reads `host` (a preset) and the keys it gives defaults to.
HostSettings read_host(const Section& network);
/// Of the keys that are set, not of those of a preset. Whether an algorithm pays a cost shows as it runs: it depends on its kind,
/// on how its messages travel and on what they are coded as.
std::vector<HostCostWarning> host_cost_warnings(const Section& network);

}  // namespace starling
