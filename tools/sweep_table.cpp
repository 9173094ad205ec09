#include "tools/sweep_table.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "sim/base/csv.hpp"
#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"
#include "sim/record/results_file.hpp"
#include "sim/record/table_file.hpp"
#include "tools/files_read.hpp"
#include "tools/sweep_folder.hpp"

namespace starling {
namespace {

namespace fs = std::filesystem;

/// The results of a finished point; nothing if they are not there or not complete.
std::optional<Recorder> results_in(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    Recorder recorder = load(path.string());
    if (!recorder.is_complete()) return std::nullopt;
    return recorder;
  } catch (const Error&) {
    return std::nullopt;  // no results file, or a damaged one: the point is run again
  }
}

/// Throws Error if the results in `path` are of a run with other values of the swept keys: points that a sweep lacks leave
/// files, whose names another value may have later.
void expect_settings_of(const Sweep& sweep, std::size_t point, const Recorder& results,
                        const fs::path& path) {
  const Scenario scenario = Scenario::parse(fact(results.facts, "scenario"), path.string());
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    const std::string& value = sweep.points[point].values[i];
    const std::optional<std::string> text = scenario.text_of(sweep.keys[i]);
    if (value == "default" || !text || *text == value ||
        (value == "none" && text->empty())) {  // as what is saved says it
      continue;
    }
    throw Error(fmt::format("{}: holds a run with {} = {}, not {}; move it away", path.string(),
                            sweep.keys[i], *text, value));
  }
}

std::string to_csv(const NamedTable& table) {
  std::string text;
  for (const TableColumn& column : table.columns)
    text += (&column == &table.columns.front() ? "" : ",") + column.name;
  text += '\n';
  for (std::size_t row = 0; row < table.columns.front().rows(); ++row) {
    for (const TableColumn& column : table.columns) {
      if (&column != &table.columns.front()) text += ',';
      if (const auto* numbers = std::get_if<std::vector<double>>(&column.cells)) {
        if (!std::isnan((*numbers)[row])) text += fmt::format("{}", (*numbers)[row]);
      } else {
        text += csv_field(std::get<std::vector<std::string>>(column.cells)[row]);
      }
    }
    text += '\n';
  }
  return text;
}

/// A table as it grows, row by row: texts on the left, numbers on the right.
class Rows {
 public:
  Rows(std::string name, const std::vector<std::string>& texts,
       const std::vector<std::string>& numbers) {
    table_.name = std::move(name);
    for (const std::string& column : texts)
      table_.columns.push_back({column, std::vector<std::string>()});
    for (const std::string& column : numbers)
      table_.columns.push_back({column, std::vector<double>()});
  }

  void add(const std::vector<std::string>& texts, const std::vector<double>& numbers) {
    ensure(texts.size() + numbers.size() == table_.columns.size(), "a cell for every column");
    auto column = table_.columns.begin();
    for (const std::string& text : texts)
      std::get<std::vector<std::string>>((column++)->cells).push_back(text);
    for (const double number : numbers)
      std::get<std::vector<double>>((column++)->cells).push_back(number);
  }

  const NamedTable& table() const { return table_; }

 private:
  NamedTable table_;
};

/// Runs that differ in the seed alone.
struct Group {
  std::vector<std::string> values;
  std::vector<const std::vector<Outcome>*> runs;
};

/// Mean and standard deviation of an outcome over the runs that know it.
std::pair<double, double> statistics_of(const Group& group, std::size_t outcome) {
  std::vector<double> values;
  for (const auto* run : group.runs) {
    if (const double value = (*run)[outcome].value; !std::isnan(value)) values.push_back(value);
  }
  if (values.empty()) return {unknown, unknown};
  const auto count = static_cast<double>(values.size());
  const double first = values.front();  // from which equal values differ by exactly nothing
  double sum = 0;
  for (const double value : values) sum += value - first;
  const double mean = first + sum / count;
  double squares = 0;
  for (const double value : values) squares += std::pow(value - mean, 2);
  return {mean, count > 1 ? std::sqrt(squares / (count - 1)) : unknown};
}

std::vector<std::string> names_of_outcomes(const std::optional<Target>& target) {
  std::vector<std::string> names;
  for (const Outcome& outcome : outcomes(Recorder(), target)) names.push_back(outcome.name);
  return names;
}

NamedTable table_of(const std::vector<Group>& groups, const std::vector<std::string>& keys,
                    const std::vector<std::string>& names) {
  std::vector<std::string> numbers{"runs"};
  for (const std::string& name : names) numbers.insert(numbers.end(), {name, name + "_deviation"});
  Rows rows("table", keys, numbers);
  for (const Group& group : groups) {
    std::vector<double> cells{static_cast<double>(group.runs.size())};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto [mean, deviation] = statistics_of(group, i);
      cells.insert(cells.end(), {mean, deviation});
    }
    rows.add(group.values, cells);
  }
  return rows.table();
}

}  // namespace

fs::path results_of(const fs::path& folder, const SweepPoint& point) {
  return folder / (point.name + ".h5");
}

SweepTable::SweepTable(const Sweep& sweep, fs::path folder)
    : sweep_(sweep), folder_(std::move(folder)), finished_(sweep.points.size()) {}

