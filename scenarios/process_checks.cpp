#include "scenarios/process_checks.hpp"

#include <string>

#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling {
namespace {

/// Throws a ScenarioError that says `what` of the scenario unless the condition holds.
void expect(const Assembly& parts, bool condition, const std::string& what) {
  if (!condition) throw ScenarioError(fmt::format("{}: {}", parts.scenario_name, what));
}

}  // namespace

void check_for_mpi(const Assembly& parts, int ranks) {
  const RunSettings& settings = parts.settings;
  expect(parts, settings.nodes >= ranks,
         fmt::format("run.nodes must be at least the number of ranks, {}, got {}", ranks,
                     settings.nodes));
  expect(parts, !settings.checkpoint.is_on(),
         "run.checkpoint must be never over MPI: what real time did cannot be replayed; it is for "
         "simulations");
  expect(parts, settings.per_episode == Duration{0},
         "[compute] per_episode must not be there over MPI: it is for simulations");
  expect(parts, !settings.until_target,
         "run.until_target must be none over MPI, where nobody knows the mean model during the "
         "run: it is for simulations");
  expect(parts, settings.pace != Pace::measured || parts.workload->facts().has_numbers,
         "compute.pace must be modelled over MPI where workload.kind has no numbers, whose "
         "gradients take no time of their own; got measured");
  expect(parts, !parts.failures,
         "[failures] must not be there over MPI, where nodes fail by themselves: it is for "
         "simulations");
}

void check_for_sharing(const Assembly& parts, int processes) {
  const RunSettings& settings = parts.settings;
  expect(parts, parts.workload->facts().has_numbers,
         "processes share the numbers of a simulation, and workload.kind has none; run it without "
         "mpirun");
  expect(parts, settings.nodes >= processes,
         fmt::format("run.nodes must be at least the number of processes, {}, got {}", processes,
                     settings.nodes));
  const std::string where =
      " where processes share a simulation, whose numbers no process has all of";
  expect(parts, settings.device == DeviceChoice::cpu, "run.device must be cpu" + where);
  expect(
      parts, !settings.marks_divergence,
      "run.on_divergence must be stop" + where + "; mark is for one process, or --transport mpi");
  expect(parts, settings.per_episode == Duration{0},
         "compute.per_episode must not be there" + where);
}

}  // namespace starling
