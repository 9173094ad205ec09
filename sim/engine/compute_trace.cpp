#include "sim/engine/compute_trace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/text.hpp"

namespace starling {
namespace {

constexpr const char* list_header = "node,step,seconds";

/// Whether a header names, in whatever way, what a list has: its columns are no nodes.
bool names_list(const std::string& header) {
  constexpr std::string_view columns[] = {"node",  "rank",      "worker", "process", "step",
                                          "steps", "iteration", "iter",   "epoch"};
  const std::string small = lower(header);
  const auto names = [&](std::string_view name) { return small.find(name) != std::string::npos; };
  if (names("seconds") && names("node") && names("step")) return true;
  return std::ranges::any_of(split(small, ','), [&](std::string_view field) {
    return std::ranges::find(columns, field) != std::end(columns);
  });
}

/// Whether `values` are 0, 1, 2, ..: numbers of nodes or steps rather than durations.
bool are_counted(std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<double>(i)) return false;
  }
  return values.size() > 1;
}

/// Whether `value` is a whole number from 0 to 2^31 - 1.
bool is_index(double value) {
  return value >= 0 && value <= std::numeric_limits<NodeId>::max() && value == std::floor(value);
}

}  // namespace

TraceSettings read_trace_settings(const Section& section, NodeId nodes) {
  TraceSettings settings;
  settings.path = section.resolve_path(section.required<std::string>(
      "trace", "CSV file: a line per step with a column per node, or node,step,seconds"));
  settings.shift =
      read_at_least(section, "trace_shift", 0, 0,
                    "nodes beyond the recorded ones replay them, begun so many steps later");
  // Half of what 64 bits hold is left to the steps of the run.
  const Step most = std::numeric_limits<Step>::max() / 2 / nodes;
  section.expect(
      settings.shift <= most, "trace_shift",
      "must be at most {}, so that 64 bits hold the shift of each of the {} nodes, got {}", most,
      nodes, settings.shift);
  settings.repeats =
      section.choice("trace_end", {"repeat", "fail"}, "repeat",
                     "behind its end the trace starts over, or the run ends") == "repeat";
  return settings;
}

DurationTrace::DurationTrace(TraceSettings settings) : settings_(std::move(settings)) {
  NumberFile file(settings_.path, "the trace of compute." + settings_.key, "numbers of seconds");
  if (file.next()) {
    file.header() == list_header ? read_list(file) : read_columns(file);
  }
  if (seconds_.empty())
    throw Error(fmt::format("{}: expected at least one duration, found none", settings_.path));
}

void DurationTrace::read_columns(NumberFile& file) {
  if (names_list(file.header()))
    file.refuse_header(std::string(list_header) + ", or of columns that are nodes, none of steps");
  file.expect_seconds();
  if (file.header().empty() && are_counted(file.values()))
    file.refuse("seconds, or a header that names nodes by letters, such as n0,n1");
  seconds_.resize(file.values().size());
  do {
    if (file.values().size() != seconds_.size())
      file.refuse(fmt::format("{} numbers, one per node", seconds_.size()));
    for (std::size_t i = 0; i < seconds_.size(); ++i) {
      if (!is_duration(file.values()[i])) file.refuse("numbers of seconds, not negative");
      seconds_[i].push_back(file.values()[i]);
    }
  } while (file.next());
  if (seconds_.size() > 1 && are_counted(seconds_[0]))
    throw Error(
        fmt::format("{}: expected seconds in every column, found numbers of steps, 0, 1, "
                    ".., in the first",
                    file.path()));
}

void DurationTrace::read_list(NumberFile& file) {
  std::vector<std::tuple<NodeId, Step, double>> rows;
  do {
    const auto row = file.values();
    if (row.size() != 3 || !is_index(row[0]) || !is_index(row[1]) || !is_duration(row[2]))
      file.refuse("node,step,seconds, none of them negative");
    rows.emplace_back(static_cast<NodeId>(row[0]), static_cast<Step>(row[1]), row[2]);
  } while (file.next());
  std::sort(rows.begin(), rows.end());
  for (const auto& [node, step, seconds] : rows) {
    const auto index = static_cast<std::size_t>(node);
    if (index > seconds_.size() || (index == seconds_.size() && step > 0)) {
      throw Error(fmt::format("{}: expected a duration for node {} at step 0, found none",
                              file.path(), seconds_.size()));
    }
    if (index == seconds_.size()) seconds_.emplace_back();
    const Step next = std::ssize(seconds_[index]);
    if (step != next) {
      throw Error(fmt::format("{}: expected one duration for node {} at step {}, found {}",
                              file.path(), node, std::min(step, next),
                              step < next ? "several" : "none"));
    }
    seconds_[index].push_back(seconds);
  }
}

double DurationTrace::at(NodeId node, Step step) const {
  const auto recorded = static_cast<NodeId>(seconds_.size());
  const std::vector<double>& own = seconds_[static_cast<std::size_t>(node % recorded)];
  const Step place = step + node / recorded * settings_.shift;
  if (place >= std::ssize(own) && !settings_.repeats) {
    throw Error(fmt::format(
        "{}: expected a duration for node {} at step {}, found {} steps of recorded node {}; "
        "compute.trace_end = repeat would start over",
        settings_.path, node, step, own.size(), node % recorded));
  }
  return own[static_cast<std::size_t>(place % std::ssize(own))];
}

double DurationTrace::mean(NodeId nodes) const {
  const auto recorded = static_cast<NodeId>(seconds_.size());
  double sum = 0;
  double count = 0;
  for (NodeId r = 0; r < std::min(nodes, recorded); ++r) {
    const std::vector<double>& own = seconds_[static_cast<std::size_t>(r)];
    const NodeId times = nodes / recorded + (r < nodes % recorded ? 1 : 0);
    sum += times * std::accumulate(own.begin(), own.end(), 0.0);
    count += times * static_cast<double>(own.size());
  }
  return sum / count;
}

void DurationTrace::scale(double factor) {
  for (std::vector<double>& own : seconds_) {
    for (double& seconds : own) seconds *= factor;
  }
}

}  // namespace starling
