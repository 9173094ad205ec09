// starling compare: do two runs agree? Simulated against real, or any two; one run alone is compared with the [reference]
// of its scenario. The second is the yardstick: a deviation is A - B, relative ones over B, and its sign is that of A's
// excess. tools/plot and tools/validate count so, too. Exit status 0 if every quantity with a tolerance is within it, 3 if not.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "scenarios/reference.hpp"
#include "scenarios/target.hpp"
#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"
#include "tools/arguments.hpp"
#include "tools/compare_notes.hpp"
#include "tools/failure.hpp"
#include "tools/reference_run.hpp"
#include "tools/summary.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

constexpr int exit_differs = 3;
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

/// One line of the comparison.
struct Line {
  std::string quantity;
  double first;
  double second;
  double deviation;                 // of A from B, relative to B, or absolute where `is_absolute`
  std::optional<double> tolerance;  // none: for information
  bool is_absolute = false;
  const char* if_unknown = "unknown";

  bool has_tolerance() const { return tolerance.has_value(); }
  /// Whether the deviation is that of two numbers, not a mean or maximum of sizes of deviations.
  bool has_sign() const { return !std::isnan(first) || !std::isnan(second); }
  bool agrees() const { return !tolerance || std::fabs(deviation) <= *tolerance; }
};

/// NaN if neither number is known; infinite if one is not, or is infinite.
double difference(double a, double b) {
  if (a == b) return 0;
  if (std::isnan(a) && std::isnan(b)) return unknown;
  return std::isfinite(a - b) ? a - b : infinite;
}

/// Of `a` from `b`; infinite from 0.
double relative(double a, double b) {
  const double distance = difference(a, b);
  if (!std::isfinite(distance) || distance == 0) return distance;
  return distance / std::fabs(b);
}

double outcome(const std::vector<Outcome>& all, std::string_view name) {
  for (const Outcome& one : all) {
    if (one.name == name) return one.value;
  }
  return unknown;
}

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

/// Mean size of the relative deviation of a metric over the steps that both runs evaluated.
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

/// Mean size of the relative deviation of the training loss over the steps for which a run by other code, at least one of the
/// two, tells it.
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

/// Whether both runs have evaluations by time, both that at the end alone, or neither; a run by other code has but one kind. Else
/// those by step are compared, as nodes that are ahead count in them later.
bool have_the_same_by_time(const Recorder& a, const Recorder& b) {
  const auto kind = [](const Recorder& run) {
    return std::min<std::size_t>(run.evaluation_by_time.rows(), 2);
  };
  return is_reference(a) || is_reference(b) || kind(a) == kind(b);
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

/// 0 for the same bits alone. Zeros of two signs are the smallest float apart, what is no number is infinitely far.
double parameter_difference(float a, float b) {
  if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b)) return 0;
  const double distance = std::fabs(static_cast<double>(a) - static_cast<double>(b));
  if (!std::isfinite(distance)) return infinite;
  return std::max<double>(distance, std::numeric_limits<float>::denorm_min());
}

/// Largest difference of any parameter of any node; NaN if a run has no models, infinite if they are not alike in size.
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

struct Tolerances {
  double time;
  double loss;
  std::optional<double> wait;
  std::optional<double> loss_by_time;
  std::optional<double> models;
};

constexpr const char* waiting = "share of time waiting";
constexpr const char* loss_by_time = "test loss by time, mean";
constexpr const char* final_models = "final models, largest difference";

/// Whether both runs use equally many samples per step. Then throughput is the time per step once more, and that alone is
/// judged: 10 % less time is 11 % more throughput.
bool have_equal_batches(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  const auto samples = [](const std::vector<Outcome>& all) {
    return outcome(all, "samples_per_second") * outcome(all, "step_time_seconds");
  };
  return std::fabs(relative(samples(a), samples(b))) < 1e-6;
}

/// When both runs got to the target; nothing if neither did.
void add_target(std::vector<Line>& lines, const Recorder& a, const Recorder& b,
                const Target& target) {
  const bool by_time = have_the_same_by_time(a, b);
  const Reached first = first_reached(a, target, by_time);
  const Reached second = first_reached(b, target, by_time);
  const std::string words = fmt::format("{} {:g}", target.metric, target.value);
  const bool both_did = first.ever() && second.ever();
  const auto add = [&](const char* what, double x, double y) {
    lines.push_back({.quantity = fmt::format("{} to {}", what, words),
                     .first = x,
                     .second = y,
                     .deviation = relative(x, y),
                     .tolerance = std::nullopt,
                     .if_unknown = both_did ? "unknown" : "never"});
  };
  add("seconds", first.time, second.time);
  add("steps", first.step, second.step);
  add("bytes", first.bytes_sent, second.bytes_sent);
}

