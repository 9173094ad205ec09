#include "scenarios/target.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/base/text.hpp"
#include "sim/record/facts.hpp"

namespace starling {
namespace {

constexpr std::array<std::string_view, 3> metrics{"test_accuracy", "test_auc", "test_loss"};

bool is_loss(std::string_view metric) { return metric == "test_loss"; }

/// So much of the way from one row of a table to another.
struct Crossing {
  std::size_t before;
  std::size_t row;
  double part;

  template <class Value>
  double of(const Value& value) const {
    return std::lerp(value(before), value(row), part);
  }
};

/// Where the metric is at the target for the first time, from a row on; there, if it begins so.
std::optional<Crossing> first_crossing(const Table& table, const Target& target,
                                       std::size_t row = 0) {
  const double sign = is_loss(target.metric) ? -1 : 1;
  const double wanted = sign * target.value;
  std::optional<std::size_t> before;
  double had = unknown;
  for (; row < table.rows(target.metric); ++row) {
    const double has = sign * table.value(target.metric, row);
    if (!std::isfinite(has)) continue;
    if (has >= wanted)
      return Crossing{before.value_or(row), row, before ? (wanted - had) / (has - had) : 1};
    before = row;
    had = has;
  }
  return std::nullopt;
}

}  // namespace

bool is_met(const Target& target, double loss, double accuracy) {
  return is_loss(target.metric) ? loss <= target.value : accuracy >= target.value;
}

bool is_told(const Target& target, const WorkloadFacts& workload) {
  if (is_loss(target.metric)) return workload.has_numbers;
  return workload.has_accuracy && target.metric == workload.accuracy_metric;
}

Target read_target(std::string_view text, const std::function<void(const std::string&)>& refuse) {
  const std::size_t blank = text.find(' ');
  const std::string_view metric = text.substr(0, blank);
  const std::string_view number = blank == text.npos ? "" : trim(text.substr(blank));
  const std::optional<double> value = number_in<double>(number);
  if (std::ranges::find(metrics, metric) == metrics.end() || !value || !std::isfinite(*value)) {
    refuse(fmt::format("must be one of {} and a number, as \"test_accuracy 0.9\", got {}",
                       fmt::join(metrics, ", "), printable(text)));
  }
  if (!is_loss(metric) && (*value <= 0 || *value > 1)) {
    refuse(fmt::format("must be a share above 0 and at most 1, as 0.9 for 90 %, got {}", number));
  }
  return {std::string(metric), *value};
}

const Table& evaluations_over_time(const Recorder& recorder, bool by_time) {
  return by_time && recorder.evaluation_by_time.rows() > 1 ? recorder.evaluation_by_time
                                                           : recorder.evaluation;
}

Reached first_reached(const Recorder& recorder, const Target& target, bool by_time) {
  const Table& by_step = recorder.evaluation;
  const Table* over_time = &evaluations_over_time(recorder, by_time);
  Reached reached{unknown, unknown, unknown};
  auto place = first_crossing(*over_time, target);
  if (!place && by_time) {
    over_time = &recorder.evaluation_by_time;
    place = first_crossing(*over_time, target, std::max<std::size_t>(1, over_time->rows()) - 1);
  }
  if (place) {
    reached.is_bound = place->before == place->row;
    reached.time = place->of([&](auto row) { return over_time->value("time", row); });
    reached.bytes_sent = place->of([&](auto row) { return over_time->value("bytes_sent", row); });
  }
  if (const auto at_step = first_crossing(by_step, target)) {
    reached.step = at_step->of(
        [&](auto row) { return static_cast<double>(by_step.schedule().finished(row)); });
  }
  return reached;
}

}  // namespace starling
