// Run::execute: a scenario over real MPI. Apart from run.cpp, because a build without MPI leaves it out. A long function: all ways
// in which a rank's run ends (well, interrupted, failed, without others) need what it is made of.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <future>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <omp.h>

#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/mpi/gather.hpp"
#include "sim/mpi/mpi_session.hpp"
#include "sim/mpi/mpi_transport.hpp"
#include "sim/mpi/records.hpp"
#include "sim/mpi/reports.hpp"
#include "sim/record/results_file.hpp"

namespace starling {

// Real time goes on while a disk is slow, so a thread of its own puts together what was reported, and writes it.
void Run::save_reported(Reports& reports) {
  const auto lose_reports = [&](const std::string& why) {
    reports.restart();
    reported_.timeline.clear();
    for (std::vector<Act>& acts : reported_.acts) acts.clear();
    warn_of_saving(Error(why));
    plan_next_save(Clock::now());
  };
  const std::string& output = parts_.settings.output;
  try {
    pass_reports_on(reports);
  } catch (const Error& error) {
    lose_reports(error.what());
  } catch (const std::bad_alloc&) {
    lose_reports(fmt::format("{}: cannot write: not enough memory", output));
  } catch (const std::system_error& error) {
    lose_reports(fmt::format("{}: cannot write: no thread: {}", output, error.what()));
  }
}

void Run::pass_reports_on(Reports& reports) {
  if (saving_.valid()) {
    if (saving_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    try {
      saving_.get();
    } catch (const Error& error) {
      warn_of_saving(error);
    }
    plan_next_save(saving_began_);
  }
  if (was_away_) return;
  std::vector<std::string> told = reports.take();
  if (told.empty()) {
    if (Clock::now() >= next_save_) reports.ask();
    return;
  }
  saving_began_ = Clock::now();
  saving_ = std::async(std::launch::async, [this, told = std::move(told)] {
    for (const std::string& report : told) unpack_records(report, reported_);
    sort_timeline(reported_);
    save_between_times(reported_, parts_.settings.output);
  });
}

// Evaluations may take longer than those who send signals wait before they kill.
bool Run::save_before_evaluations(const Reports& reports) {
  const bool is_complete = recorder_.is_complete();
  const bool is_short = Clock::now() < next_save_ && !reports.have_begun();
  if (is_complete && is_short) return false;
  std::string& status = recorder_.facts["status"];
  const std::string ending = status;
  if (is_complete) status = "running";
  save_so_far();
  status = ending;
  return true;
}

std::optional<Recorder> Run::load_saved(NodeId node) const {
  if (saving_.valid()) saving_.wait();
  try {
    Recorder saved = load(parts_.settings.output);
    const auto first_step = [node](const Recorder& recorder) {
      return recorder.steps.value("time", 0, static_cast<std::size_t>(node));
    };
    auto facts = recorder_.facts;
    for (const char* ending : {"status", "ended"}) {
      facts.erase(ending);
      saved.facts.erase(ending);
    }
    if (saved.facts == facts && first_step(saved) == first_step(recorder_)) return saved;
  } catch (const Error&) {
    // There is none yet, or it is on another rank's disk.
  }
  return std::nullopt;
}

void Run::execute(MpiSession& session) {
  // Ranks of a host share its cores; the gradients of a rank run on one worker thread.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(session.cores_per_rank());
  const NodeBlock block = block_of(session.rank(), session.ranks(), parts_.settings.nodes);
  rank_here_ = static_cast<std::uint32_t>(session.rank_here());
  begin(ComputeGraph::Execution::inline_, block.end - block.begin);
  describe("mpi");
  observer_->put_off_evaluations();
  recorder_.machine["ranks"] = std::to_string(session.ranks());
  const RunSettings& settings = parts_.settings;
  GradientDuration duration;
  if (settings.pace == Pace::modelled) {
    duration = [this](NodeId node, Step step, BatchName batch) {
      return parts_.compute_time->duration(node, step, batch);
    };
  }
  if (settings.record_order) recorder_.acts.resize(static_cast<std::size_t>(settings.nodes));
  const bool saves = hooks_.saves && session.rank() == 0;
  if (saves) reported_ = recorder_;
  Reports reports(session, block, recorder_);
  const MpiTransport* clock = nullptr;
  MpiTransport transport({.nodes = settings.nodes,
                          .until = settings.until,
                          .is_done =
                              [this, block] {
                                for (NodeId node = block.begin; node < block.end; ++node)
                                  if (observer_->steps(node) < parts_.settings.steps) return false;
                                return true;
                              },
                          .pulse =
                              [this, &clock, &reports, saves] {
                                pulse(clock->now(), std::nullopt);
                                if (saves) save_reported(reports);
                              },
                          .acts = settings.record_order ? &recorder_.acts : nullptr,
                          .reports = &reports,
                          .reserve = &reserve_},
                         session, *graph_, workload(), duration);
  clock = &transport;
  if (settings.until < Time::max()) transport.keep_suspended();

  nodes_here_ = block.end - block.begin;
  evaluate_by_time(block.begin, block.end);

  World world{transport,      *graph_,       *observer_,   *parts_.topology,
              settings.steps, settings.seed, settings.plan};
  std::deque<Node> nodes;
  for (NodeId i = block.begin; i < block.end; ++i) {
    Node& node = nodes.emplace_back(world, i);
    node.spawn(parts_.program(node));
  }
  is_keeper_ = [&session] { return session.rank() == session.keeper(); };
  if (settings.until == Time::max()) {
    const std::size_t rows = recorder_.evaluation.schedule().rows();
    watch_kept_models(rows * static_cast<std::size_t>(nodes_here_));
  }
  session.limit_waits(settings.patience, hooks_.interruption);
  KnownRanks known;
  int late_signal = 0;  // came during evaluations
  const auto gather = [&] {
    const bool is_complete = recorder_.is_complete();
    // All have come here. The signal of an interrupted run is no news.
    session.limit_waits(settings.patience, is_complete ? hooks_.interruption : nullptr);
    const auto goes_on = [&, is_saved = false]() mutable {
      if (is_complete && hooks_.interruption) late_signal = hooks_.interruption();
      if (late_signal != 0) return false;
      is_saved = is_saved || save_before_evaluations(reports);
      return true;
    };
    recorder_.statistics["mpi.gradients"] = static_cast<double>(transport.statistics().gradients);
    recorder_.statistics["mpi.messages"] =
        static_cast<double>(transport.statistics().messages_sent);
    if (transport.is_cut()) account_until(world, settings.until);
    if (settings.evaluates_by_time()) {
      const std::int64_t end = session.largest(observer_->end().time_since_epoch().count());
      observer_->pass_to_end(transport.is_cut() ? settings.until
                                                : std::min(settings.until, Time{Duration{end}}));
    }
    if (session.rank() != 0) reserve_.reset();
    gather_results(session, transport.block(), *graph_, *observer_, recorder_, settings.save_models,
                   known, goes_on);
    if (late_signal != 0) recorder_.facts["status"] = Interrupted(late_signal).what();
  };
  const auto flush_if_possible = [this] {
    try {
      graph_->flush();
    } catch (const std::exception&) {
      // Cells that are not known stay empty: the other ranks wait for what is.
    }
  };
  const auto gather_rest = [&](const Recorder* saved) {
    reserve_.reset();
    try {
      gather_what_is_left(session, transport.block(), recorder_, known, saved);
    } catch (const std::bad_alloc&) {
      session.fail_alone();  // and keeps what has come
    }
  };
  const auto gather_after_loss = [&] {
    reserve_.reset();
    flush_if_possible();
    std::optional<Recorder> saved;
    if (is_keeper_() && reports.have_begun()) saved = load_saved(block.begin);
    gather_rest(saved ? &*saved : nullptr);
  };
  const auto gather_or_rest = [&] {
    try {
      gather();
    } catch (const Lost&) {
      gather_after_loss();
      throw;
    }
  };
  const auto run = [&] {
    try {
      transport.run();
      return !transport.is_cut();
    } catch (const Lost&) {
      gather_after_loss();
      throw;
    } catch (const Halted&) {
      throw;  // with numbers that are whole
    } catch (const Error&) {
      if (session.has_failed_together()) gather_rest(nullptr);
      throw;
    }
  };
  try {
    conclude(run, gather_or_rest, session.rank() == 0);
    if (late_signal != 0) throw Interrupted(late_signal);
  } catch (const Interrupted&) {
    session.fail_together();
    throw;
  }
}

}  // namespace starling
