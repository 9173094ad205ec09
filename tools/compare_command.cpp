// starling compare: do two runs agree? Simulated against real, or any two; one run alone is compared with the [reference]
// of its scenario. The second is the yardstick: a deviation is A - B, relative ones over B, and its sign is that of A's
// excess. tools/plot and tools/validate count so, too. Exit status 0 if every quantity with a tolerance is within it, 3 if not.
// Of a sweep's folder two settings are compared, which nobody judges.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <boost/program_options.hpp>
#include <fmt/core.h>

#include "scenarios/reference.hpp"
#include "scenarios/target.hpp"
#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"
#include "tools/arguments.hpp"
#include "tools/compare_deviations.hpp"
#include "tools/compare_notes.hpp"
#include "tools/compare_settings.hpp"
#include "tools/failure.hpp"
#include "tools/reference_run.hpp"
#include "tools/summary.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

constexpr int exit_differs = 3;

/// One line of the comparison.
struct Line {
  std::string quantity;
  double first;
  double second;
  double deviation;                 // of A from B, relative to B, or absolute where `is_absolute`
  std::optional<double> tolerance;  // none: for information
  bool is_absolute = false;
  const char* if_unknown = "unknown";
  bool is_bound = false;  // one of them, so that nobody knows how far they are apart

  bool has_tolerance() const { return tolerance.has_value(); }
  /// Whether the deviation is that of two numbers, not a mean or maximum of sizes of deviations.
  bool has_sign() const { return !std::isnan(first) || !std::isnan(second); }
  bool agrees() const { return !tolerance || std::fabs(deviation) <= *tolerance; }
};

double outcome(const std::vector<Outcome>& all, std::string_view name) {
  for (const Outcome& one : all) {
    if (one.name == name) return one.value;
  }
  return unknown;
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
  constexpr double rounding = 1e-6;
  return std::fabs(relative(samples(a), samples(b))) < rounding;
}

