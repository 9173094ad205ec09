// Run: one execution of a scenario. Owns everything that lives while it runs; two runs can live in one process.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "scenarios/assemble.hpp"
#include "sim/engine/network_log.hpp"
#include "sim/node/backend.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/observer.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

class MpiSession;

class Run {
 public:
  struct Hooks {
    /// Called about five times a second with the share of all steps that is finished, and virtual time.
    std::function<void(double share, Time now)> progress;
    /// Signal that asks the run to end, or 0.
    std::function<int()> interruption;
    /// Saves results now and then, and when the run ends however it ends, to settings.output.
    bool saves = true;
    /// Of the program, for the results file.
    std::string code_version;
  };

  Run(Assembly assembly, Hooks hooks);
  ~Run();

  /// Executes the scenario in virtual time. Throws what ends it early; results so far are saved then, too. With
  /// `recorded` (check_for_replay() has seen it; it outlives the run) events come in the order of that real run.
  void simulate(const Recorder* recorded = nullptr);
  /// Executes it over MPI, this process being one rank; rank 0 ends up with all results and saves them.
  void execute(MpiSession& session);

  const Recorder& recorder() const { return recorder_; }
  const Assembly& assembly() const { return parts_; }

 private:
  using Clock = std::chrono::steady_clock;

  void begin(ComputeGraph::Execution execution);
  /// Runs, then keeps what is known whichever way that ended: `gather` brings it together, and the keeper (the
  /// only process, or rank 0) completes and saves it.
  void conclude(const std::function<void()>& run, const std::function<void()>& gather,
                bool is_keeper);
  void pulse(Time now, bool saves);
  void describe(const std::string& transport);
  void finish();
  void note_diverged();
  void save_now();
  void save_if_possible();

  Assembly parts_;
  Hooks hooks_;
  Recorder recorder_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ComputeGraph> graph_;
  std::unique_ptr<Observer> observer_;
  std::unique_ptr<NetworkLog> network_log_;
  NodeId nodes_here_ = 0;               // of this process
  const Recorder* recorded_ = nullptr;  // to be replayed
  Clock::time_point started_;
  Clock::time_point last_progress_;
  Clock::time_point next_save_;
};

}  // namespace starling
