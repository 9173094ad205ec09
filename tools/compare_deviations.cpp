#include "tools/compare_deviations.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "scenarios/target.hpp"
#include "sim/record/facts.hpp"
#include "tools/compare_notes.hpp"

namespace starling {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A metric against virtual or real time; rows whose cells are known.
struct Curve {
  std::vector<double> times;
  std::vector<double> values;

  double at(double time) const {
    const auto after = std::ranges::lower_bound(times, time);
    if (after == times.end()) return unknown;
    const auto i = static_cast<std::size_t>(after - times.begin());
    if (times[i] == time) return values[i];
    if (i == 0) return unknown;
    const double part = (time - times[i - 1]) / (times[i] - times[i - 1]);
    return values[i - 1] + part * (values[i] - values[i - 1]);
  }
};

Curve curve_of(const Recorder& run, std::string_view metric, bool by_time) {
  Curve curve;
  const Table& table = evaluations_over_time(run, by_time);
  for (std::size_t row = 0; row < table.rows(metric); ++row) {
    const double time = table.value("time", row);
    const double value = table.value(metric, row);
    if (std::isnan(time) || std::isnan(value)) continue;
    if (!curve.times.empty() && time <= curve.times.back()) continue;
    curve.times.push_back(time);
    curve.values.push_back(value);
  }
  return curve;
}

/// Whether a run of ours finished the step of `row`: NaN is then the value of a metric there, and does not mean unknown.
bool got_to(const Recorder& run, std::size_t row) {
  return !is_reference(run) && !std::isnan(run.evaluation.value("time", row));
}

/// Mean over nodes of the training loss after `step` steps; NaN if it is not known.
double train_loss_after(const Recorder& run, Step step) {
  if (is_reference(run)) {
    const std::optional<std::size_t> row = run.evaluation.schedule().row(step - 1);
    return row ? run.evaluation.value("train_loss", *row) : unknown;
  }
  const std::optional<std::size_t> row = run.steps.schedule().row(step - 1);
  if (!row) return unknown;
  double sum = 0;
  for (std::size_t node = 0; node < run.steps.width(); ++node)
    sum += run.steps.value("train_loss", *row, node);
  return sum / static_cast<double>(run.steps.width());
}

/// 0 for the same bits alone. Zeros of two signs are the smallest float apart, what is no number is infinitely far.
double parameter_difference(float a, float b) {
  if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b)) return 0;
  const double distance = std::fabs(static_cast<double>(a) - static_cast<double>(b));
  if (!std::isfinite(distance)) return infinite;
  return std::max<double>(distance, std::numeric_limits<float>::denorm_min());
}

}  // namespace

double difference(double a, double b) {
  if (a == b) return 0;
  if (std::isnan(a) && std::isnan(b)) return unknown;
  return std::isfinite(a - b) ? a - b : infinite;
}

double relative(double a, double b) {
  const double distance = difference(a, b);
  if (!std::isfinite(distance) || distance == 0) return distance;
  return distance / std::fabs(b);
}

bool have_the_same_by_time(const Recorder& a, const Recorder& b) {
  const auto kind = [](const Recorder& run) {
    return std::min<std::size_t>(run.evaluation_by_time.rows(), 2);
  };
  return is_reference(a) || is_reference(b) || kind(a) == kind(b);
}

double deviation_by_step(const Recorder& a, const Recorder& b, std::string_view metric) {
  if (b.evaluation.rows(metric) == 0) return unknown;
  double sum = 0;
  double count = 0;
  for (std::size_t row = 0; row < a.evaluation.rows(metric); ++row) {
    const Step step = a.evaluation.schedule().finished(row);
    const std::optional<std::size_t> other = b.evaluation.schedule().row(step - 1);
    if (!other) continue;
    const double deviation =
        relative(a.evaluation.value(metric, row), b.evaluation.value(metric, *other));
    const bool is_told = std::isfinite(deviation) || (got_to(a, row) && got_to(b, *other));
    if (std::isnan(deviation) || !is_told) continue;
    sum += std::fabs(deviation);
    ++count;
  }
  return count > 0 ? sum / count : unknown;
}

double deviation_by_time(const Recorder& a, const Recorder& b, std::string_view metric) {
  const bool by_time = have_the_same_by_time(a, b);
  const Curve first = curve_of(a, metric, by_time);
  const Curve second = curve_of(b, metric, by_time);
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < first.times.size(); ++i) {
    const double other = second.at(first.times[i]);
    if (std::isnan(other)) continue;
    sum += std::fabs(relative(first.values[i], other));
    ++count;
  }
  return count > 0 ? sum / count : unknown;
}

double deviation_of_train_loss(const Recorder& a, const Recorder& b) {
  const Recorder& other = is_reference(b) ? b : a;
  if (!is_reference(other)) return unknown;
  double sum = 0;
  double count = 0;
  for (std::size_t row = 0; row < other.evaluation.rows("train_loss"); ++row) {
    const Step step = other.evaluation.schedule().finished(row);
    const double first = train_loss_after(a, step);
    const double second = train_loss_after(b, step);
    if (!std::isfinite(first) || !std::isfinite(second)) continue;
    sum += std::fabs(relative(first, second));
    ++count;
  }
  return count > 0 ? sum / count : unknown;
}

double model_difference(const Recorder& a, const Recorder& b) {
  if (a.models.empty() || b.models.empty()) return unknown;
  if (a.models.size() != b.models.size()) return infinite;
  double largest = 0;
  for (std::size_t i = 0; i < a.models.size(); ++i) {
    if (a.models[i].size() != b.models[i].size()) return infinite;
    for (std::size_t k = 0; k < a.models[i].size(); ++k)
      largest = std::max(largest, parameter_difference(a.models[i][k], b.models[i][k]));
  }
  return largest;
}

}  // namespace starling