/// When both runs got to the target; nothing if neither did.
void add_target(std::vector<Line>& lines, const Recorder& a, const Recorder& b,
                const Target& target) {
  const bool by_time = have_the_same_by_time(a, b);
  const Reached first = first_reached(a, target, by_time);
  const Reached second = first_reached(b, target, by_time);
  const std::string words = fmt::format("{} {:g}", target.metric, target.value);
  const bool both_did = first.ever() && second.ever();
  const bool is_bound = first.is_bound || second.is_bound;
  const auto add = [&](const char* what, double x, double y) {
    lines.push_back({.quantity = fmt::format("{} to {}", what, words),
                     .first = x,
                     .second = y,
                     .deviation = relative(x, y),
                     .tolerance = std::nullopt,
                     .if_unknown = both_did ? "unknown" : "never",
                     .is_bound = is_bound});
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
    constexpr double widest = 1e6;  // that fits its column with two decimals
    const bool has_room = std::fabs(percent) < widest || !std::isfinite(percent);
    return sign + (has_room ? fmt::format("{:.2f} %", percent) : fmt::format("{:.3g} %", percent));
  };
  for (const Line& line : lines) {
    const bool is_one_unknown = std::isnan(line.first) != std::isnan(line.second);
    fmt::print("{:<34}{:>13}{:>13}{:>13}{:>12}{}\n", line.quantity, number(line, line.first),
               number(line, line.second),
               is_one_unknown || line.is_bound ? "" : amount(line, line.deviation, line.has_sign()),
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

Tolerances tolerances_in(const po::variables_map& values) {
  const auto optional_tolerance = [&](const char* name) {
    return values.count(name) > 0 ? std::optional(tolerance_in(values, name)) : std::nullopt;
  };
  return {.time = tolerance_in(values, "time"),
          .loss = tolerance_in(values, "loss"),
          .wait = optional_tolerance("wait"),
          .loss_by_time = optional_tolerance("loss-by-time"),
          .models = optional_tolerance("models")};
}

std::optional<Target> target_in(const po::variables_map& values) {
  if (values.count("target") == 0) return std::nullopt;
  return read_target(values["target"].as<std::string>(), [](const std::string& what) {
    throw UsageError(fmt::format("--target {}", what));
  });
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

/// Throws for two runs that have nothing in common that could be judged; tells before what they have.
[[noreturn]] void refuse(const std::vector<Line>& lines, const std::vector<std::string>& words,
                         const Recorder& a, const Recorder& b) {
  print(lines);
  tell_what_was_not_read("A", a);
  tell_what_was_not_read("B", b);
  throw Error(fmt::format(
      "{} and {} have nothing in common{}{}", words[0], words[1],
      lines.empty() ? "" : " that has a tolerance",
      is_reference(a) || is_reference(b)
          ? "; compared are the columns time_seconds, test_loss, test_accuracy and test_auc"
          : ""));
}

/// Prints a line if neither run got to the target, or one began there.
void tell_of_target(const Recorder& a, const Recorder& b, const Target& target) {
  const bool by_time = have_the_same_by_time(a, b);
  const Reached first = first_reached(a, target, by_time);
  const Reached second = first_reached(b, target, by_time);
  const std::string words = fmt::format("{} {:g}", target.metric, target.value);
  if (!first.ever() && !second.ever()) fmt::print("note: neither run gets to {}\n", words);
  for (const auto& [name, reached] : {std::pair("A", first), std::pair("B", second)}) {
    if (reached.is_bound)
      fmt::print("note: {} is at {} when it is evaluated first, so it got there by then\n", name,
                 words);
  }
}

/// Throws UsageError for options that are of two runs.
void compare_in_sweep(const std::vector<std::string>& words, const po::variables_map& values) {
  if (words.size() != 3) {
    throw UsageError(
        "compare takes two settings of a sweep, each of which is one word, after its folder: "
        "results/NAME algorithm.kind=wagma algorithm.kind=dpsgd");
  }
  for (const char* name : {"time", "loss", "wait", "loss-by-time", "models", "target"}) {
    if (values.count(name) > 0 && !values[name].defaulted())
      throw UsageError(fmt::format("--{} is of two runs, not of a sweep", name));
  }
  const bool has_outcomes = values.count("outcome") > 0;
  compare_settings(
      words[0], words[1], words[2],
      has_outcomes ? values["outcome"].as<std::vector<std::string>>() : std::vector<std::string>());
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
      "also tell when each got to it: \"test_accuracy 0.9\", or a test_auc or test_loss")(
      "outcome", po::value<std::vector<std::string>>()->multitoken(),
      "of a sweep: which outcomes; else accuracies, losses, times, bytes as far as known");
  po::variables_map values;
  if (!parse_arguments(arguments, "compare",
                       "starling compare A.h5 [B.h5|REFERENCE.csv] [options]\n"
                       "       starling compare SWEEP A-KEY=VALUE B-KEY=VALUE [--outcome NAME ..]",
                       options, values))
    return;
  auto words = values["words"].as<std::vector<std::string>>();
  if (!words.empty() && std::filesystem::is_directory(words[0]))
    return compare_in_sweep(words, values);
  if (values.count("outcome") > 0)
    throw UsageError("--outcome is of two settings of a sweep, after its folder");
  if (words.empty() || words.size() > 2)
    throw UsageError("compare takes two runs, or one whose scenario has a [reference] section");
  Tolerances tolerances = tolerances_in(values);
  const std::optional<Target> target = target_in(values);
  if (words.size() == 1) words.push_back(reference_of(words[0], values, tolerances));

  const Recorder first = read_run_of(words[0]);
  const Recorder second = read_run_of(words[1]);
  const std::vector<Line> lines = compare(first, second, tolerances, target);
  if (std::ranges::none_of(lines, &Line::has_tolerance)) refuse(lines, words, first, second);
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
  if (target) tell_of_target(first, second, *target);
  for (const auto& [name, run] : {std::pair("A", &first), std::pair("B", &second)}) {
    tell_what_was_not_read(name, *run);
    warn(name, *run);
  }
  fmt::print("{}\n", differing == 0 ? "the runs agree" : "the runs differ");
  if (differing > 0) throw Ended{exit_differs};
}

}  // namespace starling
