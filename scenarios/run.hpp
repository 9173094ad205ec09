// Run: one execution of a scenario. Owns everything that lives while it runs; two runs can live in one process.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/place.hpp"
#include "scenarios/assemble.hpp"
#include "scenarios/checkpointing.hpp"
#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/engine/network_log.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/observer.hpp"
#include "sim/node/sharding.hpp"
#include "sim/record/facts.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

class MpiSession;
class Reports;
class SimulatedTransport;
struct World;

/// How far a run has come.
struct Standing {
  Time now{};              // virtual, or over MPI of the clock
  std::int64_t steps = 0;  // finished, over all nodes here
  double all_steps = 0;
  Time until = Time::max();       // the run ends, at the latest
  std::int64_t steps_before = 0;  // finished when the run went on from a checkpoint
  double samples_per_step = 0;
  bool is_replaying = false;  // on the way to the place of a checkpoint
  double share_here = 1;      // of the nodes; over MPI a rank knows its own
  bool is_real = false;       // over MPI
};

class Run {
 public:
  struct Hooks {
    /// Called about five times a second.
    std::function<void(const Standing& standing)> progress;
    /// Signal that asks the run to end, or 0.
    std::function<int()> interruption;
    /// Saves results now and then, and when the run ends however it ends, to settings.output.
    bool saves = true;
    /// Told what goes wrong without ending the run.
    std::function<void(const std::string&)> warn;
    /// Of models that evaluations keep until slow nodes get as far, or over MPI until the end: with more the run warns.
    double most_waiting_bytes = 1 << 30;
    /// Of the program, for the results file.
    std::string code_version;
  };

  Run(Assembly assembly, Hooks hooks);
  ~Run();

  /// Executes the scenario in virtual time. Throws what ends it early; results so far are saved then, too. With
  /// `recorded` (check_for_replay() has seen it; it outlives the run) events come in the order of that real run.
  void simulate(const Recorder* recorded = nullptr);
  /// The same, from a checkpoint on. Throws Error if `from` is of another program or another scenario.
  void resume(std::unique_ptr<CheckpointFile> from);
  /// The same; if `from` is of this scenario, but of another program or other data, the run begins anew and says why. Throws
  /// ScenarioError if it is of another scenario.
  void resume_or_simulate(std::unique_ptr<CheckpointFile> from);
  /// The same in virtual time, the numbers shared among the processes of the session; rank 0 saves all results. From a
  /// checkpoint on if there is one, of whatever number of processes.
  void share(MpiSession& session, std::unique_ptr<CheckpointFile> from = nullptr);
  /// Executes it over MPI, this process being one rank; rank 0 ends up with all results and saves them.
  void execute(MpiSession& session);

