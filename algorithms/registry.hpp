// The algorithms by name. An algorithm is one file with one maker, and one line in catalog.inc.
#pragma once

#include <span>
#include <string_view>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// What a maker may know of the run when it checks its settings.
struct Context {
  NodeId nodes;
  Step steps;
  const Topology& topology;
  const WorkloadFacts& workload;
};

/// Reads the keys of [algorithm] that say how models travel: `exchange`, `bucket_size`, `overlap`, `collective_switch`.
/// Refuses what the algorithm named `kind` does not offer.
ExchangeSettings read_exchange(const Section& section, std::string_view kind);
/// Refuses pieces where they would change nothing: "order = combine_while_adapt: model and estimate go in one message".
void expect_whole(const Section& section, std::string_view because);

/// Reads and checks the section, then answers with the program that every node runs.
using Maker = Program (*)(const Section& section, const Context& context);

struct AlgorithmEntry {
  std::string_view name;
  std::string_view summary;
  Maker make;
};

std::span<const AlgorithmEntry> catalog();
/// The entry named by the section's key `kind`.
const AlgorithmEntry& find(const Section& section);

}  // namespace starling::algorithms
