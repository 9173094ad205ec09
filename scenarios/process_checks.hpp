// What several processes cannot do, over MPI or sharing a simulation, although one that simulates alone can.
#pragma once

#include "scenarios/assemble.hpp"

namespace starling {

/// Throws ScenarioError for what a scenario asks that only a simulation, or fewer `ranks`, can do.
void check_for_mpi(const Assembly& parts, int ranks);
/// Throws ScenarioError for what `processes` cannot share.
void check_for_sharing(const Assembly& parts, int processes);

}  // namespace starling