std::vector<Line> compare(const Recorder& a, const Recorder& b, const Tolerances& tolerances,
                          const std::optional<Target>& target) {
  const std::vector<Outcome> first = outcomes(a);
  const std::vector<Outcome> second = outcomes(b);
  std::vector<Line> lines;
  const auto add = [&](const char* quantity, const char* name, std::optional<double> tolerance,
                       bool is_absolute = false) {
    const double x = outcome(first, name);
    const double y = outcome(second, name);
    if ((is_reference(a) || is_reference(b)) && (std::isnan(x) || std::isnan(y))) return;
    const double deviation = is_absolute ? difference(x, y) : relative(x, y);
    lines.push_back({quantity, x, y, deviation, tolerance, is_absolute});
  };
  const auto add_deviation = [&](const char* quantity, double deviation,
                                 std::optional<double> tolerance, bool is_absolute = false) {
    lines.push_back({quantity, unknown, unknown, deviation, tolerance, is_absolute});
  };
  add("time per step, s", "step_time_seconds", tolerances.time);
  add("throughput, samples/s", "samples_per_second",
      have_equal_batches(first, second) ? std::nullopt : std::optional(tolerances.time));
  add("share of time computing", "compute_share", std::nullopt, true);
  add(waiting, "wait_share", tolerances.wait, true);
  add("share of time communicating", "communicate_share", std::nullopt, true);
  if (outcome(first, "bytes_per_step") > 0 && outcome(second, "bytes_per_step") > 0)
    add("bytes per step", "bytes_per_step", std::nullopt);  // a reference does not count them
  add("final test loss", "test_loss", tolerances.loss);
  add("final test accuracy", "test_accuracy", tolerances.loss, true);
  add("final test AUC", "test_auc", tolerances.loss, true);
  add_deviation("test loss by step, mean", deviation_by_step(a, b, "test_loss"), tolerances.loss);
  add_deviation(loss_by_time, deviation_by_time(a, b, "test_loss"), tolerances.loss_by_time);
  add_deviation("training loss by step, mean", deviation_of_train_loss(a, b), std::nullopt);
  add_deviation(final_models, model_difference(a, b), tolerances.models, true);
  if (target) add_target(lines, a, b, *target);
  std::erase_if(lines, [](const Line& line) { return std::isnan(line.deviation); });
  return lines;
}

/// How far a run got: "complete, 40 steps".
std::string state_of(const Recorder& run) {
  if (run.nodes.empty()) return fact(run.facts, "status");
  const std::string planned = fmt::format("{}", run.evaluation.schedule().steps());
  if (is_reference(run)) return fmt::format("by other code, {} steps", planned);
  const std::string done = steps_done(run);
  const char* place = fact(run.facts, "transport") == "mpi" ? "over MPI" : "simulated";
  return fmt::format("{}, {}, {} steps", place, fact(run.facts, "status"),
                     done == planned ? done : fmt::format("{} of {}", done, planned));
}

std::string number(const Line& line, double value) {
  if (!std::isnan(value)) return fmt::format("{:.5g}", value);
  return std::isnan(line.first) && std::isnan(line.second) ? "" : line.if_unknown;
}

void print(const std::vector<Line>& lines) {
  if (lines.empty()) return;
  fmt::print("\n{:<34}{:>13}{:>13}{:>13}{:>12}\n", "", "A", "B", "deviation", "tolerance");
  const auto amount = [](const Line& line, double value, bool has_sign) {
    const std::string sign = has_sign && value > 0 && std::isfinite(value) ? "+" : "";
    if (line.is_absolute) return sign + fmt::format("{:.4g}", value);
    const double percent = 100 * value;
    const bool has_room = std::fabs(percent) < 1e6 || !std::isfinite(percent);
    return sign + (has_room ? fmt::format("{:.2f} %", percent) : fmt::format("{:.3g} %", percent));
  };
  for (const Line& line : lines) {
    const bool is_one_unknown = std::isnan(line.first) != std::isnan(line.second);
    fmt::print("{:<34}{:>13}{:>13}{:>13}{:>12}{}\n", line.quantity, number(line, line.first),
               number(line, line.second),
               is_one_unknown ? "" : amount(line, line.deviation, line.has_sign()),
               line.tolerance ? amount(line, *line.tolerance, false) : "",
               line.agrees() ? "" : "  differs");
  }
}

/// Throws if the command line gives a tolerance for what the runs do not tell.
void expect_line(const std::vector<Line>& lines, const po::variables_map& values, const char* name,
                 std::string_view quantity, std::string_view needs) {
  if (values.count(name) > 0 && std::ranges::find(lines, quantity, &Line::quantity) == lines.end())
    throw Error(fmt::format("--{} needs two runs {}", name, needs));
}

