// What all runs have in common: how they begin, what is done now and then, and how they end and save what is known (complete,
// interrupted, failed). run_simulated.cpp, run_shared.cpp and run_mpi.cpp run them.

#include "scenarios/run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <omp.h>

#include "scenarios/memory.hpp"
#include "scenarios/replay_check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/hdf5.hpp"
#include "sim/base/processor_time.hpp"
#include "sim/record/results_file.hpp"
#include "topology/spectrum.hpp"

namespace starling {
namespace {

constexpr auto between_progress = std::chrono::milliseconds(200);
constexpr auto first_save_after = std::chrono::seconds(10);
constexpr std::size_t reserve_bytes = std::size_t{64} << 20;
constexpr std::size_t few_waiting_models = 4;  // of each node
constexpr int save_share = 30;  // saving takes at most one part in so many of the time

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// What relative paths are relative to; "" if it has gone.
std::string current_folder() {
  std::error_code none;
  return std::filesystem::current_path(none).string();
}

/// Spectral gap of a topology (topology/spectrum.hpp), if it is found in some hundredths of a second.
std::optional<double> quick_spectral_gap(const Topology& topology) {
  constexpr std::size_t most_passes = 2'000'000;  // over arcs, there and back
  constexpr std::size_t fewest_iterations = 50;
  if (topology.arc_count() > most_passes && !topology.is_complete()) return std::nullopt;
  topologies::SpectrumLimits limits;
  const std::size_t affordable = most_passes / std::max<std::size_t>(topology.arc_count(), 1);
  if (affordable < static_cast<std::size_t>(limits.iterations))
    limits.iterations = affordable < fewest_iterations ? 0 : static_cast<int>(affordable);
  const topologies::SpectralGap found = topologies::spectral_gap(topology, limits);
  return found.converged ? std::optional(found.gap) : std::nullopt;
}

}  // namespace

Run::Run(Assembly assembly, Hooks hooks) : parts_(std::move(assembly)), hooks_(std::move(hooks)) {
  for (const std::string& path : parts_.files) files_.push_back({checksum_of_file(path), path});
}

Run::~Run() = default;

void Run::begin(ComputeGraph::Execution execution, NodeId models, Sharing sharing) {
  const RunSettings& settings = parts_.settings;
  // The library crashes if there is no memory left when it is first used.
  const hdf5::Silence early;
  recorder_ =
      Recorder(settings.nodes, RowSchedule(settings.record_every, settings.steps),
               RowSchedule(settings.evaluate_every, settings.steps), settings.timeline_until);
  place_ = find_place(settings.device, settings.precision, *parts_.workload, models, rank_here_);
  if (settings.device == DeviceChoice::automatic && !place_.device)  // else not looked at yet
    check_memory_of_models(settings, parts_.workload->facts(), parts_.hosts);
  graph_ = std::make_unique<ComputeGraph>(
      *place_.backend, workload(),
      ComputeGraph::Limits{.window_bytes = place_.window_bytes(settings.window_bytes),
                           .stops_at_divergence = !settings.marks_divergence},
      execution, std::move(sharing));
  observer_ = std::make_unique<Observer>(*graph_, recorder_, parts_.workload->facts());
  if (settings.marks_divergence) observer_->leave_out_diverged();
  if (settings.evaluates_nodes) observer_->evaluate_nodes();
  if (settings.swa_start > 0 && graph_->has_numbers())
    observer_->average_steps(settings.swa_start, settings.swa_period);
  network_log_ = std::make_unique<NetworkLog>(recorder_.timeline_end());
  reserve_ =
      map_zeros(reserve_bytes + 2 * sizeof(NodeTotals) * static_cast<std::size_t>(settings.nodes));
  nodes_here_ = settings.nodes;
  started_ = last_pulse_ = last_progress_ = Clock::now();
  thread_start_ = thread_time();
  process_start_ = process_time();
  next_save_ = started_ + first_save_after;
}

void Run::describe(const std::string& transport) {
  recorder_.facts["scenario"] = Scenario::to_text(parts_.described);
  recorder_.facts["scenario_name"] = parts_.scenario_name;
  recorder_.facts["algorithm"] = parts_.algorithm;
  if (!parts_.reads_topology) recorder_.facts["topology"] = "not read";
  recorder_.facts["workload"] = parts_.workload->facts().description;
  recorder_.facts["samples_per_step"] = fmt::format("{}", parts_.workload->facts().batch_size);
  recorder_.facts["transport"] = transport;
  recorder_.facts["status"] = "running";
  recorder_.machine["code_version"] = hooks_.code_version;
  recorder_.machine["processor"] = processor_name();
  recorder_.machine["device"] = place_.description;
  recorder_.machine["folder"] = current_folder();
  recorder_.machine["threads"] = std::to_string(omp_get_max_threads());
  for (const auto& [checksum, name] : files_) {
    if (!checksum.empty()) recorder_.machine["files"] += checksum + ' ' + name + '\n';
  }
}

void Run::pulse(Time now, std::optional<std::int64_t> events) {
  network_log_->pass_to(now);
  Wish wish;
  if (checkpoints_) wish.checkpoint = checkpoints_->is_time();
  // Processes that share a run, but write no checkpoint, look for signals where they compute.
  if (hooks_.interruption && (checkpoints_ || !peers_)) wish.signal = hooks_.interruption();
  wish = graph_->agree(wish);
  if (checkpoints_) {
    checkpoints_->pass({*events, observer_->steps_finished()}, wish.checkpoint || wish.signal != 0);
  }
  if (wish.signal != 0) throw Interrupted(wish.signal);
  const auto wall = Clock::now();
  was_away_ = wall - std::exchange(last_pulse_, wall) > parts_.settings.patience;
  if (hooks_.progress && wall - last_progress_ >= between_progress) {
    last_progress_ = wall;
    hooks_.progress({.now = now,
                     .steps = observer_->steps_finished(),
                     .all_steps = static_cast<double>(parts_.settings.steps) * nodes_here_,
                     .until = parts_.settings.until,
                     .steps_before = checkpoints_ ? checkpoints_->steps_before() : 0,
                     .samples_per_step = parts_.workload->facts().batch_size,
                     .is_replaying = is_replaying(),
                     .share_here = static_cast<double>(nodes_here_) / parts_.settings.nodes,
                     .is_real = !events});
  }
  events ? watch_waiting_models() : watch_kept_models(observer_->waiting_models());
  if (events && wall >= next_save_ && !is_replaying()) {
    if (!peers_ || !was_away_) save_so_far();
    plan_next_save(wall);
  }
}

void Run::plan_next_save(Clock::time_point began) {
  const auto now = Clock::now();
  next_save_ = now + std::max<Clock::duration>(first_save_after, save_share * (now - began));
}

std::string Run::checkpoint() const {
  return checkpoints_ && !recorder_.is_complete() ? checkpoints_->newest() : "";
}

/// Brings the records up to now; whether it is this process that saves them.
bool Run::note_standing() {
  if (!hooks_.saves || !is_keeper_()) return false;
  if (saving_.valid()) saving_.wait();
  if (network_log_) network_log_->report(recorder_);
  observer_->note_models();
  return true;
}

/// At the end. The file is put together in memory, for which what the network still knew makes room.
void Run::save_now() {
  if (!note_standing()) return;
  network_log_.reset();
  parts_.network.reset();
  save(recorder_, parts_.settings.output);
}

/// Between times: where there is no room now, there may be some at the end.
void Run::save_so_far() {
  if (!note_standing()) return;
  try {
    // To save in: the library crashes in other places, too, where there is no memory.
    reserve_.reset();
    save_between_times(recorder_, parts_.settings.output);
  } catch (const Error& error) {
    warn_of_saving(error);
  }
  try {
    reserve_ = map_zeros(reserve_.get_deleter().bytes);
  } catch (const std::bad_alloc&) {  // what is left is all that there is
  }
}

/// GiB of so many models, the first time that they are more than evaluations keep in silence.
std::optional<double> Run::too_many_models(std::size_t models) {
  if (has_warned_of_models_ || !hooks_.warn || !graph_->has_numbers()) return std::nullopt;
  const double bytes = model_bytes(parts_.settings, parts_.workload->facts()) *
                       static_cast<double>(models) / parts_.settings.nodes;
  if (bytes < hooks_.most_waiting_bytes) return std::nullopt;
  has_warned_of_models_ = true;
  return bytes / (1 << 30);
}

void Run::watch_waiting_models() {
  const std::size_t waiting = observer_->waiting_models();
  if (waiting < few_waiting_models * recorder_.nodes.size()) return;
  const std::optional<double> size = too_many_models(waiting);
  if (!size) return;
  const NodeId slowest = observer_->slowest();
  const Step fastest = std::ranges::max(recorder_.nodes, {}, &NodeTotals::steps).steps;
  hooks_.warn(fmt::format(
      "evaluations by step keep {:.2g} GiB of models until node {} gets as far, which is {} "
      "steps behind; a larger run.evaluate_every keeps fewer, evaluations by time "
      "(run.evaluate_interval) none",
      *size, slowest, fastest - recorder_.nodes[static_cast<std::size_t>(slowest)].steps));
}

/// Over MPI, where those of a rank's nodes are kept until all are evaluated on rank 0. One rank speaks for all, which have equally
/// many nodes.
void Run::watch_kept_models(std::size_t models) {
  if (!is_keeper_()) return;
  if (const std::optional<double> size = too_many_models(models)) {
    hooks_.warn(fmt::format(
        "evaluations over MPI keep {:.2g} GiB of models on a rank until the run has ended; "
        "a larger run.evaluate_every or run.evaluate_interval keeps fewer",
        *size));
  }
}

void Run::warn_of_saving(const Error& error) {
  if (!has_warned_of_saving_ && hooks_.warn)
    hooks_.warn(fmt::format("{}; the run goes on, and saves results later", error.what()));
  has_warned_of_saving_ = true;
}

/// After a failure, which is what is told even if results cannot be saved any more. Final models may be what there was no
/// room for, in memory or on a disk, and all else takes little.
void Run::save_if_possible() {
  for (const bool is_last : {recorder_.models.empty(), true}) {
    try {
      return save_now();
    } catch (const std::exception&) {
      if (is_last) return;
      recorder_.models = {};
    }
  }
}

void Run::finish() {
  observer_->finish_evaluations();
  if (parts_.settings.save_models && graph_->has_numbers()) {
    recorder_.models.clear();
    for (NodeId i = 0; i < parts_.settings.nodes; ++i) {
      const Vector& x = observer_->model(i);
      const std::span<const float> values = x ? graph_->read(x) : std::span<const float>();
      recorder_.models.emplace_back(values.begin(), values.end());
    }
  }
  if (recorded_ != nullptr) recorder_.facts["replay"] = describe_replay(*recorded_, recorder_);
  if (parts_.settings.marks_divergence) note_diverged();
  const auto gap = parts_.reads_topology ? quick_spectral_gap(*parts_.topology) : std::nullopt;
  if (gap) recorder_.statistics["topology.spectral_gap"] = *gap;
  const std::chrono::duration<double> wall = Clock::now() - started_;
  const double before = checkpoints_ ? checkpoints_->wall_seconds_before() : 0;
  recorder_.machine["wall_seconds"] = fmt::format("{:.3f}", before + wall.count());
  if (lost_checkpoints() > 0)
    recorder_.machine["lost_checkpoints"] = std::to_string(lost_checkpoints());
  if (recorder_.facts["transport"] != "mpi") note_machinery();
}

/// Of this process. Over MPI, where rank 0 alone comes here, it would be a part of the whole.
void Run::note_machinery() {
  const GraphStatistics& graph = graph_->statistics();
  auto& statistics = recorder_.statistics;
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
  };
  for (const auto& [number, name] : GraphStatistics::counters()) {
    if (name != nullptr)
      statistics[fmt::format("graph.{}", name)] = static_cast<double>(graph.*number);
  }
  statistics["graph.mean_gradient_batch"] = ratio(graph.gradients, graph.gradient_batches);
  statistics["graph.mean_sum_batch"] = ratio(graph.sums - graph.folded, graph.sum_batches);
  statistics["graph.mean_transform_batch"] = ratio(graph.transforms, graph.transform_batches);
  statistics["graph.mean_distance_batch"] = ratio(graph.distances, graph.distance_batches);
  statistics["graph.mean_evaluation_batch"] = ratio(graph.evaluations, graph.evaluation_batches);
  if (recorder_.timeline_end().is_full())
    statistics["timeline.full_seconds"] = to_seconds(recorder_.timeline_until());
  recorder_.machine["processor_seconds"] = fmt::format("{:.3f}", process_time() - process_start_);
  // What every process that shares the run does alike: the timeline, and the plan of who computes what.
  recorder_.machine["timeline_seconds"] = fmt::format("{:.3f}", thread_time() - thread_start_);
  if (peers_) recorder_.machine["plan_seconds"] = fmt::format("{:.3f}", graph.plan_seconds);
}

