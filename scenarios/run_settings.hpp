// The settings of a run that belong to none of its parts: the [run] section, and switches of [network] and [compute].
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/place.hpp"
#include "scenarios/checkpointing.hpp"
#include "scenarios/target.hpp"
#include "sim/base/section.hpp"
#include "sim/node/exchange_plan.hpp"
#include "sim/node/host.hpp"
#include "sim/node/rendezvous.hpp"

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
  bool evaluates_nodes = false;  // each one's model, too
  Time until = Time::max();
  std::optional<Target> until_target;  // the first evaluation that is there ends the run
  Step swa_start = 0;                  // 0: models of a node are not averaged over its steps
  Step swa_period = 1;
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

/// Reads the [run] section; `scenario_name` names the default results file.
RunSettings read_run(const Section& section, const std::string& scenario_name);
/// Reads the switches of the run in [network] (`collectives`) and [compute] (`pace`), before the makers' own keys.
bool read_closed_form_collectives(const Section& network);
std::int64_t read_eager_limit(const Section& network);
Pace read_pace(const Section& compute);
double read_forward_share(const Section& compute);
/// Time that a gradient takes longer for each episode of its rollout, by the numbers.
Duration read_per_episode(const Section& compute);

/// "results/NAME.h5" for a scenario read from ".../NAME.ini".
std::string default_output(const std::string& scenario_name);

}  // namespace starling
