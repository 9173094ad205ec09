// Run::share: a simulation whose numbers several processes compute together. Apart from run.cpp, because a build without
// MPI leaves it out.

#include <algorithm>
#include <cstdlib>
#include <functional>

#include <omp.h>

#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/mpi/mpi_peers.hpp"
#include "sim/mpi/mpi_session.hpp"

namespace starling {

void Run::share(MpiSession& session, std::unique_ptr<CheckpointFile> from) {
  if (!session.may_change_threads()) {
    throw Error(
        "this MPI cannot be used by a thread beside the timeline: expected MPI_THREAD_SERIALIZED, "
        "found MPI_THREAD_FUNNELED");
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(session.cores_per_rank());
  rank_here_ = static_cast<std::uint32_t>(session.rank_here());
  // Windows close at the same place everywhere, whatever memory each machine has.
  parts_.settings.window_bytes = -session.largest(-parts_.settings.window_bytes);
  is_keeper_ = [&session] { return session.rank() == session.keeper(); };
  if (from) {
    std::string failure;
    try {
      check_facts(*from, checkpoint_facts());
    } catch (const Error& error) {
      failure = error.what();
    }
    failure = session.share_failure(failure);  // machines may have other data each
    if (!failure.empty()) {
      session.fail_together();
      throw Error(failure);
    }
  }
  from_ = std::move(from);
  // With checkpoints a signal ends the run at the next one, which all write together.
  const bool waits = parts_.settings.checkpoint.is_on() || from_;
  const std::function<int()> interruption = waits ? nullptr : hooks_.interruption;
  peers_ = std::make_unique<MpiPeers>(session, interruption);
  session.limit_waits(parts_.settings.patience, interruption);
  try {
    simulate();
  } catch (const Interrupted&) {
    session.fail_together();
    throw;
  } catch (const Halted&) {
    session.fail_together();
    throw;
  } catch (...) {
    if (peers_->has_failed()) session.fail_together();
    throw;
  }
}

}  // namespace starling
