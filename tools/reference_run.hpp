// A run made by anybody's code, as a CSV file, read as if it were one of ours: so that a cluster run can be compared with
// a simulation and drawn over it.
//
// The first line names the columns; each further line is a row of the evaluation table. Columns, in any order, others are
// ignored, which `starling compare` says; empty cells are unknown:
//
//   step            finished steps of every node; needed, growing, from 1 on
//   time_seconds    since the start, never falling; the last that is known, and its step, give the time per step
//   bytes_sent      by all nodes since the start
//   train_loss, test_loss, test_accuracy, test_auc    of the mean model; the last two as shares of 1, not in percent
//
// and, in comment lines before the first, "# nodes = 64" and "# samples_per_step = 128" (of one node), which give
// throughput and time per step.
#pragma once

#include <string>

#include "scenarios/assemble.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

/// Reads such a file. Throws Error that names file and line.
Recorder read_reference(const std::string& path);

/// Warns of a reference that `starling compare` would refuse, or whose nodes are not the run's, before hours of computing. One that is
/// not there yet may come.
void warn_of_reference(const Assembly& parts);

/// A results file, or a reference: a table as text, whatever its name.
Recorder read_run_of(const std::string& path);

}  // namespace starling
