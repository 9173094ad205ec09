// The session of all tests over MPI, and whole programs that must never hang, one of which runs where an argument names it:
// fail-alone, fail-quietly, fail-together, lose-one, leave-early, train-until-signal.

#define DOCTEST_CONFIG_IMPLEMENT
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/sim/mpi/small_programs.hpp"

namespace starling::test {
namespace {

MpiSession* the_session = nullptr;

/// What every program does about an error: catch it inside the session's life, print it if the
/// session says so, tell the session.
template <class Body>
int guarded(MpiSession& mpi, Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    if (mpi.speaks()) std::fprintf(stderr, "error: %s\n", error.what());
    mpi.fail();
    return 1;
  }
}

int fail_alone(MpiSession& mpi, bool is_quiet) {
  return guarded(mpi, [&] {
    if (mpi.rank() == mpi.ranks() - 1) throw Error("this rank found no data");
    if (!is_quiet) mpi.barrier();  // for which the failing rank will never come
  });
}

int fail_together(MpiSession& mpi) {
  return guarded(mpi, [&] {
    Quadratic workload(mpi.ranks(), 4);
    SmallRun run(mpi.ranks(), workload);
    run([&](Node& node) { return fail_on_last(node, run.around.graph); });
  });
}

volatile std::sig_atomic_t caught_signal = 0;

int train_until_signal(MpiSession& mpi) {
  for (const int number : {SIGINT, SIGTERM})
    std::signal(number, [](int caught) { caught_signal = caught; });
  Quadratic workload(mpi.ranks(), 4);
  SmallRun run(
      mpi.ranks(), workload, 1, [](NodeId, Step, BatchName) { return from_seconds(0.01); },
      [] {
        if (caught_signal != 0) throw Interrupted(caught_signal);
      });
  mpi.barrier();
  if (mpi.rank() == 0) {
    std::puts("training");
    std::fflush(stdout);
  }
  try {
    run(train_alone);
  } catch (const Interrupted& interrupted) {
    KnownRanks known;
    gather_results(mpi, run.transport.block(), run.around.graph, run.around.observer,
                   run.around.recorder, true, known);
    std::ptrdiff_t results = 0;
    for (const NodeTotals& totals : run.around.recorder.nodes)
      results += totals.compute > Duration{0} ? 1 : 0;
    if (mpi.rank() == 0) std::printf("interrupted, results of %td nodes\n", results);
    // mpirun, interrupted itself, does not wait for what is written to a pipe at the end.
    std::fflush(stdout);
    return 128 + interrupted.signal();
  }
  return 0;
}

/// While results are gathered one rank has ended, when rank 0 has got those of some of the others. On rank 0: whose it has in
/// the end; everything once.
int lose_one(MpiSession& mpi) {
  constexpr std::size_t rows = 20;
  const int ended = mpi.ranks() - 2;
  const NodeId nodes = mpi.ranks();
  const NodeBlock block = block_of(mpi.rank(), mpi.ranks(), nodes);
  Quadratic workload(nodes, 4);
  Surroundings around(nodes, workload, rows, ComputeGraph::Execution::inline_);
  Recorder& recorder = around.recorder;
  recorder.acts.resize(static_cast<std::size_t>(nodes));
  record_rows(recorder, block, rows);
  recorder.statistics["ranks"] = 1;
  mpi.barrier();  // a busy machine may start ranks one after the other
  mpi.limit_waits(std::chrono::seconds(3), nullptr);
  if (mpi.rank() == ended) std::this_thread::sleep_for(std::chrono::hours(1));
  return guarded(mpi, [&] {
    KnownRanks known;
    try {
      gather_results(mpi, block, around.graph, around.observer, recorder, true, known);
    } catch (const Lost&) {
      gather_what_is_left(mpi, block, recorder, known, nullptr);
      if (mpi.rank() == 0) {
        std::string told;
        for (const std::vector<Act>& acts : recorder.acts) told += fmt::format(" {}", acts.size());
        std::printf("acts%s, %zu segments, %g ranks\n", told.c_str(), recorder.timeline.size(),
                    recorder.statistics["ranks"]);
        std::fflush(stdout);
      }
      throw;
    }
  });
}

/// Rank 0 waits in vain for the last one, while those between have come to their end.
int leave_early(MpiSession& mpi) {
  mpi.barrier();
  mpi.limit_waits(std::chrono::seconds(3), nullptr);
  const int hanging = mpi.ranks() - 1;
  if (mpi.rank() == hanging) std::this_thread::sleep_for(std::chrono::hours(1));
  if (mpi.rank() > 0) return 0;
  return guarded(mpi, [&] { mpi.receive_text(hanging); });
}

}  // namespace

MpiSession& session() { return *the_session; }

int run_mode(std::string_view mode) {
  if (mode == "train-until-signal") return train_until_signal(session());
  if (mode == "fail-together") return fail_together(session());
  if (mode == "lose-one") return lose_one(session());
  if (mode == "leave-early") return leave_early(session());
  return fail_alone(session(), mode == "fail-quietly");
}

}  // namespace starling::test

int main(int count, char** arguments) {
  starling::MpiSession session;
  starling::test::the_session = &session;
  if (count > 1 && arguments[1][0] != '-') return starling::test::run_mode(arguments[1]);
  doctest::Context context(count, arguments);
  context.setOption("no-colors", true);
  context.setOption("minimal", session.rank() != 0);
  return context.run();
}
