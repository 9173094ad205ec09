#include "tools/reference_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <numeric>
#include <span>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "sim/base/csv.hpp"
#include "sim/base/did_you_mean.hpp"
#include "sim/base/error.hpp"
#include "sim/base/section.hpp"
#include "sim/base/text.hpp"
#include "sim/base/text_file.hpp"
#include "sim/record/results_file.hpp"
#include "tools/say.hpp"

namespace starling {
namespace {

constexpr int largest_count = 10'000'000;  // of nodes, and of samples in a step
constexpr double most_steps = 1e12;        // of a run

/// The file with the place for messages.
struct LineAt {
  const std::string& path;
  int line;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(fmt::format("{}:{}: {}", path, line, what));
  }
  double number(std::string_view text, std::string_view column) const {
    if (text.empty()) return std::numeric_limits<double>::quiet_NaN();
    const auto value = number_in<double>(text);
    if (!value || !std::isfinite(*value))
      refuse(fmt::format("{} must be a number, got {}", column, text));
    return *value;
  }
};

struct ReferenceRows {
  std::vector<std::string> columns;
  std::vector<std::vector<double>> cells;  // (rows, columns)
  double nodes = 0, samples_per_step = 0;  // 0: not told
  double last_time = 0;                    // seconds, that a row told
  std::vector<std::string> misspelled;     // columns and comments like others, which are read
  std::vector<std::string> ignored;        // all other columns that are not read

  std::size_t column(const std::string& name) const {
    std::size_t i = 0;
    while (i < columns.size() && columns[i] != name) ++i;
    return i;
  }
};

constexpr std::array<std::string_view, 7> known_columns = {
    "step", "time_seconds", "bytes_sent", "train_loss", "test_loss", "test_accuracy", "test_auc"};
constexpr std::array<std::string_view, 2> known_comments = {"nodes", "samples_per_step"};

/// Which of the known names a column or a comment may mean, "acuracy" or "time"; nothing if none.
std::string meant_by(std::string_view found, std::span<const std::string_view> known) {
  constexpr std::size_t shortest_part = 4;
  const std::string name = lower(std::string(found));
  const std::vector<std::string> names(known.begin(), known.end());
  if (const std::string* alike = most_alike(name, names)) return *alike;
  for (const std::string_view candidate : known) {
    if (name.size() >= shortest_part && candidate.find(name) != candidate.npos)
      return std::string(candidate);
  }
  return {};
}

/// Whether a column is read; others are ignored.
bool is_ours(std::string_view column) {
  return std::ranges::find(known_columns, column) != known_columns.end();
}

bool is_share(std::string_view column) { return column == "test_accuracy" || column == "test_auc"; }

void read_comment(std::string_view line, const LineAt& place, ReferenceRows& rows) {
  const std::size_t equals = line.find('=');
  if (equals == line.npos) return;
  const std::string_view key = trim(line.substr(1, equals - 1));
  double* value = key == "nodes"              ? &rows.nodes
                  : key == "samples_per_step" ? &rows.samples_per_step
                                              : nullptr;
  if (value == nullptr) {
    const std::string meant = meant_by(key, known_comments);
    if (!meant.empty())
      rows.misspelled.push_back(fmt::format("# {} (did you mean {}?)", key, meant));
    return;
  }
  *value = place.number(trim(line.substr(equals + 1)), key);
  if (!(*value >= 1) || *value > largest_count || *value != std::floor(*value))
    place.refuse(fmt::format("{} must be a whole number from 1 to {}", key, largest_count));
}

std::vector<std::string> cells_of(std::string_view line, const LineAt& place) {
  try {
    return csv_cells(line);
  } catch (const Error& error) {
    place.refuse(error.what());
  }
}

void read_names(std::string_view line, const LineAt& place, ReferenceRows& rows) {
  rows.columns = cells_of(line, place);
  if (rows.column("step") == rows.columns.size())
    place.refuse(
        fmt::format("expected names of columns with commas between them, one of them step, got {}",
                    excerpt(line)));
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    if (rows.column(rows.columns[i]) < i && is_ours(rows.columns[i]))
      place.refuse(fmt::format("two columns are called {}", rows.columns[i]));
    if (is_ours(rows.columns[i])) continue;
    const std::string meant = meant_by(rows.columns[i], known_columns);
    meant.empty()
        ? rows.ignored.push_back(rows.columns[i])
        : rows.misspelled.push_back(fmt::format("{} (did you mean {}?)", rows.columns[i], meant));
  }
}

void read_row(std::string_view line, const LineAt& place, ReferenceRows& rows) {
  const std::vector<std::string> cells = cells_of(line, place);
  if (cells.size() != rows.columns.size())
    place.refuse(fmt::format("expected {} cells, got {}", rows.columns.size(), cells.size()));
  const std::size_t step = rows.column("step");
  const double last_step = rows.cells.empty() ? 0 : rows.cells.back()[step];
  std::vector<double>& row = rows.cells.emplace_back();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    row.push_back(is_ours(rows.columns[i]) ? place.number(cells[i], rows.columns[i]) : 0);
    if (is_share(rows.columns[i]) && (row[i] < 0 || row[i] > 1))
      place.refuse(fmt::format("{} must be a share from 0 to 1, not in percent, got {}",
                               rows.columns[i], cells[i]));
  }
  if (!(row[step] > last_step) || row[step] != std::floor(row[step]) || row[step] > most_steps)
    place.refuse(
        fmt::format("step must be a whole number that grows, from 1 on, got {}", cells[step]));
  const std::size_t time = rows.column("time_seconds");
  if (time == row.size() || std::isnan(row[time])) return;
  if (row[time] < rows.last_time)
    place.refuse(
        fmt::format("time_seconds must not fall, got {} after {}", row[time], rows.last_time));
  if (row[time] > to_seconds(Duration::max()))
    place.refuse(fmt::format("time_seconds must be in the range of the clock, up to {:.4g}, got {}",
                             to_seconds(Duration::max()), row[time]));
  rows.last_time = row[time];
}

