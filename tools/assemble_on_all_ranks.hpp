// What the commands over MPI share: all ranks read the scenario, or none goes on.
#pragma once

#ifdef STARLING_HAVE_MPI

#include <functional>
#include <string>
#include <vector>

#include "scenarios/assemble.hpp"
#include "sim/mpi/mpi_session.hpp"

namespace starling {

/// Every rank reads the scenario that the words name, and `check` may refuse it by throwing. If one rank cannot,
/// all fail, and one says why. So many `processes` share the models of a simulation.
Assembly assemble_on_all_ranks(MpiSession& session, const std::vector<std::string>& words,
                               const std::function<void(const Assembly&)>& check,
                               int processes = 1);

}  // namespace starling

#endif
