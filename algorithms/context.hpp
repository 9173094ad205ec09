// The run as a maker sees it, and checks of keys that many makers share.
#pragma once

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

/// Warns if a number of steps that was read as `key` is more than the run has. `consequence`: "nodes may never average".
void warn_beyond_run(const Section& section, std::string_view key, Step steps,
                     const Context& context, std::string_view consequence);
/// Refuses pieces where they would change nothing: "order = combine_while_adapt: model and estimate go in one message".
void expect_whole(const Section& section, std::string_view because);

}  // namespace starling::algorithms
