// starling list: every component by name, with one sentence and its keys. The keys come from the components
// themselves: each maker reads a probe section, which notes the keys and ends before anything is built.

#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "algorithms/registry.hpp"
#include "kernels/registry.hpp"
#include "network_models/registry.hpp"
#include "scenarios/assemble.hpp"
#include "scenarios/host_keys.hpp"
#include "scenarios/reference.hpp"
#include "sim/engine/compute_time.hpp"
#include "sim/engine/failures.hpp"
#include "tools/arguments.hpp"
#include "tools/failure.hpp"
#include "topology/registry.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

constexpr NodeId probe_nodes = 4;

void print_key(const KeyUse& use, const std::string& condition) {
  const std::string value = use.required           ? "required"
                            : use.fallback.empty() ? "none"
                                                   : use.fallback;
  fmt::print("      {:<22}{:<34}  {}{}\n", use.key, fmt::format("{} ({})", use.type, value),
             condition, use.help);
}

/// The keys that `make` reads from a probe of the section in which `settings` are fixed.
std::vector<KeyUse> probe(const std::string& section_name, const std::vector<Setting>& settings,
                          const std::function<void(const Section&)>& make) {
  const Section section = Section::probe(section_name, settings);
  try {
    make(section);
  } catch (const ProbeFinished&) {
    return section.uses();
  }
  return section.uses();
}

/// Prints the keys of a component: those it always reads, then those that come with a choice.
void print_keys(const std::string& section_name, const std::function<void(const Section&)>& make) {
  const std::vector<KeyUse> always = probe(section_name, {}, make);
  std::set<std::string> known{"kind"};
  for (const KeyUse& use : always) {
    if (known.insert(use.key).second) print_key(use, "");
  }
  for (const KeyUse& use : always) {
    if (use.key == "kind" || use.type.find('|') == std::string::npos) continue;
    std::istringstream options(use.type);
    for (std::string option; std::getline(options, option, '|');) {
      for (const KeyUse& further : probe(section_name, {{use.key, option, "probe"}}, make)) {
        if (known.insert(further.key).second)
          print_key(further, fmt::format("with {} = {}: ", use.key, option));
      }
    }
  }
}

template <class Entries, class Make>
void list_catalog(std::string_view title, const std::string& section_name, const Entries& entries,
                  const std::string& only, bool with_keys, Make make) {
  bool has_title = false;
  for (const auto& entry : entries) {
    if (!only.empty() && only != entry.name && only != section_name) continue;
    if (!has_title) fmt::print("{} ([{}] kind = ..)\n", title, section_name);
    has_title = true;
    fmt::print("  {:<24}{}\n", entry.name, entry.summary);
    if (with_keys) print_keys(section_name, [&](const Section& section) { make(entry, section); });
  }
}

}  // namespace

void list_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("brief,b", "names and sentences, no keys");
  po::variables_map values;
  if (!parse_arguments(arguments, "starling list [SECTION | NAME] [--brief]", options, values))
    return;
  const auto words = values["words"].as<std::vector<std::string>>();
  if (words.size() > 1) throw UsageError("list takes one name at most");
  const std::string only = words.empty() ? "" : words[0];
  const bool with_keys = values.count("brief") == 0;

  const Topology line(probe_nodes, {{}}, {std::vector<double>(probe_nodes, 1.0)});
  const WorkloadFacts facts;
  list_catalog("algorithms", "algorithm", algorithms::catalog(), only, with_keys,
               [&](const auto& entry, const Section& section) {
                 static_cast<void>(algorithms::read_exchange(section, entry.name));
                 static_cast<void>(entry.make(section, {probe_nodes, 1, line, facts}));
               });
  list_catalog("topologies", "topology", topologies::catalog(), only, with_keys,
               [](const auto& entry, const Section& section) {
                 static_cast<void>(entry.make(section, probe_nodes, 1));
               });
  list_catalog("network models", "network", network_models::catalog(), only, with_keys,
               [](const auto& entry, const Section& section) {
                 static_cast<void>(read_closed_form_collectives(section));
                 static_cast<void>(read_host(section));
                 static_cast<void>(entry.make(section, probe_nodes, 1));
               });
  list_catalog("workloads", "workload", workloads::catalog(), only, with_keys,
               [](const auto& entry, const Section& section) {
                 static_cast<void>(entry.make(section, probe_nodes, 1));
               });
  const auto list_section = [&](const std::string& name, const std::string& title,
                                const std::function<void(const Section&)>& make) {
    if (!only.empty() && only != name) return;
    fmt::print("{} ([{}])\n", title, name);
    if (with_keys) print_keys(name, make);
  };
  list_section("compute", "compute time", [](const Section& section) {
    static_cast<void>(read_pace(section));
    static_cast<void>(read_forward_share(section));
    static_cast<void>(ComputeTime(section, probe_nodes, 1));
  });
  list_section("failures", "failures", [](const Section& section) {
    static_cast<void>(read_failures(section, probe_nodes));
  });
  list_section("reference", "a real run to compare with",
               [](const Section& section) { static_cast<void>(read_reference_section(section)); });
  list_section("run", "the run",
               [](const Section& section) { static_cast<void>(read_run(section, "NAME.ini")); });
}

}  // namespace starling
