// starling list: every component by name, with one sentence and its keys. The keys come from the components
// themselves: each maker reads a probe section, which notes the keys and ends before anything is built.

#include <functional>

#include <fmt/format.h>

#include "algorithms/registry.hpp"
#include "kernels/registry.hpp"
#include "network_models/registry.hpp"
#include "sim/engine/compute_time.hpp"
#include "tools/arguments.hpp"
#include "tools/failure.hpp"
#include "topology/registry.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

constexpr NodeId probe_nodes = 4;

void print_keys(const Section& section, bool with_keys) {
  if (!with_keys) return;
  for (const KeyUse& use : section.uses()) {
    if (use.key == "kind") continue;
    const std::string value = use.required ? "required" : use.fallback.empty() ? "none" : use.fallback;
    fmt::print("      {:<22}{:<34}  {}\n", use.key, fmt::format("{} ({})", use.type, value), use.help);
  }
}

void probe(const std::function<void()>& make) {
  try {
    make();
  } catch (const ProbeFinished&) {
    return;
  }
}

template <class Entries, class Make>
void list_catalog(std::string_view title, const std::string& section_name, const Entries& entries, const std::string& only,
                  bool with_keys, Make make) {
  bool has_title = false;
  for (const auto& entry : entries) {
    if (!only.empty() && only != entry.name && only != section_name) continue;
    if (!has_title) fmt::print("{} ([{}] kind = ..)\n", title, section_name);
    has_title = true;
    fmt::print("  {:<24}{}\n", entry.name, entry.summary);
    const Section section = Section::probe(section_name);
    probe([&] { make(entry, section); });
    print_keys(section, with_keys);
  }
}

}  // namespace

void list_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("keys,k", "with the keys of each");
  po::variables_map values;
  if (!parse_arguments(arguments, "starling list [SECTION | NAME] [--keys]", options, values)) return;
  const auto words = values["words"].as<std::vector<std::string>>();
  if (words.size() > 1) throw UsageError("list takes one name at most");
  const std::string only = words.empty() ? "" : words[0];
  const bool with_keys = values.count("keys") > 0 || !only.empty();

  const Topology line(probe_nodes, {{}}, {std::vector<double>(probe_nodes, 1.0)});
  list_catalog("algorithms", "algorithm", algorithms::catalog(), only, with_keys, [&](const auto& entry, const Section& section) {
    static_cast<void>(entry.make(section, {probe_nodes, 1, line}));
  });
  list_catalog("topologies", "topology", topologies::catalog(), only, with_keys, [](const auto& entry, const Section& section) {
    static_cast<void>(entry.make(section, probe_nodes, 1));
  });
  list_catalog("network models", "network", network_models::catalog(), only, with_keys,
               [](const auto& entry, const Section& section) { static_cast<void>(entry.make(section, probe_nodes)); });
  list_catalog("workloads", "workload", workloads::catalog(), only, with_keys, [](const auto& entry, const Section& section) {
    static_cast<void>(entry.make(section, probe_nodes, 1));
  });
  if (only.empty() || only == "compute") {
    fmt::print("compute time ([compute])\n");
    const Section section = Section::probe("compute");
    probe([&] { static_cast<void>(ComputeTime(section, probe_nodes, 1)); });
    print_keys(section, true);
  }
}

}  // namespace starling