  const Recorder& recorder() const { return recorder_; }
  const Assembly& assembly() const { return parts_; }
  /// The newest checkpoint, if any; empty once the run is complete.
  std::string checkpoint() const;
  /// After a simulation: warnings of what the scenario sets and nothing came of: costs of hosts that nobody has paid, outages
  /// after its end, collectives in closed form where there are none, a target that was not reached.
  const std::vector<std::string>& closing_warnings() const { return closing_warnings_; }
  /// How many checkpoints could not be written.
  int lost_checkpoints() const { return checkpoints_ ? checkpoints_->lost() : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  class Rank;

  /// So many `models` are this process's.
  void begin(ComputeGraph::Execution execution, NodeId models, Sharing sharing = {});
  /// The workload of the scenario, where it computes.
  const Workload& workload() const {
    return place_.moved_workload ? *place_.moved_workload : *parts_.workload;
  }
  /// Calls run(), then saves what is known, however that ended: gather() brings together what the processes have, the
  /// process that `completes` computes what is missing, and the keeper saves it, after make_room() if there is one. run()
  /// answers whether nodes had time for all steps.
  void conclude(const std::function<bool()>& run, const std::function<void()>& gather,
                bool completes, const std::function<void()>& make_room = {});
  /// When the run ends at the latest; a replay does where the recorded run did.
  Time until() const;
  /// Evaluates the models of the nodes here by time, too, if the scenario asks for it.
  void evaluate_by_time(NodeId begin, NodeId end);
  /// Saves what there is after `failure`, and throws the error that the user is told.
  [[noreturn]] void end_with(const std::exception_ptr& failure);
  /// Writes checkpoints from now on if the scenario asks for them, or replays the run up to `from_`.
  void begin_checkpoints();
  /// From the first event on.
  void run_simulation(const Recorder* recorded);
  /// Its part in which events happen; whether nodes had time for all steps.
  bool run_programs(SimulatedTransport& transport);
  /// What a simulation has to say when it has ended.
  void gather_from(const SimulatedTransport& transport, World& world, const Host* host);
  /// Of the part of a gradient in which its pieces get ready.
  GradientDuration backward_duration() const;
  /// What each episode adds to a gradient; empty if nothing.
  GradientDuration episode_duration() const;
  /// Has the first evaluation that is at the scenario's target end the run.
  void end_at_target(SimulatedTransport& transport);
  void follow_failures();
  void note_failures(const SimulatedTransport& transport);
  bool is_replaying() const { return checkpoints_ && checkpoints_->is_replaying(); }
  /// What is done now and then: checkpoints, signals, progress, saving. `events`: how many there were so far in a
  /// simulation; none over MPI.
  void pulse(Time now, std::optional<std::int64_t> events);
  void describe(const std::string& transport);
  /// What a checkpoint of this run says beside its place.
  std::map<std::string, std::string> checkpoint_facts() const;
  void finish();
  void note_machinery();
  void note_diverged();
  /// Answers whether this process saves.
  bool note_standing();
  void save_now();
  void save_so_far();
  void save_if_possible();
  /// Over MPI, on rank 0: saves what all ranks have reported, and asks for more when it is time. What fails costs one
  /// save.
  void save_reported(Reports& reports);
  /// The same, but throws what fails.
  void pass_reports_on(Reports& reports);
  /// Over MPI, on rank 0: all has been gathered but the models to evaluate. Answers whether it was worth a save so far.
  bool save_before_evaluations(const Reports& reports);
  /// What was saved of this run over MPI, recognized by the time of `node`, which is here.
  std::optional<Recorder> load_saved(NodeId node) const;
  void warn_of_saving(const Error& error);
  /// GiB of so many models that evaluations keep until slow nodes get as far, if they are many, and nobody was told yet.
  std::optional<double> too_many_models(std::size_t models);
  /// Warns of them, once.
  void watch_waiting_models();
  void watch_kept_models(std::size_t models);
  void note_closing_warnings(const SimulatedTransport& transport, const Host* host);
  /// After a save that began then.
  void plan_next_save(Clock::time_point began);

  Assembly parts_;
  Hooks hooks_;
  std::vector<FileRead> files_;  // that the scenario names
  Recorder recorder_;
  Zeros reserve_;  // given up when no memory is left, to save results in
  ComputePlace place_;
  /// Whether this process, of those that share the run, saves results.
  std::function<bool()> is_keeper_ = [] { return true; };
  std::unique_ptr<Peers> peers_;  // null: this process computes all by itself
  std::unique_ptr<ComputeGraph> graph_;
  std::unique_ptr<Observer> observer_;
  std::unique_ptr<NetworkLog> network_log_;  // null once all of it is saved
  std::unique_ptr<CheckpointFile> from_;     // to go on from
  std::unique_ptr<Checkpointing> checkpoints_;
  std::vector<std::string> closing_warnings_;
  bool is_at_target_ = false;           // of the scenario: the run ends
  std::uint32_t rank_here_ = 0;         // of this process, among those of its machine
  NodeId nodes_here_ = 0;               // of this process
  const Recorder* recorded_ = nullptr;  // to be replayed
  Clock::time_point started_;
  double thread_start_ = 0;  // processor time of the timeline's thread, and of all
  double process_start_ = 0;
  Clock::time_point last_pulse_;
  Clock::time_point last_progress_;
  /// Before the last pulse, for so long that the others may have taken this process for lost, and the results over.
  bool was_away_ = false;
  Clock::time_point next_save_;
  bool has_warned_of_saving_ = false;
  bool has_warned_of_models_ = false;
  Recorder reported_;  // by the ranks of a run over MPI
  Clock::time_point saving_began_;
  std::future<void> saving_;  // of what was reported
};

}  // namespace starling
