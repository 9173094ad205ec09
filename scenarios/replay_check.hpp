// Before and after a replay, a simulation that follows the order of a recorded run over MPI: whether it can, and how well
// it did. A replay of the same scenario has the same losses and models to the bit; one of a changed scenario (another
// learning rate, say) tells what the change alone would have done.
#pragma once

#include <string>

#include "scenarios/assemble.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

/// Throws Error if `recorded`, read from `path`, is no complete run whose order was noted, and ScenarioError if the
/// scenario cannot follow it.
void check_for_replay(const Assembly& parts, const Recorder& recorded, const std::string& path);

/// How the scenario differs from the recorded one, whatever both say of the file and the records; empty if it does not.
std::string other_scenario(const Assembly& parts, const Recorder& recorded);

/// "the same losses and models as recorded", or where the first difference is.
std::string describe_replay(const Recorder& recorded, const Recorder& replayed);

}  // namespace starling