double tolerance_in(const po::variables_map& values, const char* name) {
  const double tolerance = values[name].as<double>();
  if (!(tolerance >= 0))
    throw UsageError(fmt::format("--{} must not be negative, got {}", name, tolerance));
  return tolerance;
}

/// What a run is to be compared with by its scenario. Tolerances that the command line does not give are the section's.
std::string reference_of(const std::string& path, const po::variables_map& values,
                         Tolerances& tolerances) {
  const Scenario scenario = read_scenario({path});
  if (!scenario.has_section("reference")) {
    throw UsageError(fmt::format(
        "compare takes two runs, or one whose scenario has a [reference] section; that of {} has "
        "none",
        path));
  }
  const ReferenceSettings settings = read_reference_section(scenario.section("reference"));
  if (values["time"].defaulted()) tolerances.time = settings.time_tolerance;
  if (values["loss"].defaulted()) tolerances.loss = settings.loss_tolerance;
  return settings.file;
}

}  // namespace

void compare_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()(
      "time", po::value<double>()->default_value(0.1, "0.1"),
      "how far A's time per step may deviate, relative to B's; throughput where batches differ")(
      "loss", po::value<double>()->default_value(0.05, "0.05"),
      "the same of losses; of accuracy and AUC the difference")(
      "wait", po::value<double>(), "largest difference of the share of time waiting")(
      "loss-by-time", po::value<double>(),
      "largest mean deviation of the test loss at equal times, relative to B's")(
      "models", po::value<double>(), "largest difference of final models; 0: the same bits")(
      "target", po::value<std::string>(),
      "also tell when each got to it: \"test_accuracy 0.9\", or a test_auc or test_loss");
  po::variables_map values;
  if (!parse_arguments(arguments, "starling compare A.h5 [B.h5|REFERENCE.csv] [options]", options,
                       values))
    return;
  auto words = values["words"].as<std::vector<std::string>>();
  if (words.empty() || words.size() > 2)
    throw UsageError("compare takes two runs, or one whose scenario has a [reference] section");
  const auto optional_tolerance = [&](const char* name) {
    return values.count(name) > 0 ? std::optional(tolerance_in(values, name)) : std::nullopt;
  };
  Tolerances tolerances{.time = tolerance_in(values, "time"),
                        .loss = tolerance_in(values, "loss"),
                        .wait = optional_tolerance("wait"),
                        .loss_by_time = optional_tolerance("loss-by-time"),
                        .models = optional_tolerance("models")};

  std::optional<Target> target;
  if (values.count("target") > 0) {
    target = read_target(values["target"].as<std::string>(), [](const std::string& what) {
      throw UsageError(fmt::format("--target {}", what));
    });
  }

  if (words.size() == 1) words.push_back(reference_of(words[0], values, tolerances));

  const Recorder first = read_run_of(words[0]);
  const Recorder second = read_run_of(words[1]);
  const std::vector<Line> lines = compare(first, second, tolerances, target);
  if (std::ranges::none_of(lines, &Line::has_tolerance)) {
    print(lines);
    tell_what_was_not_read("A", first);
    tell_what_was_not_read("B", second);
    const bool by_other_code = is_reference(first) || is_reference(second);
    throw Error(fmt::format(
        "{} and {} have nothing in common{}{}", words[0], words[1],
        lines.empty() ? "" : " that has a tolerance",
        by_other_code
            ? "; compared are the columns time_seconds, test_loss, test_accuracy and test_auc"
            : ""));
  }
  expect_line(lines, values, "wait", waiting, "that tell how nodes spent their time");
  expect_line(lines, values, "loss-by-time", loss_by_time, "with test losses at times in common");
  expect_line(lines, values, "models", final_models, "with run.save_models = yes");
  fmt::print("A: {} ({})\nB: {} ({})\n", words[0], state_of(first), words[1], state_of(second));
  tell_settings_that_differ(first, second);
  print(lines);
  const auto differing =
      std::ranges::count_if(lines, [](const Line& line) { return !line.agrees(); });
  fmt::print("\n");
  tell_last_steps(first, second);
  const bool by_time = have_the_same_by_time(first, second);
  if (target && !first_reached(first, *target, by_time).ever() &&
      !first_reached(second, *target, by_time).ever())
    fmt::print("note: neither run gets to {} {:g}\n", target->metric, target->value);
  for (const auto& [name, run] : {std::pair("A", &first), std::pair("B", &second)}) {
    tell_what_was_not_read(name, *run);
    warn(name, *run);
  }
  fmt::print("{}\n", differing == 0 ? "the runs agree" : "the runs differ");
  if (differing > 0) throw Ended{exit_differs};
}

}  // namespace starling
