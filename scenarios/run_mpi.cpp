// Run::execute: a scenario over real MPI. Apart from run.cpp, because a build without MPI leaves it out.

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string>
#include <utility>

#include <omp.h>

#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/mpi/gather.hpp"
#include "sim/mpi/mpi_session.hpp"
#include "sim/mpi/mpi_transport.hpp"

namespace starling {

void Run::execute(MpiSession& session) {
  // Ranks of a host share its cores; the gradients of a rank run on one worker thread.
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    omp_set_num_threads(std::max(1, omp_get_num_procs() / session.ranks_here()));
  const NodeBlock block = block_of(session.rank(), session.ranks(), parts_.settings.nodes);
  rank_here_ = static_cast<std::uint32_t>(session.rank_here());
  begin(ComputeGraph::Execution::inline_, block.end - block.begin);
  describe("mpi");
  recorder_.machine["ranks"] = std::to_string(session.ranks());
  const RunSettings& settings = parts_.settings;
  GradientDuration duration;
  if (settings.pace == Pace::modelled) {
    duration = [this](NodeId node, Step step, BatchName batch) {
      return parts_.compute_time->duration(node, step, batch);
    };
  }
  if (settings.record_order) recorder_.acts.resize(static_cast<std::size_t>(settings.nodes));
  const MpiTransport* clock = nullptr;
  MpiTransport transport({.nodes = settings.nodes,
                          .pulse = [this, &clock] { pulse(clock->now(), std::nullopt); },
                          .acts = settings.record_order ? &recorder_.acts : nullptr},
                         session, *graph_, workload(), duration);
  clock = &transport;

  nodes_here_ = block.end - block.begin;

  World world{transport,      *graph_,       *observer_,   *parts_.topology,
              settings.steps, settings.seed, settings.plan};
  std::deque<Node> nodes;
  for (NodeId i = block.begin; i < block.end; ++i) {
    Node& node = nodes.emplace_back(world, i);
    node.spawn(parts_.program(node));
  }
  is_keeper_ = [&session] { return session.rank() == session.keeper(); };
  session.limit_waits(settings.patience, hooks_.interruption);
  int late_signal = 0;  // came during evaluations
  const auto gather = [&] {
    session.limit_waits(settings.patience, nullptr);  // all have come here
    const bool is_complete = recorder_.facts["status"] == "complete";
    // Evaluations may take longer than those who send signals wait before they kill.
    const auto goes_on = [&, is_saved = false]() mutable {
      if (is_complete && hooks_.interruption) late_signal = hooks_.interruption();
      if (late_signal != 0) return false;
      if (std::exchange(is_saved, true) || (is_complete && Clock::now() < next_save_)) return true;
      const std::string status = recorder_.facts["status"];
      if (is_complete) recorder_.facts["status"] = "running";
      save_so_far();
      recorder_.facts["status"] = status;
      return true;
    };
    recorder_.statistics["mpi.gradients"] = static_cast<double>(transport.statistics().gradients);
    recorder_.statistics["mpi.messages"] =
        static_cast<double>(transport.statistics().messages_sent);
    gather_results(session, transport.block(), *graph_, *observer_, recorder_, settings.save_models,
                   goes_on);
    if (late_signal != 0) recorder_.facts["status"] = Interrupted(late_signal).what();
  };
  const auto run = [&] {
    try {
      transport.run();
    } catch (const Lost&) {
      graph_->flush();
      gather_what_is_left(session, transport.block(), recorder_);
      throw;
    } catch (const Stalled&) {
      throw;  // with numbers that are whole
    } catch (const Error&) {
      if (session.has_failed_together()) gather_what_is_left(session, transport.block(), recorder_);
      throw;
    }
  };
  try {
    conclude(run, gather, session.rank() == 0);
    if (late_signal != 0) throw Interrupted(late_signal);
  } catch (const Interrupted&) {
    session.fail_together();
    throw;
  }
}

}  // namespace starling
