// Checkpoints of one simulation: when they are due, where they lie, and the replay of a run that goes on from one.
//
// They lie beside the results file: RESULTS.h5.checkpoint, and RESULTS.h5.checkpoint.previous, the one before. Each is
// whole or not there, whenever the program is killed; both are removed when a run that writes these results is complete.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/record/checkpoint.hpp"
#include "sim/record/facts.hpp"

namespace starling {

/// When checkpoints are written; never if both are 0.
struct CheckpointSchedule {
  std::chrono::nanoseconds wall{0};  // every so much real time
  Step steps = 0;                    // every so many steps of the nodes, on average
  bool is_on() const { return wall.count() > 0 || steps > 0; }
};

/// Reads run.checkpoint: "10 min", "500 steps" or "never".
CheckpointSchedule read_checkpoint(const Section& run);

/// The newest whole checkpoint that `path` names: a results file, whose checkpoints lie beside it, or one of those.
struct FoundCheckpoint {
  std::unique_ptr<CheckpointFile> file;
  std::string results;  // the results file it belongs to
  std::string warning;  // why it is not the newest; empty if it is
};
/// Whether one lies beside a results file, be it whole or not.
bool has_checkpoint(const std::string& results);
/// Throws Error if there is none.
FoundCheckpoint find_checkpoint(const std::string& path);
/// Removes those of a results file, whose run is complete: nobody shall go on with an older one in its place.
void remove_checkpoints(const std::string& results);
/// The folder that the run of `file` was begun in, if its scenario is there and not here; else "".
std::string other_folder_of(const CheckpointFile& file);
/// Of the content of a file that a scenario names; "" if there is none, or no regular file.
std::string checksum_of_file(const std::string& path);
/// What a checkpoint says of a file that the scenario names.
std::pair<std::string, std::string> file_fact(const FileRead& file);
/// Throws Error unless `file` is of the run that has these facts: of this program, the same scenario and the same data.
void check_facts(const CheckpointFile& file, const std::map<std::string, std::string>& facts);

/// Where a simulation is.
struct Moment {
  std::int64_t events = 0;
  std::int64_t steps = 0;  // finished, over all nodes
};

class Checkpointing {
 public:
  struct Settings {
    CheckpointSchedule schedule;
    NodeId nodes;
    std::string results;  // path of the results file
    bool writes = true;   // false: another process that shares the run does
    /// What checkpoints say beside their place; wall_seconds and folder are added.
    std::map<std::string, std::string> facts;
    std::string folder;  // from which paths of the scenario are found
    /// Told once why a checkpoint cannot be written (a full disk): the run goes on, the last good one stays.
    std::function<void(const std::string&)> warn;
  };
  /// Before anything is recorded in `graph`, which outlives this. With `from` the run is replayed up to there.
  Checkpointing(Settings settings, ComputeGraph& graph, std::unique_ptr<CheckpointFile> from);

  /// The transport calls it every so many events, the same ones in every run: ends the replay when its place has come;
  /// afterwards writes a checkpoint if one is due by steps, or if `is_asked` for. Processes that share the run agree on
  /// the latter.
  void pass(const Moment& place, bool is_asked);
  /// Whether one is due by the clock.
  bool is_time() const { return !is_replaying() && Clock::now() >= due_at_; }
  /// The run has ended of itself. Throws Error if its replay has not.
  void check_replayed() const;

  bool is_replaying() const { return from_ != nullptr; }
  /// The newest checkpoint; empty if this process has neither written nor gone on from one.
  const std::string& newest() const { return newest_; }
  /// How many could not be written here.
  int lost() const { return lost_; }
  /// Steps at the place where the replay ended.
  std::int64_t steps_before() const { return steps_before_; }
  /// Real time that the run took before it went on here.
  double wall_seconds_before() const { return wall_seconds_before_; }

 private:
  using Clock = std::chrono::steady_clock;

  void follow(const Moment& place);
  void write(const Moment& place);
  void save_whole();
  void plan_next(const Moment& place);

  Settings settings_;
  ComputeGraph& graph_;
  const std::int64_t window_bytes_;       // of the graph, on this machine
  std::unique_ptr<CheckpointFile> from_;  // during the replay
  std::size_t next_leg_ = 1;
  std::string newest_;
  int lost_ = 0;
  Checkpoint checkpoint_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point due_at_;
  std::int64_t due_steps_ = 0;
  std::int64_t steps_before_ = 0;
  double wall_seconds_before_ = 0;
};

}  // namespace starling
