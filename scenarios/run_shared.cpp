// Run::share: a simulation whose numbers several processes compute together. Apart from run.cpp, because a build without
// MPI leaves it out.

#include <algorithm>
#include <cstdlib>

#include <omp.h>

#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/mpi/mpi_peers.hpp"
#include "sim/mpi/mpi_session.hpp"

namespace starling {

void Run::share(MpiSession& session) {
  if (!session.may_change_threads()) {
    throw Error(
        "this MPI cannot be used by a thread beside the timeline: expected MPI_THREAD_SERIALIZED, "
        "found MPI_THREAD_FUNNELED");
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    omp_set_num_threads(std::max(1, omp_get_num_procs() / session.ranks_here()));
  // Windows close at the same place everywhere, whatever memory each machine has.
  parts_.settings.window_bytes = -session.largest(-parts_.settings.window_bytes);
  hooks_.saves = hooks_.saves && session.rank() == 0;
  peers_ = std::make_unique<MpiPeers>(session, hooks_.interruption);
  try {
    simulate();
  } catch (...) {
    if (peers_->has_failed()) session.fail_together();
    throw;
  }
}

}  // namespace starling
