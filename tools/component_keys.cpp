#include "tools/component_keys.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "algorithms/registry.hpp"
#include "kernels/registry.hpp"
#include "network_models/registry.hpp"
#include "scenarios/assemble.hpp"
#include "scenarios/host_keys.hpp"
#include "scenarios/reference.hpp"
#include "sim/engine/compute_time.hpp"
#include "sim/engine/failures.hpp"
#include "topology/registry.hpp"

namespace starling {
namespace {

/// A run for which makers are probed. A default that differs between two of them depends on the run.
struct ProbeRun {
  NodeId nodes;
  Step steps;
};
constexpr ProbeRun small{4, 1};
constexpr ProbeRun more_nodes{64, small.steps};
constexpr ProbeRun more_steps{small.nodes, 1000};

using Make = std::function<void(const Section&, const ProbeRun&)>;

/// A probe of the section in which `settings` are fixed, after `make` has read it.
Section probed(const std::string& section_name, const ProbeRun& run, const Make& make,
               std::vector<Setting> settings) {
  Section section = Section::probe(section_name, std::move(settings));
  try {
    make(section, run);
  } catch (const ProbeFinished&) {  // Section::finish() ends a probe
  }
  return section;
}

/// The keys that `make` reads then.
std::vector<KeyUse> probe(const std::string& section_name, const ProbeRun& run, const Make& make,
                          std::vector<Setting> settings) {
  if (section_name == "run") {
    settings.push_back({"nodes", std::to_string(run.nodes), "probe"});
    settings.push_back({"steps", std::to_string(run.steps), "probe"});
  }
  return probed(section_name, run, make, std::move(settings)).uses();
}

/// Whether a row tells the same as `use`, a key that was read with one of the options of `choice`.
bool says(const ComponentKey& row, const KeyUse& use, const std::string& choice) {
  if (row.use.key != use.key || row.use.help != use.help || row.use.required != use.required)
    return false;
  return row.choice.empty() || (row.choice == choice && row.use.fallback == use.fallback);
}

/// Keys that are read by default, but not with every one of the options of `choice`: notes with which.
void note_absences(std::vector<ComponentKey>& keys, const std::string& choice,
                   const std::vector<std::string>& options,
                   const std::vector<std::vector<KeyUse>>& reads) {
  for (ComponentKey& key : keys) {
    if (!key.choice.empty()) continue;
    std::vector<std::string> with;
    for (std::size_t o = 0; o < options.size(); ++o) {
      const auto is_told = [&](const KeyUse& use) { return says(key, use, choice); };
      if (std::ranges::any_of(reads[o], is_told)) with.push_back(options[o]);
    }
    if (with.empty() || with.size() == options.size()) continue;
    key.choice = choice;
    key.options = with;
  }
}

/// The first row of a key.
auto find(std::vector<ComponentKey>& keys, const std::string& key) {
  return std::ranges::find(keys, key, [](const ComponentKey& row) { return row.use.key; });
}

/// Notes that `use` was read with this option of `choice`.
void note_read(std::vector<ComponentKey>& keys, const KeyUse& use, const std::string& choice,
               const std::string& option) {
  const auto first = find(keys, use.key);
  const auto known = std::ranges::find_if(
      first, keys.end(), [&](const ComponentKey& row) { return says(row, use, choice); });
  if (known != keys.end() && known->choice == choice) {
    if (known->options.back() != option) known->options.push_back(option);
  } else if (known != keys.end()) {  // it is always read, but may have another default here
    if (known->use.fallback != use.fallback &&
        std::ranges::find(known->depends_on, choice) == known->depends_on.end())
      known->depends_on.push_back(choice);
  } else if (first == keys.end() || first->choice.empty() || first->choice == choice) {
    const auto last = std::ranges::find(keys.rbegin(), keys.rend(), use.key,
                                        [](const ComponentKey& row) { return row.use.key; });
    keys.insert(last.base() == keys.begin() ? keys.end() : last.base(),
                {use, choice, {option}, {}, {}});
  }
}

/// Notes at the rows that come with a choice which other options it has.
void note_others(std::vector<ComponentKey>& keys, const std::string& choice,
                 const std::vector<std::string>& options) {
  for (ComponentKey& key : keys) {
    if (key.choice != choice || !key.others.empty()) continue;
    std::ranges::copy_if(options, std::back_inserter(key.others), [&key](const auto& option) {
      return std::ranges::find(key.options, option) == key.options.end();
    });
  }
}

/// Tells apart, of the keys that come with a choice, those that come with a choice among them: adds those that it brings along,
/// and gives the condition of those that only some of its options have.
void note_nested(std::vector<ComponentKey>& keys, const std::string& section_name,
                 const ProbeRun& run, const Make& make) {
  const std::vector<ComponentKey> found = keys;
  for (const ComponentKey& inner : found) {
    const std::vector<std::string> options = inner.use.options();
    if (inner.choice.empty() || options.empty()) continue;
    const auto is_beside = [&inner](const ComponentKey& row) {
      return row.choice == inner.choice && row.options == inner.options &&
             row.use.key != inner.use.key;
    };
    std::vector<ComponentKey> nested;
    for (const ComponentKey& row : found) {
      if (is_beside(row)) nested.push_back({row.use, "", {}, {}, {}});
    }
    std::vector<std::vector<KeyUse>> reads;  // [option]
    for (const std::string& option : options) {
      reads.push_back(
          probe(section_name, run, make,
                {{inner.choice, inner.options[0], "probe"}, {inner.use.key, option, "probe"}}));
      std::erase_if(reads.back(), [&](const KeyUse& use) {
        const auto known =
            std::ranges::find(found, use.key, [](const ComponentKey& row) { return row.use.key; });
        return use.key == "kind" || (known != found.end() && !is_beside(*known));
      });
      for (const KeyUse& use : reads.back()) note_read(nested, use, inner.use.key, option);
    }
    note_absences(nested, inner.use.key, options, reads);
    note_others(nested, inner.use.key, options);
    std::erase_if(nested, [](const ComponentKey& row) { return row.others.empty(); });
    std::erase_if(keys, [&](const ComponentKey& row) {
      return is_beside(row) && find(nested, row.use.key) != nested.end();
    });
    for (ComponentKey& row : nested) {
      row.outer_choice = inner.choice;
      row.outer_options = inner.options;
      keys.push_back(std::move(row));
    }
  }
}

/// The keys of a component: those it always reads, then those that come with a choice.
std::vector<ComponentKey> keys_for(const std::string& section_name, const ProbeRun& run,
                                   const Make& make) {
  std::vector<ComponentKey> keys;
  const std::vector<KeyUse> always = probe(section_name, run, make, {});
  for (const KeyUse& use : always) {
    if (use.key != "kind" && find(keys, use.key) == keys.end())
      keys.push_back({use, "", {}, {}, {}});
  }
  for (const KeyUse& use : always) {
    const std::vector<std::string> options = use.options();
    if (use.key == "kind" || options.empty()) continue;
    std::vector<std::vector<KeyUse>> reads;  // [option]
    for (const std::string& option : options) {
      reads.push_back(probe(section_name, run, make, {{use.key, option, "probe"}}));
      for (const KeyUse& further : reads.back()) {
        if (further.key != "kind") note_read(keys, further, use.key, option);
      }
    }
    note_absences(keys, use.key, options, reads);
    note_others(keys, use.key, options);
  }
  note_nested(keys, section_name, run, make);
  return keys;
}

/// Another value than the sample that a probe has for a required key of this type; empty where no default follows from it.
std::string other_sample(const std::string& type) {
  if (type == "bandwidth") return "3 GB/s";
  if (type == "duration") return "3 s";
  if (type == "bytes") return "3 MiB";
  if (type == "number" || type == "integer") return "3";
  return "";
}

/// Notes which defaults follow from the sample values of required keys.
void note_samples(std::vector<ComponentKey>& keys, const std::string& section_name,
                  const Make& make) {
  if (section_name == "run") return;  // whose required keys are the probe's
  for (const KeyUse& sampled : probe(section_name, small, make, {})) {
    const std::string other = other_sample(sampled.type);
    if (!sampled.required || other.empty()) continue;
    const std::vector<KeyUse> others =
        probe(section_name, small, make, {{sampled.key, other, "probe"}});
    for (ComponentKey& key : keys) {
      const auto use = std::ranges::find(others, key.use.key, &KeyUse::key);
      if (!key.choice.empty() || use == others.end() || use->fallback == key.use.fallback) continue;
      key.depends_on.push_back(sampled.key);
      key.is_made_up = true;
    }
  }
}

std::vector<ComponentKey> keys_of(const std::string& section_name, const Make& make) {
  std::vector<ComponentKey> keys = keys_for(section_name, small, make);
  const auto compare_with = [&](const ProbeRun& run, const char* what) {
    const std::vector<ComponentKey> others = keys_for(section_name, run, make);
    for (ComponentKey& key : keys) {
      const auto other = std::ranges::find_if(others, [&key](const ComponentKey& known) {
        if (known.use.key != key.use.key || known.choice != key.choice) return false;
        return key.options.empty() ||
               std::ranges::find(known.options, key.options[0]) != known.options.end();
      });
      if (other == others.end() || other->use.fallback == key.use.fallback) continue;
      key.depends_on.emplace_back(what);
      key.is_made_up = true;
    }
  };
  compare_with(more_nodes, "run.nodes");
  compare_with(more_steps, "run.steps");
  note_samples(keys, section_name, make);
  return keys;
}

template <class Entries, class MakeEntry>
Chapter catalog_chapter(std::string title, std::string section, const Entries& entries,
                        MakeEntry make) {
  Chapter chapter{std::move(title), std::move(section), true, {}};
  for (const auto& entry : entries) {
    const auto make_this = [&](const Section& at, const ProbeRun& run) { make(entry, at, run); };
    chapter.components.push_back(
        {std::string(entry.name), std::string(entry.summary), keys_of(chapter.section, make_this)});
  }
  return chapter;
}

Chapter section_chapter(std::string title, const std::string& section, const Make& make) {
  return {std::move(title), section, false, {{section, "", keys_of(section, make)}}};
}

void make_algorithm(const algorithms::AlgorithmEntry& entry, const Section& section,
                    const ProbeRun& run) {
  const auto nodes = static_cast<std::size_t>(run.nodes);
  const Topology none(run.nodes, {{}}, {std::vector<double>(nodes, 1.0)});
  const WorkloadFacts facts;
  static_cast<void>(algorithms::read_exchange(section, entry));
  static_cast<void>(entry.make(section, {run.nodes, run.steps, none, facts}));
}

/// Finds the words of choices with which an algorithm reads the graph if it does not without them, or the other way
/// round: those beside `settings` whose keys are not among `known`, and those that these bring along.
void find_words(const Make& make, const std::vector<Setting>& settings,
                const std::vector<KeyUse>& known, std::vector<std::string>& words) {
  const Section section = probed("algorithm", small, make, settings);
  for (const KeyUse& use : section.uses()) {
    if (use.key == "kind" || std::ranges::find(known, use.key, &KeyUse::key) != known.end())
      continue;
    for (const std::string& option : use.options()) {
      std::vector<Setting> with = settings;
      with.push_back({use.key, option, "probe"});
      if (probed("algorithm", small, make, with).reads_other("topology") ==
          section.reads_other("topology")) {
        find_words(make, with, section.uses(), words);
        continue;
      }
      std::vector<std::string> texts;
      for (const Setting& setting : with)
        texts.push_back(fmt::format("{} = {}", setting.key, setting.text));
      words.push_back(fmt::format("{}", fmt::join(texts, " and ")));
    }
  }
}

std::string use_of_graph(const Make& make) {
  std::vector<std::string> words;
  find_words(make, {}, {}, words);
  const bool is_read = probed("algorithm", small, make, {}).reads_other("topology");
  if (words.empty()) return is_read ? "Reads [topology]." : "Reads no graph.";
  return fmt::format("Reads [topology] {} {}.", is_read ? "unless" : "with",
                     fmt::join(words, ", or "));
}

Chapter algorithm_chapter() {
  Chapter chapter =
      catalog_chapter("algorithms", "algorithm", algorithms::catalog(), make_algorithm);
  for (std::size_t i = 0; i < chapter.components.size(); ++i) {
    chapter.components[i].graph = use_of_graph([i](const Section& section, const ProbeRun& run) {
      make_algorithm(algorithms::catalog()[i], section, run);
    });
  }
  return chapter;
}

}  // namespace

std::string ComponentKey::condition() const {
  if (options.empty() || others.empty()) return "";
  const auto equation = [](const std::string& key, const std::vector<std::string>& values) {
    return fmt::format("{} = {}", key, fmt::join(values, " or "));
  };
  if (!outer_choice.empty())
    return fmt::format("with {} and {}: ", equation(outer_choice, outer_options),
                       equation(choice, options));
  if (options.size() > 2 && others.size() == 1)
    return fmt::format("unless {}: ", equation(choice, others));
  return fmt::format("with {}: ", equation(choice, options));
}

std::string ComponentKey::fallback() const {
  if (use.required) return "required";
  std::string value = use.fallback.empty() ? "none" : use.fallback;
  if (depends_on.empty()) return value;
  const std::string keys = fmt::format("by {}", fmt::join(depends_on, ", "));
  return is_made_up ? keys : fmt::format("{}, {}", value, keys);
}

std::vector<Chapter> all_chapters() {
  return {
      algorithm_chapter(),
      catalog_chapter("topologies", "topology", topologies::catalog(),
                      [](const auto& entry, const Section& section, const ProbeRun& run) {
                        static_cast<void>(entry.make(section, run.nodes, 1));
                      }),
      catalog_chapter("network models", "network", network_models::catalog(),
                      [](const auto& entry, const Section& section, const ProbeRun& run) {
                        static_cast<void>(read_closed_form_collectives(section));
                        static_cast<void>(read_eager_limit(section));
                        static_cast<void>(read_host(section));
                        static_cast<void>(entry.make(section, run.nodes, 1));
                      }),
      catalog_chapter("workloads", "workload", workloads::catalog(),
                      [](const auto& entry, const Section& section, const ProbeRun& run) {
                        static_cast<void>(entry.make(section, run.nodes, 1));
                      }),
      section_chapter("compute time", "compute",
                      [](const Section& section, const ProbeRun& run) {
                        static_cast<void>(read_pace(section));
                        static_cast<void>(read_forward_share(section));
                        static_cast<void>(read_per_episode(section));
                        static_cast<void>(ComputeTime(section, run.nodes, 1));
                      }),
      section_chapter("failures", "failures",
                      [](const Section& section, const ProbeRun& run) {
                        static_cast<void>(read_failures(section, run.nodes));
                      }),
      section_chapter("a real run to compare with", "reference",
                      [](const Section& section, const ProbeRun&) {
                        static_cast<void>(read_reference_section(section));
                      }),
      section_chapter("the run", "run",
                      [](const Section& section, const ProbeRun&) {
                        static_cast<void>(read_run(section, "NAME.ini"));
                      }),
  };
}

}  // namespace starling
