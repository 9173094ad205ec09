#include "sim/record/recorder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"

namespace starling {

RowSchedule::RowSchedule(Step every, Step steps) : every_(every), steps_(steps) {
  ensure(every >= 1, "a row schedule has a period of at least one step");
  ensure(steps >= 0, "a row schedule covers at least no steps");
  rows_ = static_cast<std::size_t>(steps / every + (steps % every != 0 ? 1 : 0));
}

Step RowSchedule::finished(std::size_t row) const {
  ensure(row < rows_, "the row belongs to the schedule");
  return row + 1 == rows_ ? steps_ : (static_cast<Step>(row) + 1) * every_;
}

bool is_metric_name(std::string_view name) {
  return !name.empty() && name != "step" && name != "." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

double& Table::cell(std::string_view metric, std::size_t row, std::size_t column) {
  ensure(column < width_, "the column belongs to the table");
  return cells(metric, row)[column];
}

std::span<double> Table::cells(std::string_view metric, std::size_t row) {
  ensure(row < schedule_.rows(), "the row belongs to the table");
  auto column = columns_.find(metric);
  if (column == columns_.end()) {
    ensure(is_metric_name(metric), "a metric has the name of a data set");
    column = columns_.try_emplace(std::string(metric)).first;
  }
  auto& rows = column->second;
  while (rows.size() <= row) rows.emplace_back(width_, std::nan(""));
  return rows[row];
}

std::span<const double> Table::cells(std::string_view metric, std::size_t row) const {
  const auto found = columns_.find(metric);
  if (found == columns_.end() || row >= found->second.size()) return {};
  return found->second[row];
}

double Table::value(std::string_view metric, std::size_t row, std::size_t column) const {
  const std::span<const double> values = cells(metric, row);
  return column < values.size() ? values[column] : std::nan("");
}

std::vector<std::string> Table::metrics() const {
  std::vector<std::string> names;
  for (const auto& [name, rows] : columns_) names.push_back(name);
  return names;
}

std::size_t Table::rows(std::string_view metric) const {
  const auto found = columns_.find(metric);
  return found == columns_.end() ? 0 : found->second.size();
}

std::size_t Table::rows() const {
  std::size_t most = 0;
  for (const auto& [name, rows] : columns_) most = std::max(most, rows.size());
  return most;
}

std::string_view unit_of(std::string_view metric) {
  using Entry = std::pair<std::string_view, std::string_view>;
  static constexpr std::array units{
      Entry{"bandwidth", "B/s"},    Entry{"begin", "ps"},
      Entry{"busy", "s"},           Entry{"bytes", "B"},
      Entry{"bytes_received", "B"}, Entry{"bytes_sent", "B"},
      Entry{"communicate", "s"},    Entry{"compute", "s"},
      Entry{"end", "ps"},           Entry{"exchange_time", "s"},
      Entry{"finished", "s"},       Entry{"peak_rate", "B/s"},
      Entry{"rate", "B/s"},         Entry{"throughput", "samples/s"},
      Entry{"time", "s"},           Entry{"wait", "s"},
  };
  for (const auto& [name, unit] : units) {
    if (name == metric) return unit;
  }
  return metric.ends_with("_picoseconds") ? "ps" : metric.ends_with("_seconds") ? "s" : "";
}

std::string_view to_text(Activity activity) {
  static constexpr std::array<std::string_view, 3> names{"compute", "wait", "communicate"};
  return names[static_cast<std::size_t>(activity)];
}

Time last_finish(std::span<const NodeTotals> nodes) {
  Time last{};
  for (const NodeTotals& node : nodes) last = std::max(last, node.finished);
  return last;
}

Recorder::Recorder(NodeId node_count, RowSchedule step_rows, RowSchedule evaluation_rows,
                   Time timeline_until)
    : steps(step_rows, static_cast<std::size_t>(node_count)),
      evaluation(evaluation_rows, 1),
      nodes(static_cast<std::size_t>(node_count)),
      timeline_end_(timeline_until) {}

bool Recorder::is_complete() const { return fact(facts, "status") == "complete"; }

bool Recorder::is_cut() const { return !fact(facts, "ended").empty(); }

double Recorder::seconds() const {
  double end = to_seconds(last_finish(nodes));
  if (!is_cut()) return end;
  for (const Table* table : {&evaluation, &evaluation_by_time}) {
    for (std::size_t row = 0; row < table->rows("time"); ++row)
      end = std::fmax(end, table->value("time", row));  // not NaN, if one is not
  }
  return end;
}

double Recorder::active_seconds() const {
  double end = seconds();
  for (const NodeTotals& node : nodes)
    end = std::max(end,
                   to_seconds(node.compute) + to_seconds(node.wait) + to_seconds(node.communicate));
  return end;
}

void Recorder::spend(NodeId node, Activity activity, Time begin, Time end) {
  ensure(begin <= end, "time passes forwards");
  if (begin == end) return;
  NodeTotals& totals = nodes[static_cast<std::size_t>(node)];
  switch (activity) {
    case Activity::compute:
      totals.compute += end - begin;
      break;
    case Activity::wait:
      totals.wait += end - begin;
      break;
    case Activity::communicate:
      totals.communicate += end - begin;
      break;
  }
  if (begin < timeline_until()) {
    timeline.push_back({node, activity, begin, std::min(end, timeline_until())});
    timeline_end_.count(end);
  }
}

}  // namespace starling