void Run::note_diverged() {
  constexpr std::size_t most_named = 20;
  const std::vector<std::string> nodes = observer_->diverged_nodes();
  recorder_.statistics["diverged_nodes"] = static_cast<double>(nodes.size());
  if (nodes.empty()) return;
  std::string text = nodes.front();
  for (std::size_t i = 1; i < std::min(nodes.size(), most_named); ++i) text += ", " + nodes[i];
  if (nodes.size() > most_named) text += fmt::format(", {} more", nodes.size() - most_named);
  recorder_.facts["diverged"] = text;
}

Time Run::until() const { return recorded_ != nullptr ? Time::max() : parts_.settings.until; }

void Run::evaluate_by_time(NodeId begin, NodeId end) {
  const RunSettings& settings = parts_.settings;
  if (settings.evaluates_by_time())
    observer_->evaluate_by_time({begin, end}, settings.evaluate_interval, until());
}

void Run::conclude(const std::function<bool()>& run, const std::function<void()>& gather,
                   bool completes, const std::function<void()>& make_room) {
  std::string status = "complete";
  bool has_all_steps = true;
  std::exception_ptr early;  // ends the run before its time, with numbers that are whole
  const auto note_early = [&](const std::string& words) {
    early = std::current_exception();
    if (is_replaying() || (peers_ && peers_->has_failed())) std::rethrow_exception(early);
    status = words;
  };
  try {
    try {
      has_all_steps = run();
      if (checkpoints_) checkpoints_->check_replayed();
    } catch (const Interrupted& interrupted) {
      note_early(interrupted.what());
    } catch (const Halted& halted) {
      note_early(fmt::format("failed: {}", halted.what()));
    }
    recorder_.facts["status"] = status;
    if (!has_all_steps)
      recorder_.facts["ended"] = is_at_target_ ? "at run.until_target" : "at run.until";
    gather();
    if (completes) {
      finish();
      graph_->close();
      if (!early && has_all_steps && is_keeper_()) observer_->check_steps(parts_.settings.steps);
      if (!early && is_keeper_() && graph_->has_numbers()) observer_->check_means();
      if (make_room) make_room();
      save_now();
    }
  } catch (...) {
    end_with(std::current_exception());
  }
  if (early) std::rethrow_exception(early);
  if (hooks_.saves && is_keeper_()) remove_checkpoints(parts_.settings.output);
}

