// From a scenario to the parts of a run: asks the four registries for what the sections name. The only code that
// knows every section.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/host_keys.hpp"
#include "scenarios/run_settings.hpp"
#include "scenarios/scenario.hpp"
#include "sim/engine/compute_time.hpp"
#include "sim/engine/failures.hpp"
#include "sim/engine/network_model.hpp"
#include "sim/node/node.hpp"
#include "sim/node/topology.hpp"
#include "sim/node/workload.hpp"

namespace starling {

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
  std::vector<DescribedSection> described;          // every key in effect, defaults included
  std::vector<std::string> files;                   // that these name
  std::vector<std::string> warnings;                // of what is allowed but hardly meant
  bool reads_topology = false;                      // the algorithm, as it is set
  std::vector<HostCostWarning> host_cost_warnings;  // of [network], as far as it sets them
  std::string no_collectives_warning;               // due if analytic, and there are none
  int hosts = 1;                                    // that share the models
  // Warnings of what is set and not read. Of a sweep some points may read it.
  std::string unread_topology_warning;
  std::string unread_forward_share_warning;
};

/// Builds all parts. Throws ScenarioError (what the scenario says is wrong) or Error (a file it names is). So many
/// `hosts` share the models.
Assembly assemble(const Scenario& scenario, int hosts = 1);

/// The sections a scenario may have, in their usual order. [sweep] is of no single run: `starling sweep` reads it.
inline constexpr std::string_view section_names[] = {"run",       "topology",  "network",
                                                     "compute",   "workload",  "failures",
                                                     "algorithm", "reference", "sweep"};

}  // namespace starling
