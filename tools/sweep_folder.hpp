// The folder of a sweep: scenario.ini in it says whose points it holds.
#pragma once

#include <filesystem>

#include "scenarios/scenario.hpp"
#include "scenarios/sweep.hpp"

namespace starling {

/// Makes the folder ready for the sweep that `scenario` asks for. It may hold points already: of the same sweep, or of one
/// that has grown since by values and repetitions. Throws Error if it holds another one.
void prepare_folder(const std::filesystem::path& folder, const Scenario& scenario,
                    const Sweep& sweep);

}  // namespace starling
