#include "tools/sweep_table.hpp"

#include <cmath>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "sim/base/csv.hpp"
#include "sim/base/error.hpp"
#include "sim/record/results_file.hpp"
#include "tools/summary.hpp"

namespace starling {
namespace {

namespace fs = std::filesystem;

std::string cell_of(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

/// Outcomes of a finished point; nothing if it is not there or not complete.
std::optional<std::vector<Outcome>> outcomes_of(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    const Recorder recorder = load(path.string());
    const auto status = recorder.facts.find("status");
    if (status == recorder.facts.end() || status->second != "complete") return std::nullopt;
    return outcomes(recorder);
  } catch (const Error&) {
    return std::nullopt;  // no results file, or a damaged one: the point is run again
  }
}

void write_whole(const fs::path& path, const std::string& text) {
  const fs::path partial = path.string() + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw Error(fmt::format("{}: cannot write", partial.string()));
  fs::rename(partial, path);
}

/// Means and spreads of runs that differ in the seed alone.
struct Group {
  std::vector<std::string> values;
  std::vector<std::vector<Outcome>> runs;
};

std::string statistics_of(const Group& group, std::size_t outcome) {
  double sum = 0;
  double count = 0;
  for (const auto& run : group.runs) {
    if (std::isnan(run[outcome].value)) continue;
    sum += run[outcome].value;
    ++count;
  }
  if (count == 0) return ",,";
  const double mean = sum / count;
  double squares = 0;
  for (const auto& run : group.runs) {
    if (!std::isnan(run[outcome].value)) squares += std::pow(run[outcome].value - mean, 2);
  }
  const std::string spread = count > 1 ? cell_of(std::sqrt(squares / (count - 1))) : "";
  return fmt::format(",{},{}", cell_of(mean), spread);
}

}  // namespace

fs::path results_of(const fs::path& folder, const SweepPoint& point) {
  return folder / (point.name + ".h5");
}

bool is_finished(const fs::path& folder, const SweepPoint& point) {
  return outcomes_of(results_of(folder, point)).has_value();
}

std::size_t write_sweep_table(const Sweep& sweep, const fs::path& folder) {
  const std::vector<Outcome> names = outcomes(Recorder());
  std::string points = "point";
  std::string table;
  for (const std::string& key : sweep.keys) {
    points += "," + key;
    if (key != seed_key) table += key + ",";
  }
  table += "runs";
  for (const Outcome& outcome : names) {
    points += "," + outcome.name;
    table += fmt::format(",{0},{0}_deviation", outcome.name);
  }
  points += '\n';
  table += '\n';

  std::size_t finished = 0;
  std::vector<Group> groups;
  std::map<std::vector<std::string>, std::size_t> group_of;
  for (const SweepPoint& point : sweep.points) {
    auto run = outcomes_of(results_of(folder, point));
    if (!run) continue;
    ++finished;
    points += csv_field(point.name);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
      points += "," + csv_field(point.values[i]);
      if (sweep.keys[i] != seed_key) values.push_back(point.values[i]);
    }
    for (const Outcome& outcome : *run) points += "," + cell_of(outcome.value);
    points += '\n';
    const auto [at, is_new] = group_of.try_emplace(values, groups.size());
    if (is_new) groups.push_back({values, {}});
    groups[at->second].runs.push_back(std::move(*run));
  }
  for (const Group& group : groups) {
    for (const std::string& value : group.values) table += csv_field(value) + ",";
    table += std::to_string(group.runs.size());
    for (std::size_t i = 0; i < names.size(); ++i) table += statistics_of(group, i);
    table += '\n';
  }
  write_whole(folder / "points.csv", points);
  write_whole(folder / "table.csv", table);
  return finished;
}

}  // namespace starling
