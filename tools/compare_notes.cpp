#include "tools/compare_notes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/scenario.hpp"
#include "sim/base/text.hpp"
#include "sim/base/units.hpp"
#include "sim/record/facts.hpp"
#include "tools/summary.hpp"

namespace starling {
namespace {

/// The settings of a run by "section.key", without those that say where it is computed and what is recorded of it; none for a
/// run by other code.
std::map<std::string, std::string> settings_of(const Recorder& run) {
  constexpr std::array<std::string_view, 12> left_out = {
      "run.output",         "run.device",         "run.window",
      "run.checkpoint",     "run.patience",       "run.record_order",
      "run.save_models",    "run.evaluate_every", "run.evaluate_interval",
      "run.evaluate_nodes", "run.record_every",   "run.timeline"};
  std::map<std::string, std::string> settings;
  const Scenario scenario = Scenario::parse(fact(run.facts, "scenario"), "scenario");
  for (const std::string& section : scenario.section_names()) {
    if (section == "reference") continue;
    const Section here = scenario.section(section);
    for (const Setting& setting : here.settings()) {
      const std::string key = section + '.' + setting.key;
      if (std::ranges::find(left_out, key) == left_out.end()) settings[key] = setting.text;
    }
  }
  return settings;
}

/// A quantity as it is always written; nothing if the text is none that `parse` reads.
template <class Parse>
std::optional<std::string> quantity(const std::string& text, const Parse& parse) {
  try {
    return to_text(parse(text));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

/// What the text of a setting means, alike however it is spelled: "10 ms" and "0.01 s", "0.1" and "1e-1", "yes" and "true", "1, 2" and
/// "1,2".
std::string meaning(const std::string& text) {
  if (const std::size_t comma = text.find(','); comma != text.npos) {
    const std::size_t rest = text.find_first_not_of(' ', comma + 1);
    return meaning(text.substr(0, comma)) + "," +
           (rest == text.npos ? "" : meaning(text.substr(rest)));
  }
  if (text == "true") return "yes";
  if (text == "false") return "no";
  if (const auto whole = number_in<std::int64_t>(text)) return fmt::format("{}", *whole);
  if (const auto number = number_in<double>(text)) return fmt::format("{}", *number);
  for (const auto& meant : {quantity(text, parse_duration), quantity(text, parse_bytes),
                            quantity(text, parse_bandwidth)}) {
    if (meant) return *meant;
  }
  return text;
}

/// Names of the files that both runs have read, with other content.
std::vector<std::string> files_that_differ(const Recorder& a, const Recorder& b) {
  std::map<std::string, std::string> read;  // checksums
  std::vector<std::string> names;
  for (const Recorder* run : {&a, &b}) {
    for (const auto& [checksum, name] : files_read(fact(run->machine, "files"))) {
      const auto [found, is_new] = read.try_emplace(name, checksum);
      if (!is_new && found->second != checksum) names.push_back(name);
    }
  }
  return names;
}

/// How many nodes a run has; 0 if that is not told.
std::size_t nodes_of(const Recorder& run) {
  return is_reference(run) && fact(run.facts, "nodes").empty() ? 0 : run.nodes.size();
}

/// Samples that a node uses per step; 0 if that is not told.
double samples_of(const Recorder& run) {
  return std::strtod(fact(run.facts, "samples_per_step").c_str(), nullptr);
}

/// The same of a run by other code, which has no scenario: what its comments tell.
void tell_sizes_that_differ(const Recorder& a, const Recorder& b) {
  std::vector<std::string> named;
  if (nodes_of(a) > 0 && nodes_of(b) > 0 && nodes_of(a) != nodes_of(b))
    named.push_back(fmt::format("nodes ({}, {})", nodes_of(a), nodes_of(b)));
  // batches by length bucket count as their mean size, which is no whole number
  if (samples_of(a) > 0 && samples_of(b) > 0 && std::fabs(samples_of(a) - samples_of(b)) >= 1)
    named.push_back(fmt::format("samples per step ({}, {})", samples_of(a), samples_of(b)));
  if (!named.empty()) fmt::print("different experiments: {}\n", fmt::join(named, ", "));
}

}  // namespace

bool is_reference(const Recorder& run) { return fact(run.facts, "status").empty(); }

void tell_settings_that_differ(const Recorder& a, const Recorder& b) {
  constexpr std::size_t most_named = 5;
  if (is_reference(a) || is_reference(b)) return tell_sizes_that_differ(a, b);
  auto first = settings_of(a);
  auto second = settings_of(b);
  const auto is_sound = [](const Recorder& run) {
    return run.is_complete() && fact(run.facts, "diverged").empty();
  };
  if (is_sound(a) && is_sound(b)) {  // nothing was to be decided
    first.erase("run.on_divergence");
    second.erase("run.on_divergence");
  }
  const auto value = [](const auto& settings, const std::string& key) {
    const auto found = settings.find(key);
    if (found == settings.end()) return std::string("not there");
    return found->second.empty() ? std::string("none") : found->second;
  };
  const auto differs = [&](const std::string& key) {
    return meaning(value(first, key)) != meaning(value(second, key));
  };
  std::set<std::string> keys;
  for (const auto& settings : {first, second}) {
    for (const auto& [key, text] : settings) {
      // Another kind has other keys, which follows from its name.
      const bool is_in_both = first.contains(key) && second.contains(key);
      const std::string kind = key.substr(0, key.find('.')) + ".kind";
      if (differs(key) && (is_in_both || !differs(kind))) keys.insert(key);
    }
  }
  std::vector<std::string> named;
  for (const std::string& key : keys) {
    if (named.size() == most_named) break;
    named.push_back(fmt::format("{} ({}, {})", key, value(first, key), value(second, key)));
  }
  if (keys.size() > most_named)
    named.back() += fmt::format(" and {} more", keys.size() - most_named);
  for (const std::string& file : files_that_differ(a, b))
    named.push_back("other content of " + file);
  if (!named.empty()) fmt::print("different experiments: {}\n", fmt::join(named, ", "));
}

std::string steps_done(const Recorder& run) {
  const auto [least, most] = std::ranges::minmax(run.nodes, {}, &NodeTotals::steps);
  return least.steps == most.steps ? fmt::format("{}", least.steps)
                                   : fmt::format("{} to {}", least.steps, most.steps);
}

void tell_last_steps(const Recorder& a, const Recorder& b) {
  // After how many steps the final value was; "" if there is none.
  const auto last_step = [](const Recorder& run, std::string_view metric) -> std::string {
    const Table& table = final_evaluations(run);
    for (std::size_t row = table.rows(metric); row-- > 0;) {
      if (!std::isfinite(table.value(metric, row))) continue;
      return &table == &run.evaluation ? fmt::format("{}", table.schedule().finished(row))
                                       : steps_done(run);
    }
    return "";
  };
  for (const auto& [metric, name] :
       {std::pair("test_loss", "test loss"), std::pair("test_accuracy", "test accuracy"),
        std::pair("test_auc", "test AUC")}) {
    const std::string first = last_step(a, metric);
    const std::string second = last_step(b, metric);
    if (!first.empty() && !second.empty() && first != second)
      fmt::print("note: the final {} of A is that after {} steps, of B after {}\n", name, first,
                 second);
  }
}

void tell_what_was_not_read(const char* name, const Recorder& run) {
  const std::string misspelled = fact(run.facts, "misspelled");
  const std::string ignored = fact(run.facts, "ignored");
  if (!misspelled.empty()) fmt::print("warning: of {} nobody reads {}\n", name, misspelled);
  if (!ignored.empty()) fmt::print("note: columns of {} that nobody reads: {}\n", name, ignored);
}

void warn(const char* name, const Recorder& run) {
  const std::string diverged = fact(run.facts, "diverged");
  if (!is_reference(run) && !run.is_complete())
    fmt::print("warning: {} is not complete: only what it did is compared\n", name);
  if (!diverged.empty()) fmt::print("warning: {} diverged: {}\n", name, diverged);
  if (const std::string apart = ends_apart(run); !apart.empty()) {
    fmt::print(
        "warning: nodes of {} finish {}: its time per step and throughput are the slowest "
        "node's\n",
        name, apart);
  }
}

}  // namespace starling