void Run::end_with(const std::exception_ptr& failure) {
  reserve_.reset();
  const auto keep = [this](const std::string& status) {
    if (is_replaying()) return;  // the files of the run that it repeats stay as they are
    // The numbers may be what failed, so no more are asked for; cells not yet known stay empty.
    if (graph_) graph_->deliver_known();
    recorder_.facts["status"] = status;
    save_if_possible();
  };
  try {
    std::rethrow_exception(failure);
  } catch (const Interrupted& interrupted) {
    keep(interrupted.what());
    throw;
  } catch (const std::bad_alloc&) {
    const Error error(fmt::format("out of memory: {}",
                                  describe_memory(parts_.settings, parts_.workload->facts())));
    keep(fmt::format("failed: {}", error.what()));
    throw error;
  } catch (const std::exception& error) {
    keep(fmt::format("failed: {}", error.what()));
    throw;
  }
}

std::map<std::string, std::string> Run::checkpoint_facts() const {
  std::map<std::string, std::string> facts{{"scenario", Scenario::to_text(parts_.described)},
                                           {"scenario_name", parts_.scenario_name},
                                           {"code_version", hooks_.code_version}};
  for (const FileRead& file : files_) facts.insert(file_fact(file));
  return facts;
}

void Run::begin_checkpoints() {
  const RunSettings& settings = parts_.settings;
  if (!settings.checkpoint.is_on() && !from_) return;
  checkpoints_ =
      std::make_unique<Checkpointing>(Checkpointing::Settings{.schedule = settings.checkpoint,
                                                              .nodes = settings.nodes,
                                                              .results = settings.output,
                                                              .writes = is_keeper_(),
                                                              .facts = checkpoint_facts(),
                                                              .folder = current_folder(),
                                                              .warn = hooks_.warn},
                                      *graph_, std::move(from_));
}

}  // namespace starling
