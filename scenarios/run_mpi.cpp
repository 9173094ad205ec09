// Run::execute: a scenario over real MPI. Apart from run.cpp, because a build without MPI leaves it out.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
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

/// The part of one process in a run over MPI: its nodes, and all ways in which their run ends (well, interrupted, failed,
/// without others), which all lead to what the ranks know being brought together.
class Run::Rank {
 public:
  Rank(Run& run, MpiSession& session)
      : run_(run),
        settings_(run.parts_.settings),
        session_(session),
        block_(block_of(session.rank(), session.ranks(), settings_.nodes)),
        saves_(run.hooks_.saves && session.rank() == 0),
        reports_(session, block_, run.recorder_),
        transport_(transport_settings(), session, *run.graph_, run.workload(), gradient_duration()),
        world_{transport_,      *run.graph_,    *run.observer_, *run.parts_.topology,
               settings_.steps, settings_.seed, settings_.plan} {
    if (settings_.until < Time::max()) transport_.keep_suspended();
    run_.evaluate_by_time(block_.begin, block_.end);
    for (NodeId i = block_.begin; i < block_.end; ++i) {
      Node& node = nodes_.emplace_back(world_, i);
      node.spawn(run_.parts_.program(node));
    }
    if (settings_.until == Time::max()) {
      const std::size_t rows = run_.recorder_.evaluation.schedule().rows();
      run_.watch_kept_models(rows * nodes_.size());
    }
  }

  void execute() {
    session_.limit_waits(settings_.patience, run_.hooks_.interruption);
    try {
      run_.conclude([this] { return run_nodes(); }, [this] { gather(); }, session_.rank() == 0);
      if (late_signal_ != 0) throw Interrupted(late_signal_);
    } catch (const Interrupted&) {
      session_.fail_together();
      throw;
    }
  }

 private:
  MpiTransport::Settings transport_settings() {
    return {.nodes = settings_.nodes,
            .until = settings_.until,
            .is_done = [this] { return is_done(); },
            .pulse =
                [this] {
                  run_.pulse(transport_.now(), std::nullopt);
                  if (saves_) run_.save_reported(reports_);
                },
            .acts = settings_.record_order ? &run_.recorder_.acts : nullptr,
            .reports = &reports_,
            .reserve = &run_.reserve_};
  }

  GradientDuration gradient_duration() const {
    if (settings_.pace != Pace::modelled) return {};
    return [&compute = *run_.parts_.compute_time](NodeId node, Step step, BatchName batch) {
      return compute.duration(node, step, batch);
    };
  }

  /// Whether the nodes here have taken all steps.
  bool is_done() const {
    for (NodeId node = block_.begin; node < block_.end; ++node)
      if (run_.observer_->steps(node) < settings_.steps) return false;
    return true;
  }

  /// Whether nodes had time for all steps.
  bool run_nodes() {
    try {
      transport_.run();
      return !transport_.is_cut();
    } catch (const Lost&) {
      gather_after_loss();
      throw;
    } catch (const Halted&) {
      throw;  // with numbers that are whole
    } catch (const Error&) {
      if (session_.has_failed_together()) gather_rest(nullptr);
      throw;
    }
  }

  void gather() {
    try {
      gather_all();
    } catch (const Lost&) {
      gather_after_loss();
      throw;
    }
  }

  void gather_all() {
    Recorder& recorder = run_.recorder_;
    Observer& observer = *run_.observer_;
    const bool is_complete = recorder.is_complete();
    const std::function<int()>& interruption = run_.hooks_.interruption;
    // All have come here. The signal of an interrupted run is no news.
    session_.limit_waits(settings_.patience, is_complete ? interruption : nullptr);
    const auto goes_on = [&, is_saved = false]() mutable {
      if (is_complete && interruption) late_signal_ = interruption();
      if (late_signal_ != 0) return false;
      is_saved = is_saved || run_.save_before_evaluations(reports_);
      return true;
    };
    const MpiTransport::Statistics& statistics = transport_.statistics();
    recorder.statistics["mpi.gradients"] = static_cast<double>(statistics.gradients);
    recorder.statistics["mpi.messages"] = static_cast<double>(statistics.messages_sent);
    if (transport_.is_cut()) account_until(world_, settings_.until);
    if (settings_.evaluates_by_time()) {
      const Time end{Duration{session_.largest(observer.end().time_since_epoch().count())}};
      observer.pass_to_end(transport_.is_cut() ? settings_.until : std::min(settings_.until, end));
    }
    if (session_.rank() != 0) run_.reserve_.reset();
    gather_results(session_, block_, *run_.graph_, observer, recorder, settings_.save_models,
                   known_, goes_on);
    if (late_signal_ != 0) recorder.facts["status"] = Interrupted(late_signal_).what();
  }

  void gather_after_loss() {
    run_.reserve_.reset();
    try {
      run_.graph_->flush();
    } catch (const std::exception&) {
      // Cells that are not known stay empty: the other ranks wait for what is.
    }
    std::optional<Recorder> saved;
    if (run_.is_keeper_() && reports_.have_begun()) saved = run_.load_saved(block_.begin);
    gather_rest(saved ? &*saved : nullptr);
  }

  void gather_rest(const Recorder* saved) {
    run_.reserve_.reset();
    try {
      gather_what_is_left(session_, block_, run_.recorder_, known_, saved);
    } catch (const std::bad_alloc&) {
      session_.fail_alone();  // and keeps what has come
    }
  }

  Run& run_;
  const RunSettings& settings_;
  MpiSession& session_;
  const NodeBlock block_;
  const bool saves_;
  Reports reports_;
  MpiTransport transport_;
  World world_;
  std::deque<Node> nodes_;
  KnownRanks known_;
  int late_signal_ = 0;  // came during evaluations
};

void Run::execute(MpiSession& session) {
  // Ranks of a host share its cores; the gradients of a rank run on one worker thread.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(session.cores_per_rank());
  const RunSettings& settings = parts_.settings;
  const NodeBlock block = block_of(session.rank(), session.ranks(), settings.nodes);
  rank_here_ = static_cast<std::uint32_t>(session.rank_here());
  is_keeper_ = [&session] { return session.rank() == session.keeper(); };
  begin(ComputeGraph::Execution::inline_, block.end - block.begin);
  nodes_here_ = block.end - block.begin;
  describe("mpi");
  observer_->put_off_evaluations();
  recorder_.machine["ranks"] = std::to_string(session.ranks());
  if (settings.record_order) recorder_.acts.resize(static_cast<std::size_t>(settings.nodes));
  if (hooks_.saves && session.rank() == 0) reported_ = recorder_;
  Rank(*this, session).execute();
}

}  // namespace starling