bool SweepTable::is_finished(std::size_t point) {
  if (finished_[point]) return true;
  const std::optional<Recorder> found = results_in(results_of(folder_, sweep_.points[point]));
  if (!found) return false;
  expect_settings_of(sweep_, point, *found, results_of(folder_, sweep_.points[point]));
  // The results do not say how many parameters a model has that was not kept.
  const std::vector<std::string> signs = signs_of_divergence(*found, std::nullopt);
  finished_[point] = {outcomes(*found, sweep_.target),    fact(found->machine, "code_version"),
                      fact(found->machine, "folder"),     files_read(fact(found->machine, "files")),
                      signs.empty() ? "" : signs.front(), ends_apart(*found)};
  return true;
}

std::vector<std::string> SweepTable::warnings() const {
  // The points that have a sign, "1 point {}" or "3 points {}" with the first few, and the sign of the first.
  const auto tell = [&](std::string Finished::*sign, const char* one, const char* several) {
    constexpr std::size_t most_named = 3;
    std::vector<std::string> names;
    std::string why;
    for (std::size_t i = 0; i < finished_.size(); ++i) {
      if (!finished_[i] || ((*finished_[i]).*sign).empty()) continue;
      if (names.empty()) why = (*finished_[i]).*sign;
      names.push_back(sweep_.describe(sweep_.points[i]));
    }
    if (names.empty()) return std::string();
    const std::size_t count = names.size();
    names.resize(std::min(count, most_named));
    return fmt::format(
        "{}: {}{}; of the first, {}",
        count == 1 ? fmt::format("1 point {}", one) : fmt::format("{} points {}", count, several),
        fmt::join(names, "; "), count > most_named ? "; .." : "", why);
  };
  std::vector<std::string> warnings{
      tell(&Finished::divergence, "seems to have diverged", "seem to have diverged"),
      tell(&Finished::ends_apart, "has nodes that finish far apart",
           "have nodes that finish far apart")};
  if (!warnings[1].empty()) {
    warnings[1] +=
        ". Throughput and time per step are the slowest node's there; running_steps_per_second is "
        "of all while they run, and run.until compares methods at one time";
  }
  std::erase(warnings, "");
  return warnings;
}

std::string SweepTable::changed_file() {
  FilesNow now;
  std::string changed;
  std::vector<std::string> points;
  for (std::size_t i = 0; i < sweep_.points.size(); ++i) {
    if (!is_finished(i)) continue;
    for (const FileRead& file : finished_[i]->files) {
      if (!now.has_changed(file, finished_[i]->folder)) continue;
      if (changed.empty()) changed = file.name;
      if (file.name == changed) points.push_back(sweep_.points[i].name);
    }
  }
  if (points.empty()) return "";
  return fmt::format("{} has changed since {} finished {} read it, {}{}", changed, points.size(),
                     points.size() == 1 ? "point" : "points",
                     points.size() == 1 ? "" : "the first ", points.front());
}

std::string SweepTable::other_version(const std::string& own) {
  std::string other;
  std::size_t points = 0;
  for (std::size_t i = 0; i < sweep_.points.size(); ++i) {
    if (!is_finished(i) || finished_[i]->version == own) continue;
    if (points++ == 0) other = finished_[i]->version;
  }
  if (points == 0) return "";
  return fmt::format("{} finished {} run by another version of the program, {}, this is {}", points,
                     points == 1 ? "point was" : "points were", other, own);
}

std::size_t SweepTable::write() {
  std::vector<std::string> texts{"point"};
  texts.insert(texts.end(), sweep_.keys.begin(), sweep_.keys.end());
  const std::vector<std::string> names = names_of_outcomes(sweep_.target);
  Rows points("points", texts, names);
  std::vector<std::string> group_keys;
  for (const std::string& key : sweep_.keys) {
    if (key != seed_key) group_keys.push_back(key);
  }
  std::size_t finished = 0;
  std::vector<Group> groups;
  std::map<std::vector<std::string>, std::size_t> group_of;
  for (std::size_t i = 0; i < sweep_.points.size(); ++i) {
    if (!is_finished(i)) continue;
    ++finished;
    const SweepPoint& point = sweep_.points[i];
    std::vector<std::string> cells{point.name};
    cells.insert(cells.end(), point.values.begin(), point.values.end());
    std::vector<double> numbers;
    for (const Outcome& outcome : finished_[i]->outcomes) numbers.push_back(outcome.value);
    points.add(cells, numbers);
    std::vector<std::string> values;
    for (std::size_t k = 0; k < sweep_.keys.size(); ++k) {
      if (sweep_.keys[k] != seed_key) values.push_back(point.values[k]);
    }
    const auto [at, is_new] = group_of.try_emplace(values, groups.size());
    if (is_new) groups.push_back({values, {}});
    groups[at->second].runs.push_back(&finished_[i]->outcomes);
  }
  const NamedTable table = table_of(groups, group_keys, names);
  write_whole(folder_ / "points.csv", to_csv(points.table()));
  write_whole(folder_ / "table.csv", to_csv(table));
  NamedTable finished_points = points.table();
  finished_points.attributes["planned"] = std::ssize(sweep_.points);
  write_whole(folder_ / "table.h5", table_file("starling sweep", {finished_points, table}));
  return finished;
}

}  // namespace starling
