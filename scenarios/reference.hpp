// The [reference] section: a run of the same experiment on a real cluster, made by anybody's code, with which this
// scenario's results are to agree. The run itself does not look at it; `starling compare RESULTS.h5` and tools/plot do.
// The columns of the file are described in tools/reference_run.hpp.
#pragma once

#include <string>

#include "sim/base/section.hpp"

namespace starling {

struct ReferenceSettings {
  std::string file;       // a CSV file, or a results file; with the scenario's folder before it
  double time_tolerance;  // relative, of time per step, or throughput where batches differ
  double loss_tolerance;  // relative of losses, absolute of accuracies
};

/// Reads the section. Whether the file is there is only asked when it is compared with.
ReferenceSettings read_reference_section(const Section& section);

}  // namespace starling
