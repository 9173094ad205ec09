// What `starling compare` says beside its table: how the two runs are not alike, and what of them is not compared.
#pragma once

#include <string>

#include "sim/record/recorder.hpp"

namespace starling {

/// Whether a run is by other code, from a CSV file: it has no status.
bool is_reference(const Recorder& run);

/// How many steps the nodes did: "40", or "38 to 40". A run has nodes.
std::string steps_done(const Recorder& run);

/// Prints a line if the runs are of different scenarios: "algorithm.kind (dpsgd, allreduce), ... and 3 more".
void tell_settings_that_differ(const Recorder& a, const Recorder& b);

/// Prints a line for each final value that the runs do not tell after the same step.
void tell_last_steps(const Recorder& a, const Recorder& b);

/// Prints a line if a run by other code, "A" or "B", tells what nobody reads.
void tell_what_was_not_read(const char* name, const Recorder& run);

/// Prints a line if the run did not end as planned, or its nodes ended far apart.
void warn(const char* name, const Recorder& run);

}  // namespace starling