ReferenceRows read_rows(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none))
    throw Error(path + ": expected a run, found a directory");
  std::istringstream file(read_whole_file(path));
  ReferenceRows rows;
  LineAt place{path, 0};
  for (std::string text; std::getline(file, text);) {
    std::string_view line = text;
    if (++place.line == 1 && line.starts_with(byte_order_mark))
      line.remove_prefix(byte_order_mark.size());
    line = trim(line);
    if (line.empty()) continue;
    if (line.front() == '#') {
      read_comment(line, place, rows);
    } else if (rows.columns.empty()) {
      read_names(line, place, rows);
    } else {
      read_row(line, place, rows);
    }
  }
  if (rows.cells.empty()) throw Error(fmt::format("{}: holds no rows", path));
  return rows;
}

/// Whether a file holds a table, rather than results; by its name, if it is not there or called as results are.
bool is_table(const std::string& path) {
  constexpr std::string_view hdf5_begins = "\x89HDF";
  std::error_code none;
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".h5") return false;
  if (!std::filesystem::is_regular_file(path, none)) return ending == ".csv";
  return !read_whole_file(path, hdf5_begins.size()).starts_with(hdf5_begins);
}

/// What `starling compare` would mind in a reference of a run with so many nodes; nothing if the file is not there yet.
std::string doubt_about(const std::string& path, NodeId nodes) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none))
    return path + ": expected a run, found a directory";
  if (path.empty()) return "";
  if (!std::filesystem::exists(path, none)) return path + ": is not there yet";
  try {
    if (!is_table(path)) return "";
    const ReferenceRows rows = read_rows(path);
    if (rows.nodes > 0 && rows.nodes != static_cast<double>(nodes))
      return fmt::format("{}: has {} nodes, this run {}", path, rows.nodes, nodes);
    if (!rows.misspelled.empty())
      return fmt::format("{}: nobody reads {}", path, fmt::join(rows.misspelled, ", "));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Recorder read_reference(const std::string& path) {
  const ReferenceRows rows = read_rows(path);
  const std::size_t step_column = rows.column("step");
  const auto steps = static_cast<Step>(rows.cells.back()[step_column]);
  // Rows of a schedule are evenly spaced, those of a reference need not be: the finest spacing holds them all.
  Step every = steps;
  for (const auto& row : rows.cells) every = std::gcd(every, static_cast<Step>(row[step_column]));
  if (steps / every > 10'000'000)
    throw Error(fmt::format("{}: steps are too uneven for one table", path));
  Recorder run(static_cast<NodeId>(std::max(1.0, rows.nodes)), RowSchedule(steps, steps),
               RowSchedule(every, steps), Time{});
  double end = 0;        // seconds
  Step timed_steps = 0;  // done by then
  for (const auto& row : rows.cells) {
    const auto at = static_cast<std::size_t>(static_cast<Step>(row[step_column]) / every) - 1;
    for (std::size_t i = 0; i < rows.columns.size(); ++i) {
      const std::string& column = rows.columns[i];
      if (column == "time_seconds") {
        run.evaluation.cell("time", at) = row[i];
        if (std::isnan(row[i])) continue;
        end = row[i];
        timed_steps = static_cast<Step>(row[step_column]);
      } else if (is_ours(column) && i != step_column) {
        run.evaluation.cell(column, at) = row[i];
      }
    }
  }
  for (NodeTotals& node : run.nodes) {
    node.steps = end > 0 ? timed_steps : 0;
    node.finished = Time{from_seconds(end)};
  }
  if (rows.nodes > 0 && rows.samples_per_step > 0) {  // else nothing is known of throughput
    run.facts["samples_per_step"] = fmt::format("{}", rows.samples_per_step);
  }
  if (rows.nodes > 0) run.facts["nodes"] = fmt::format("{}", rows.nodes);
  if (!rows.misspelled.empty())
    run.facts["misspelled"] = fmt::format("{}; known are {}", fmt::join(rows.misspelled, ", "),
                                          fmt::join(known_columns, ", "));
  if (!rows.ignored.empty())
    run.facts["ignored"] = fmt::format("{}", fmt::join(rows.ignored, ", "));
  run.facts["workload"] = path;
  return run;
}

void warn_of_reference(const Assembly& parts) {
  const std::string doubt = doubt_about(parts.reference, parts.settings.nodes);
  if (!doubt.empty()) say("starling: warning: reference {}\n", doubt);
}

Recorder read_run_of(const std::string& path) {
  return is_table(path) ? read_reference(path) : load(path);
}

}  // namespace starling
