// What the commands over MPI share: a session whose failures end the process, and what all ranks do or none.
#pragma once

#ifdef STARLING_HAVE_MPI

#include <functional>
#include <string>
#include <vector>

#include "scenarios/assemble.hpp"
#include "sim/mpi/mpi_session.hpp"

namespace starling {

/// Runs `how` within an MPI session; ends the process if that fails.
void in_session(const std::function<void(MpiSession&)>& how);

/// Every rank does `what`. If one cannot, all fail, and one says why.
void on_all_ranks(MpiSession& session, const std::function<void()>& what);

/// Every rank reads the scenario that the words name, and `check` may refuse it by throwing; all must read the same, and
/// the same data. The hosts share the models.
Assembly assemble_on_all_ranks(MpiSession& session, const std::vector<std::string>& words,
                               const std::function<void(const Assembly&)>& check);

}  // namespace starling

#endif
