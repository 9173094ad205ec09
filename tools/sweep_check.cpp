#include "tools/sweep_check.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "scenarios/assemble.hpp"
#include "sim/base/error.hpp"

namespace starling {
namespace {

constexpr std::size_t most_told = 10;

/// The points to look at, in order: a wrong value shows within the first ones, however many combinations there are.
std::vector<std::size_t> order_of(const Sweep& sweep) {
  std::vector<std::size_t> first;
  std::vector<std::size_t> others;
  std::set<std::pair<std::size_t, std::string>> seen;
  std::set<std::string> combinations;  // whatever the seed
  for (std::size_t p = 0; p < sweep.points.size(); ++p) {
    const std::vector<std::string>& values = sweep.points[p].values;
    bool has_new_value = false;
    std::string combination;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_seed = sweep.keys[i] == seed_key;
      if (!is_seed || !sweep.has_repeats) has_new_value |= seen.emplace(i, values[i]).second;
      if (!is_seed) combination += values[i] + '\n';
    }
    const bool is_new = combinations.insert(std::move(combination)).second;
    if (has_new_value) {
      first.push_back(p);
    } else if (is_new) {
      others.push_back(p);
    }
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

/// One thing that is wrong, or a warning, with the points that have it.
struct Fault {
  std::string what;
  bool is_of_scenario;
  std::size_t points;
  std::string first_point;
};

void note(std::vector<Fault>& faults, const std::string& what, bool is_of_scenario,
          const std::string& point) {
  const auto known = std::ranges::find(faults, what, &Fault::what);
  known == faults.end() ? faults.push_back({what, is_of_scenario, 1, point})
                        : void(++known->points);
}

/// Why no run of this workload gets to the target of the sweep; "" if some may.
std::string why_untold(const Sweep& sweep, const WorkloadFacts& workload) {
  if (is_told(*sweep.target, workload)) return "";
  return fmt::format("{}: sweep.target is a {}, which this workload does not tell: {}",
                     sweep.target_origin, sweep.target->metric, workload.description);
}

/// Why runs end before they get to the target of the sweep; "" if they may not.
std::string why_too_early(const Sweep& sweep, const std::optional<Target>& end) {
  if (!sweep.target || !end || end->metric != sweep.target->metric ||
      is_met(*sweep.target, end->value, end->value)) {
    return "";
  }
  return fmt::format("{}: sweep.target is beyond run.until_target, {} {:g}, at which runs end",
                     sweep.target_origin, end->metric, end->value);
}

std::string describe(const std::vector<Fault>& faults, std::size_t checked) {
  if (faults.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), most_told); ++i) {
    const Fault& fault = faults[i];
    text += fault.what;
    if (fault.points == 1 && checked > 1) {
      text += fmt::format(" (at {})", fault.first_point);
    } else if (fault.points < checked) {
      text += fmt::format(" (at {} of the {} points looked at, the first {})", fault.points,
                          checked, fault.first_point);
    }
    text += '\n';
  }
  if (faults.size() > most_told) text += fmt::format(".. and {} more\n", faults.size() - most_told);
  text.pop_back();
  return text;
}

/// What is set and some points do not read. If others do, kinds are compared, and nothing is told.
struct Unread {
  bool is_read = false;
  std::vector<Fault> warnings;

  void look(bool reads, const std::string& warning, const std::string& point) {
    is_read |= reads;
    if (!warning.empty()) note(warnings, warning, true, point);
  }
};

}  // namespace

PointDoubts check_points(const Scenario& scenario, const Sweep& sweep,
                         const std::filesystem::path& folder, std::chrono::nanoseconds at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  // Every point's file lies there, and its scenario names it.
  Scenario(scenario).override_with("run.output=" + folder.string());
  std::vector<Fault> faults;
  std::vector<Fault> warnings;
  Unread topology;
  Unread forward_share;
  std::size_t checked = 0;
  std::optional<std::string> untold;  // "" once a workload tells what has the target
  for (const std::size_t p : order_of(sweep)) {
    if (checked > 0 && std::chrono::steady_clock::now() > until) break;
    const SweepPoint& point = sweep.points[p];
    const std::vector<std::string> settings = sweep.overrides(point);
    ++checked;
    try {
      Scenario whole = scenario;
      for (std::size_t i = 0; i < settings.size(); ++i)
        whole.override_with(settings[i], sweep.origins[i]);
      const Assembly parts = assemble(whole);
      if (sweep.target && untold != "") untold = why_untold(sweep, parts.workload->facts());
      for (const std::string& warning : parts.warnings)
        note(warnings, warning, true, sweep.describe(point));
      if (const auto why = why_too_early(sweep, parts.settings.until_target); !why.empty())
        note(warnings, why, true, sweep.describe(point));
      topology.look(parts.reads_topology, parts.unread_topology_warning, sweep.describe(point));
      forward_share.look(parts.settings.plan.overlaps_backward, parts.unread_forward_share_warning,
                         sweep.describe(point));
    } catch (const ScenarioError& error) {
      const bool has_dots = std::ranges::any_of(point.values, [](const std::string& value) {
        const std::size_t at = value.find("..");  // behind a digit, not as in ../file
        return at != value.npos && at > 0 && value[at - 1] >= '0' && value[at - 1] <= '9';
      });
      note(faults,
           fmt::format("{}{}", error.what(), has_dots ? "; a range has blanks: 1 .. 5" : ""), true,
           sweep.describe(point));
    } catch (const Error& error) {
      note(faults, error.what(), false, sweep.describe(point));
    } catch (const std::bad_alloc&) {
      note(faults, "out of memory", false, sweep.describe(point));
    }
  }
  if (untold.value_or("") != "") throw ScenarioError(*untold);
  const std::string text = describe(faults, checked);
  std::size_t wrong = 0;
  for (const Fault& fault : faults) wrong += fault.points;
  for (const Unread* unread : {&topology, &forward_share}) {
    if (!unread->is_read)
      warnings.insert(warnings.end(), unread->warnings.begin(), unread->warnings.end());
  }
  if (wrong < checked) return {text, describe(warnings, checked)};
  if (std::ranges::any_of(faults, &Fault::is_of_scenario)) throw ScenarioError(text);
  throw Error(text);
}

}  // namespace starling
