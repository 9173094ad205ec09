#include "scenarios/assemble.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "algorithms/registry.hpp"
#include "kernels/registry.hpp"
#include "network_models/registry.hpp"
#include "scenarios/memory.hpp"
#include "scenarios/reference.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/base/unknown_key.hpp"
#include "topology/registry.hpp"

namespace starling {
namespace {

constexpr std::int64_t many_evaluations = 1000;  // during one gradient

/// Runs `build`; what it says is wrong with its arguments becomes a ScenarioError of the section.
template <class Build>
auto build_part(const Section& section, const std::string& scenario_name, Build build) {
  try {
    return build();
  } catch (const std::invalid_argument& error) {
    throw ScenarioError(fmt::format("{}: [{}] {}", scenario_name, section.name(), error.what()));
  }
}

/// The keys that a component reads, as far as it gets with these settings.
template <class Make>
std::vector<KeyUse> keys_read(const std::string& section, std::vector<Setting> settings,
                              const Make& make) {
  const Section probe = Section::probe(section, std::move(settings));
  try {
    static_cast<void>(make(probe));
  } catch (const ProbeFinished&) {
  }
  return probe.uses();
}

/// With which options of one of its choices a component reads the first key that nobody read; "" if with none.
template <class Make>
std::string choice_with(const UnknownKey& error, const Section& section, const Make& make) {
  const std::string& key = error.settings.front().key;
  for (const KeyUse& use : keys_read(section.name(), section.settings(), make)) {
    if (use.key == "kind") continue;
    std::vector<std::string> having;
    for (const std::string& option : use.options()) {
      std::vector<Setting> settings = section.settings();
      std::erase_if(settings, [&](const Setting& setting) { return setting.key == use.key; });
      settings.push_back({use.key, option, "probe"});
      const std::vector<KeyUse> uses = keys_read(section.name(), std::move(settings), make);
      if (std::ranges::count(uses, key, &KeyUse::key) > 0) having.push_back(option);
    }
    if (!having.empty())
      return fmt::format("; it is one with {} = {}", use.key, fmt::join(having, ", "));
  }
  return "";
}

/// Which kinds have the first key that nobody read, and how to take such keys away; "" if it is none of any kind.
template <class Entries, class Make>
std::string cure_of(const UnknownKey& error, const Section& section, const Entries& kinds,
                    const Make& make) {
  std::vector<std::string> having;
  std::set<std::string> known;  // by some kind
  for (const auto& kind : kinds) {
    const auto make_kind = [&](const Section& probe) { return make(kind, probe); };
    for (const KeyUse& use : keys_read(section.name(), section.settings(), make_kind)) {
      known.insert(use.key);
      if (use.key == error.settings.front().key) having.emplace_back(kind.name);
    }
  }
  if (having.empty()) return "";
  std::vector<std::string> words;
  for (const Setting& setting : error.settings) {
    if (setting.origin != command_line && known.contains(setting.key))
      words.push_back(fmt::format("{}.{}=default", section.name(), setting.key));
  }
  constexpr std::size_t most_named = 3;
  const std::size_t named = std::min(having.size(), most_named);
  return fmt::format(
      "; kind = {}{} {} it{}",
      fmt::join(having.begin(), having.begin() + static_cast<std::ptrdiff_t>(named), ", "),
      having.size() > named ? fmt::format(" and {} more", having.size() - named) : "",
      having.size() > 1 ? "have" : "has",
      words.empty() ? ""
                    : fmt::format("; {} takes away what the file sets, on the command line or "
                                  "zipped in [sweep]",
                                  fmt::join(words, " ")));
}

/// Builds the part of a section that has kinds: make(the kind that it names, section).
template <class Entries, class Entry, class Make>
auto build_kind(const Section& section, const std::string& scenario_name, const Entries& kinds,
                const Entry& (*find)(const Section&), const Make& make) {
  return build_part(section, scenario_name, [&] {
    const Entry& kind = find(section);
    try {
      auto made = make(kind, section);
      section.finish();  // whatever made it may have forgotten to
      return made;
    } catch (const UnknownKey& error) {
      const std::string choice =
          choice_with(error, section, [&](const Section& probe) { return make(kind, probe); });
      throw ScenarioError(error.what() +
                          (choice.empty() ? cure_of(error, section, kinds, make) : choice));
    }
  });
}

std::unique_ptr<Failures> assemble_failures(const Section& section, const RunSettings& settings) {
  FailureSettings read = read_failures(section, settings.nodes);
  for (const auto& [key, chance] : {std::pair("lose", read.lose), {"duplicate", read.duplicate}}) {
    section.expect(chance == 0 || !settings.closed_form_collectives, key,
                   "needs network.collectives = expanded, which changes nothing for an algorithm "
                   "without collectives: those in closed form have no messages, got {}",
                   chance);
  }
  return std::make_unique<Failures>(std::move(read), settings.nodes, settings.seed);
}

/// Whether a key asks for something. Results name every key, so those that have their default ask for nothing.
bool is_changed(const KeyUse& use) { return use.value != use.fallback; }

/// Whether the last pattern of link_bandwidths or link_latencies is *: all links are alike then.
bool names_all_links(const KeyUse& use) {
  const std::string_view last = trim(std::string_view(use.value).substr(use.value.rfind(',') + 1));
  return use.key.starts_with("link_") && trim(last.substr(0, last.find(':'))) == "*";
}

/// A closed form takes all links for alike and lasting; what makes some of them differ would be left out.
void check_links_alike(const Section& network) {
  constexpr std::array differing = {"link_schedule",   "failure_interval", "slow_hosts",
                                    "host_bandwidths", "host_latencies",   "link_bandwidths",
                                    "link_latencies",  "slowdowns"};
  const auto is_default = [](const KeyUse& use) {
    return use.type == "duration" ? parse_duration(use.value) == parse_duration(use.fallback)
                                  : use.value == use.fallback || names_all_links(use);
  };
  for (const KeyUse& use : network.uses()) {
    network.expect(std::ranges::count(differing, use.key) == 0 || is_default(use), use.key,
                   "needs network.collectives = expanded: collectives in closed form take all "
                   "links for alike and lasting, got {}",
                   use.value);
    const bool is_unlike = use.key == "fabric" ? use.value == "matrix"
                                               : use.key == "nodes_per_host" && is_changed(use);
    if (is_unlike) {
      network.warn("collectives",
                   "= analytic takes all ways for those of node 0, at their least bandwidth, and "
                   "nobody else's messages on them; with {} = {} they differ",
                   use.key, use.value);
    }
  }
}

/// Keeps what a section that is read tells of the run.
void note(Assembly& parts, const Section& section) {
  parts.described.push_back({section.name(), section.uses()});
  parts.files.insert(parts.files.end(), section.files().begin(), section.files().end());
  parts.warnings.insert(parts.warnings.end(), section.warnings().begin(), section.warnings().end());
}

/// Makes parts that nodes and a seed are enough for.
auto maker(const RunSettings& settings) {
  return [&settings](const auto& kind, const Section& section) {
    return kind.make(section, settings.nodes, settings.seed);
  };
}

void assemble_topology(Assembly& parts, const Section& topology) {
  parts.topology =
      std::make_unique<Topology>(build_kind(topology, parts.scenario_name, topologies::catalog(),
                                            topologies::find, maker(parts.settings)));
  note(parts, topology);
}

/// Answers what the section says of hosts: their costs depend on the size of models.
HostSettings assemble_network(Assembly& parts, const Section& network, bool has_failures) {
  RunSettings& settings = parts.settings;
  settings.closed_form_collectives = read_closed_form_collectives(network);
  if (settings.closed_form_collectives) {
    parts.no_collectives_warning =
        network.located("collectives", "= analytic has changed nothing: no collective ran");
  }
  settings.eager_limit = read_eager_limit(network);
  if (has_failures) {
    network.expect(settings.eager_limit == Rendezvous::no_limit, "eager_limit",
                   "must be infinite with [failures]: who waits for a node that is gone is not "
                   "modelled");
  }
  const HostSettings host = read_host(network);
  parts.network = build_kind(network, parts.scenario_name, network_models::catalog(),
                             network_models::find, maker(settings));
  if (settings.closed_form_collectives) check_links_alike(network);
  note(parts, network);
  parts.host_cost_warnings = host_cost_warnings(network);
  return host;
}

/// The workload comes first, because durations may depend on the sizes of its batches.
void assemble_work(Assembly& parts, const Section& workload, const Section& compute) {
  RunSettings& settings = parts.settings;
  parts.workload = build_kind(workload, parts.scenario_name, workloads::catalog(), workloads::find,
                              maker(settings));
  settings.pace = read_pace(compute);
  settings.forward_share = read_forward_share(compute);
  settings.per_episode = read_per_episode(compute);
  compute.expect(settings.per_episode == Duration{0} || parts.workload->facts().counts_episodes,
                 "per_episode", "needs a workload of episodes (navigation), got {}",
                 to_text(settings.per_episode));
  parts.compute_time = build_part(compute, parts.scenario_name, [&] {
    const auto cost = [batches = parts.workload.get()](NodeId node, Step step) {
      return batches->batch_cost(node, step);
    };
    const auto make = [&](const Section& section) {
      return std::make_unique<ComputeTime>(section, settings.nodes, settings.seed, cost);
    };
    try {
      return make(compute);
    } catch (const UnknownKey& error) {
      throw ScenarioError(error.what() + choice_with(error, compute, make));
    }
  });
  note(parts, compute);
  note(parts, workload);
}

/// What of [run] and of the model's size shows only beside the workload and its gradients' durations.
void check_run(Assembly& parts, const Section& run, const Section& workload) {
  const RunSettings& settings = parts.settings;
  const std::string doubt = doubt_of_table(settings);
  if (!doubt.empty()) parts.warnings.push_back(run.located("record_every", doubt));
  const Duration interval = settings.evaluate_interval;
  const Duration gradient = parts.compute_time->mean();
  if (interval > Duration{0} && gradient / interval > many_evaluations) {
    parts.warnings.push_back(
        run.located("evaluate_interval",
                    fmt::format("is {}: {} evaluations for each gradient of {}", to_text(interval),
                                gradient / interval, to_text(gradient))));
  }
  const WorkloadFacts& facts = parts.workload->facts();
  if (settings.until_target) {
    run.expect(is_told(*settings.until_target, facts), "until_target",
               "is a {}, which this workload does not tell: {}", settings.until_target->metric,
               facts.description);
  }
  if (settings.device == DeviceChoice::cpu) check_memory_of_models(settings, facts, parts.hosts);
  constexpr std::size_t most_parameters = (std::size_t{1} << 31) - 1;  // of a Vector
  workload.expect(!facts.has_numbers || facts.parameters <= most_parameters, "kind",
                  "must have at most {} parameters, got {}", most_parameters, facts.parameters);
}

/// Rings of two levels that are one: unless nodes divide into several groups of several.
void warn_of_one_ring(const Section& algorithm, const RunSettings& settings) {
  const auto collective = std::ranges::find(algorithm.uses(), "collective", &KeyUse::key);
  if (collective == algorithm.uses().end() || collective->value != "hierarchical") return;
  const NodeId group = settings.plan.collective_group;
  const NodeId nodes = settings.nodes;
  if (nodes % group == 0 && group > 1 && group < nodes) return;
  algorithm.warn("collective",
                 "= hierarchical is one ring of all: {} nodes do not divide into several groups of "
                 "collective_group = {}",
                 nodes, group);
}

void assemble_algorithm(Assembly& parts, const Section& algorithm, const Section& network) {
  RunSettings& settings = parts.settings;
  const WorkloadFacts& facts = parts.workload->facts();
  const auto make_program = [&](const auto& kind, const Section& section) {
    parts.algorithm = kind.name;
    const auto nodes_per_host = network.peek<std::int64_t>("nodes_per_host", 1);
    settings.plan = plan_exchange(algorithms::read_exchange(section, kind, nodes_per_host), facts);
    return kind.make(section, {settings.nodes, settings.steps, *parts.topology, facts});
  };
  parts.program = build_kind(algorithm, parts.scenario_name, algorithms::catalog(),
                             algorithms::find, make_program);
  const auto exchange = std::ranges::find(algorithm.uses(), "exchange", &KeyUse::key);
  if (exchange != algorithm.uses().end() && is_changed(*exchange) && facts.tensors.size() <= 1) {
    algorithm.warn("exchange", "= {} changes nothing: the workload has one tensor",
                   exchange->value);
  }
  warn_of_one_ring(algorithm, settings);
  note(parts, algorithm);
  parts.reads_topology = algorithm.reads_other("topology");
}

/// Notes what is set for an algorithm that does not read it. A graph of all with all asks for nothing.
void note_unread(Assembly& parts, const Section& topology, const Section& compute) {
  const auto forward_share = std::ranges::find(compute.uses(), "forward_share", &KeyUse::key);
  if (is_changed(*forward_share) && !parts.settings.plan.overlaps_backward) {
    parts.unread_forward_share_warning =
        compute.located("forward_share", "changes nothing without algorithm.overlap = backward");
  }
  const bool asks_for_graph =
      !parts.topology->is_complete() && std::ranges::any_of(topology.uses(), is_changed);
  if (!parts.reads_topology && asks_for_graph) {
    parts.unread_topology_warning = topology.located(
        "kind", fmt::format("changes nothing: algorithm.kind = {}, as it is set, reads no graph",
                            parts.algorithm));
  }
}

}  // namespace

Assembly assemble(const Scenario& scenario, int hosts) {
  scenario.reject_unknown_sections(section_names);
  Assembly parts;
  parts.scenario_name = scenario.name();
  parts.hosts = hosts;

  const Section run = scenario.section("run");
  parts.settings = read_run(run, scenario.name());
  note(parts, run);

  const Section topology = scenario.section("topology");
  assemble_topology(parts, topology);

  const bool has_failures = scenario.has_section("failures");
  const Section network = scenario.section("network");
  const HostSettings host = assemble_network(parts, network, has_failures);

  const Section compute = scenario.section("compute");
  const Section workload = scenario.section("workload");
  assemble_work(parts, workload, compute);
  check_run(parts, run, workload);
  parts.settings.host = host.costs_for(4 * parts.workload->facts().wire_parameters);

  if (has_failures) {
    const Section failures = scenario.section("failures");
    parts.failures = assemble_failures(failures, parts.settings);
    note(parts, failures);
  }

  assemble_algorithm(parts, scenario.section("algorithm"), network);
  note_unread(parts, topology, compute);

  if (scenario.has_section("reference")) {
    const Section reference = scenario.section("reference");
    parts.reference = read_reference_section(reference).file;
    parts.described.push_back({reference.name(), reference.uses()});  // no run reads its file
  }
  return parts;
}

}  // namespace starling
