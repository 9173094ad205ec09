// From a scenario to the parts of a run: asks the four registries for what the sections name. The only code that
// knows every section.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/place.hpp"
#include "scenarios/checkpointing.hpp"
#include "scenarios/host_keys.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/target.hpp"
#include "sim/engine/compute_time.hpp"
#include "sim/engine/failures.hpp"
#include "sim/engine/network_model.hpp"
#include "sim/node/node.hpp"
#include "sim/node/topology.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// Over MPI: a gradient takes as long as the compute-time model says (the node sleeps the rest), or as long as
/// it takes.
enum class Pace { modelled, measured };

/// The [run] section, and the switches of other sections that belong to the run as a whole.
struct RunSettings {
  NodeId nodes = 0;
  Step steps = 0;
  std::uint64_t seed = 0;
  Step evaluate_every = 0;
  Step record_every = 0;
  Duration evaluate_interval{};  // zero: not by time, but at `until`
  Time until = Time::max();
  std::optional<Target> until_target;  // the first evaluation that is there ends the run
  Time timeline_until{};
  std::string output;
  bool save_models = false;
  CheckpointSchedule checkpoint;
  std::chrono::nanoseconds patience{};  // of a process with others
  bool record_order = true;             // over MPI
  std::int64_t window_bytes = 0;
  DeviceChoice device = DeviceChoice::cpu;
  Precision precision = Precision::strict;
  bool closed_form_collectives = false;
  std::int64_t eager_limit =
      Rendezvous::no_limit;  // bytes of the longest message that does not wait for its receiver
  Pace pace = Pace::modelled;
  Duration per_episode{};  // of a rollout, added to its gradient's duration
  bool marks_divergence = false;
  double forward_share =
      0;  // of a gradient's duration without delays; the rest is the backward pass
  ExchangePlan plan;
  HostCosts host;

  bool evaluates_by_time() const { return evaluate_interval > Duration{0} || until < Time::max(); }
};

struct Assembly {
  RunSettings settings;
  std::unique_ptr<Workload> workload;
  std::unique_ptr<Topology> topology;
  std::unique_ptr<NetworkModel> network;
  std::unique_ptr<ComputeTime> compute_time;
  std::unique_ptr<Failures> failures;  // null: without a section [failures] nothing fails
  Program program;
  std::string algorithm;      // its name in the catalog
  std::string scenario_name;  // file it was read from
  std::string reference;      // of [reference]: the file to compare with; no run reads it
  std::vector<DescribedSection> described;  // every key in effect, defaults included
  std::vector<std::string> files;           // that these name
  std::vector<std::string> warnings;        // of what is allowed but hardly meant
  bool reads_topology = false;              // the algorithm, as it is set
  std::vector<HostWish> host_wishes;        // of [network], as far as it sets them
  std::string idle_collectives;             // due if analytic, and there are none
  int hosts = 1;                            // that share the models
  // Warnings of what is set and not read. Of a sweep some points may read it.
  std::string idle_topology;
  std::string idle_forward_share;
};

/// Builds all parts. Throws ScenarioError (what the scenario says is wrong) or Error (a file it names is). So many
/// `hosts` share the models.
Assembly assemble(const Scenario& scenario, int hosts = 1);

/// Throws ScenarioError for what a scenario asks that only a simulation, or fewer `ranks`, can do.
void check_for_mpi(const Assembly& parts, int ranks);
/// Throws ScenarioError for what `processes` cannot share.
void check_for_sharing(const Assembly& parts, int processes);

/// Reads the [run] section; `scenario_name` names the default results file.
RunSettings read_run(const Section& section, const std::string& scenario_name);
/// Reads the switches of the run in [network] (`collectives`) and [compute] (`pace`), before the makers' own keys.
bool read_closed_form_collectives(const Section& network);
std::int64_t read_eager_limit(const Section& network);
Pace read_pace(const Section& compute);
double read_forward_share(const Section& compute);
/// Time that a gradient takes longer for each episode of its rollout, by the numbers.
Duration read_per_episode(const Section& compute);

/// The sections a scenario may have, in their usual order. [sweep] is of no single run: `starling sweep` reads it.
inline constexpr std::string_view section_names[] = {"run",       "topology",  "network",
                                                     "compute",   "workload",  "failures",
                                                     "algorithm", "reference", "sweep"};

/// "results/NAME.h5" for a scenario read from ".../NAME.ini".
std::string default_output(const std::string& scenario_name);

}  // namespace starling
