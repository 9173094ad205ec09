// The short table at the end of a run.
#pragma once

#include <string>

#include "sim/record/recorder.hpp"

namespace starling {

/// Test accuracy and loss of the mean model, consensus distance, virtual time, throughput, shares of time.
/// Holds nothing that differs between equal runs.
std::string summarize(const Recorder& recorder);

}  // namespace starling
