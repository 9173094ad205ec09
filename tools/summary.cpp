#include "tools/summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/core.h>

#include "sim/record/facts.hpp"

namespace starling {
namespace {

void add(std::string& text, std::string_view what, const std::string& value) {
  text += fmt::format("  {:<36}{}\n", what, value);
}

double statistic(const Recorder& recorder, const std::string& name, double otherwise = 0) {
  const auto found = recorder.statistics.find(name);
  return found == recorder.statistics.end() ? otherwise : found->second;
}

/// Last value of an evaluation metric that is known; none where all nodes diverged.
double last(const Recorder& recorder, std::string_view metric) {
  const double diverged = statistic(recorder, "diverged_nodes");
  if (diverged > 0 && diverged == static_cast<double>(recorder.nodes.size())) return unknown;
  const Table& table = final_evaluations(recorder);
  for (std::size_t row = table.rows(metric); row-- > 0;) {
    const double value = table.value(metric, row);
    if (!std::isnan(value)) return value;
  }
  return unknown;
}

double best(const Table& table, std::string_view metric) {
  double best = unknown;
  for (std::size_t row = 0; row < table.rows(metric); ++row) {
    const double value = table.value(metric, row);
    if (!std::isnan(value)) best = std::isnan(best) ? value : std::max(best, value);
  }
  return best;
}

/// The values of a metric, row by row, means over what is known of the nodes; rows of which nothing is known are left out.
std::vector<double> known_rows(const Table& table, std::string_view metric) {
  std::vector<double> means;
  for (std::size_t row = 0; row < table.rows(metric); ++row) {
    double sum = 0;
    double count = 0;
    for (std::size_t column = 0; column < table.width(); ++column) {
      const double value = table.value(metric, row, column);
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    if (count > 0) means.push_back(sum / count);
  }
  return means;
}

/// Sums over the nodes.
struct Totals {
  double steps = 0;
  double messages = 0;
  double bytes = 0;
  double compute = 0;
  double wait = 0;
  double communicate = 0;
  double finished = 0;
  double serving = 0;  // after nodes' last steps, while others still asked them
  double end;
  std::int64_t fewest_steps = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_steps = 0;
  double first_end = std::numeric_limits<double>::infinity();
  double rate = 0;  // steps per second of nodes while they run

  explicit Totals(const Recorder& recorder) : end(recorder.seconds()) {
    const bool is_cut_short = recorder.is_cut();
    const Step all_steps = recorder.evaluation.schedule().steps();
    for (const NodeTotals& node : recorder.nodes) {
      steps += static_cast<double>(node.steps);
      fewest_steps = std::min(fewest_steps, node.steps);
      most_steps = std::max(most_steps, node.steps);
      messages += static_cast<double>(node.messages_sent);
      bytes += static_cast<double>(node.bytes_sent);
      compute += to_seconds(node.compute);
      wait += to_seconds(node.wait);
      communicate += to_seconds(node.communicate);
      const bool has_ended = node.steps >= all_steps;
      const double own_end = is_cut_short && !has_ended ? end : to_seconds(node.finished);
      const double spent = to_seconds(node.compute + node.wait + node.communicate);
      if (has_ended) serving += std::max(0.0, spent - own_end);
      finished += own_end;
      first_end = std::min(first_end, own_end);
      if (own_end > 0) rate += static_cast<double>(node.steps) / own_end;
    }
  }
  double accounted() const { return compute + wait + communicate; }
};

double samples_per_step(const Recorder& recorder) {
  return std::max(1.0, std::strtod(fact(recorder.facts, "samples_per_step").c_str(), nullptr));
}

double ratio(double a, double b) { return b > 0 ? a / b : unknown; }

/// Nodes of which anything is told: of those of a lost rank perhaps nothing is.
double told_nodes(const Recorder& recorder) {
  const auto is_told = [](const NodeTotals& node) {
    return node.steps > 0 || node.compute + node.wait + node.communicate > Duration{};
  };
  const auto told = recorder.is_complete() ? std::ssize(recorder.nodes)
                                           : std::ranges::count_if(recorder.nodes, is_told);
  return static_cast<double>(told);
}

/// The link that carried most for its bandwidth, and how the sharing was worked out.
void add_network(std::string& text, const Recorder& recorder) {
  const double seconds = recorder.active_seconds();
  const auto use = [](const LinkTotals& link) {
    return static_cast<double>(link.bytes) / link.bandwidth;
  };
  const auto busiest = std::ranges::max_element(recorder.links, {}, use);
  if (busiest != recorder.links.end() && seconds > 0) {
    add(text, "busiest link",
        fmt::format("{}, {:.1f} % of its bandwidth, at most {:.1f} %", busiest->name,
                    100 * use(*busiest) / seconds, 100 * busiest->peak_rate / busiest->bandwidth));
  }
  const auto accuracy = recorder.statistics.find("network.accuracy");
  if (accuracy != recorder.statistics.end()) {
    const auto deviation = recorder.statistics.find("network.deviation");
    add(text, "rates of messages",
        fmt::format(
            "exactly fair for links whose bandwidths are off by up to {:.2g} % ({:g} % allowed)",
            100 * deviation->second, 100 * accuracy->second));
  }
}

/// What the mean model was worth in the end.
void add_evaluations(std::string& text, const Recorder& recorder) {
  const double accuracy = last(recorder, "test_accuracy");
  const double area = last(recorder, "test_auc");
  const double loss = last(recorder, "test_loss");
  const double distance = last(recorder, "consensus_distance");
  if (!std::isnan(accuracy))
    add(text, "test accuracy of the mean model", fmt::format("{:.2f} %", 100 * accuracy));
  for (const char* metric : {"test_accuracy", "test_auc"}) {
    const double own = last(recorder, fmt::format("own_{}", metric));
    const double worst = last(recorder, fmt::format("worst_{}", metric));
    if (std::isnan(own)) continue;
    add(text, "of nodes' own models",
        fmt::format("{:.2f} % in the mean, {:.2f} % the worst", 100 * own, 100 * worst));
  }
  if (!std::isnan(area)) add(text, "test AUC of the mean model", fmt::format("{:.4f}", area));
  if (!std::isnan(loss)) add(text, "test loss of the mean model", fmt::format("{:.4g}", loss));
  if (!std::isnan(distance)) add(text, "consensus distance", fmt::format("{:.4g}", distance));
}

/// How long the run took, and what the nodes did in that time.
void add_time(std::string& text, const Recorder& recorder, const Totals& all) {
  const char* clock = fact(recorder.facts, "transport") == "mpi" ? "wall time" : "virtual time";
  add(text, clock, fmt::format("{:.4g} s", all.end));
  if (all.end > 0) {
    add(text, "throughput",
        fmt::format("{:.4g} samples/s, {:.4g} steps/s of all nodes",
                    all.steps * samples_per_step(recorder) / all.end, all.steps / all.end));
  }
  if (recorder.is_cut()) {
    const std::string fewest =
        all.fewest_steps < all.most_steps ? fmt::format("{} to ", all.fewest_steps) : "";
    add(text, "steps of a node",
        fmt::format("{}{} of {}, ended {}", fewest, all.most_steps,
                    recorder.evaluation.schedule().steps(), fact(recorder.facts, "ended")));
  }
  if (const std::string apart = ends_apart(recorder); !apart.empty()) {
    add(text, "nodes finish",
        fmt::format("{}: {:.4g} steps/s of all nodes while they run", apart, all.rate));
  }
  if (all.accounted() > 0) {
    constexpr double noticeable = 0.01;  // of the time until their last steps
    add(text, "nodes compute / wait / communicate",
        fmt::format(
            "{:.1f} % / {:.1f} % / {:.1f} % of their time{}", 100 * all.compute / all.accounted(),
            100 * all.wait / all.accounted(), 100 * all.communicate / all.accounted(),
            all.serving > noticeable * all.finished ? ", with what follows their last step" : ""));
  }
  if (const double away = statistic(recorder, "failures.away_seconds"); away > 0) {
    add(text, "nodes away",
        fmt::format("{:.1f} % of the time until they finished", 100 * away / all.finished));
  }
}

/// Sum over the nodes of the last value that is known of a metric of steps.
double last_of_nodes(const Table& steps, std::string_view metric) {
  double sum = 0;
  for (std::size_t node = 0; node < steps.width(); ++node) {
    for (std::size_t row = steps.rows(metric); row-- > 0;) {
      const double value = steps.value(metric, row, node);
      if (std::isnan(value)) continue;
      sum += value;
      break;
    }
  }
  return sum;
}

/// Exchanges of asynchronous nodes that a slow network keeps from beginning, while steps go on.
void add_exchanges(std::string& text, const Recorder& recorder) {
  const double begun = last_of_nodes(recorder.steps, "exchanges");
  const double behind = last_of_nodes(recorder.steps, "exchanges_behind");
  constexpr double noticeable = 0.01;
  if (behind > noticeable * (begun + behind)) {
    add(text, "exchanges",
        fmt::format("{:.0f} begun, {:.0f} left out: they took longer than gradients", begun,
                    behind));
  }
}

void add_codes(std::string& text, const Recorder& recorder) {
  const std::string codes = fact(recorder.facts, "codes");
  if (!codes.empty()) add(text, "codes", codes);
}

void add_failures(std::string& text, const Recorder& recorder) {
  const double stopped = statistic(recorder, "failures.stopped_nodes");
  const double lost = statistic(recorder, "failures.lost_messages");
  const double duplicated = statistic(recorder, "failures.duplicated_messages");
  if (stopped + lost + duplicated > 0) {
    add(text, "failures",
        fmt::format("{} of {} nodes stopped, {} messages lost, {} duplicated", stopped,
                    recorder.nodes.size(), lost, duplicated));
  }
  if (const std::string diverged = fact(recorder.facts, "diverged"); !diverged.empty()) {
    add(text, "diverged",
        fmt::format("{} of {} nodes: {}", statistic(recorder, "diverged_nodes"),
                    recorder.nodes.size(), diverged));
  }
}

void add_target(std::vector<Outcome>& outcomes, const Recorder& recorder, const Target& target) {
  const Reached reached = first_reached(recorder, target);
  outcomes.insert(outcomes.end(), {{"target_reached", reached.ever() ? 1.0 : 0.0},
                                   {"target_time_seconds", reached.time},
                                   {"target_step", reached.step},
                                   {"target_bytes", reached.bytes_sent}});
}

}  // namespace

const Table& final_evaluations(const Recorder& recorder) {
  const bool by_time = recorder.is_cut() && recorder.evaluation_by_time.rows() > 0;
  return by_time ? recorder.evaluation_by_time : recorder.evaluation;
}

std::string summarize(const Recorder& recorder) {
  std::string text;
  const Totals all(recorder);
  add_evaluations(text, recorder);
  add_time(text, recorder, all);
  if (all.steps > 0) {
    const bool is_whole = recorder.is_complete() && !recorder.is_cut();
    add(text, "messages",
        fmt::format("{:.4g} and {:.4g} MB per step of a node{}", all.messages / all.steps,
                    all.bytes / all.steps / 1e6,
                    is_whole ? "" : ", with those of steps that did not end"));
  }
  add_exchanges(text, recorder);
  add_codes(text, recorder);
  add_failures(text, recorder);
  add_network(text, recorder);
  if (const double full = statistic(recorder, "timeline.full_seconds", unknown);
      !std::isnan(full)) {
    add(text, "timeline",
        fmt::format("ends at {:.4g} s: more than {} stretches are not kept", full,
                    TimelineEnd::most_stretches));
  }
  return text;
}

std::vector<std::string> signs_of_divergence(const Recorder& recorder,
                                             std::optional<std::size_t> parameters) {
  if (!fact(recorder.facts, "diverged").empty()) return {};  // which the summary tells
  std::vector<std::string> signs;
  const auto look = [&](const char* what, const std::vector<double>& rows, double factor) {
    // A loss that may have any sign tells nothing so.
    if (rows.empty() || rows.front() <= 0 || rows.back() <= factor * rows.front()) return;
    signs.push_back(fmt::format(
        "{} ended at {:.4g}, {:.3g} times its first value: the run seems to have diverged", what,
        rows.back(), rows.back() / rows.front()));
  };
  constexpr double far_above = 3;  // the loss of the model from which all start, as a rule
  look("training loss", known_rows(recorder.steps, "train_loss"), far_above);
  // The first distance may be that of nodes that had just averaged. Far apart are those that differ by more than 1 in each parameter.
  constexpr double far_apart = 10;
  const std::vector<double> distances =
      known_rows(final_evaluations(recorder), "consensus_distance");
  if (parameters && !distances.empty() &&
      distances.back() > std::sqrt(static_cast<double>(*parameters)))
    look("consensus distance", distances, far_apart);
  return signs;
}

std::string ends_apart(const Recorder& recorder) {
  constexpr double together = 0.9;  // of the last node's time
  const bool has_stopped = statistic(recorder, "failures.stopped_nodes") > 0;
  const Totals all(recorder);
  if (all.first_end >= together * all.end || has_stopped || recorder.is_cut()) return "";
  return fmt::format("between {:.4g} and {:.4g} s", all.first_end, all.end);
}

std::vector<Outcome> outcomes(const Recorder& recorder, const std::optional<Target>& target) {
  const Totals all(recorder);
  const double steps = all.steps;
  const bool has_samples = !fact(recorder.facts, "samples_per_step").empty();
  std::vector<Outcome> all_outcomes{
      {"test_accuracy", last(recorder, "test_accuracy")},
      {"best_test_accuracy", best(final_evaluations(recorder), "test_accuracy")},
      {"test_auc", last(recorder, "test_auc")},
      {"best_test_auc", best(final_evaluations(recorder), "test_auc")},
      {"test_loss", last(recorder, "test_loss")},
      {"own_test_accuracy", last(recorder, "own_test_accuracy")},
      {"worst_test_accuracy", last(recorder, "worst_test_accuracy")},
      {"own_test_loss", last(recorder, "own_test_loss")},
      {"consensus_distance", last(recorder, "consensus_distance")},
      {"virtual_time_seconds", all.end},
      {"step_time_seconds", ratio(all.end * told_nodes(recorder), steps)},
      {"samples_per_second",
       has_samples ? ratio(steps * samples_per_step(recorder), all.end) : unknown},
      {"steps_per_second", ratio(steps, all.end)},
      {"running_steps_per_second", steps > 0 ? all.rate : unknown},
      {"first_finish_seconds", std::isfinite(all.first_end) ? all.first_end : unknown},
      {"compute_share", ratio(all.compute, all.accounted())},
      {"wait_share", ratio(all.wait, all.accounted())},
      {"communicate_share", ratio(all.communicate, all.accounted())},
      {"messages_per_step", ratio(all.messages, steps)},
      {"bytes_per_step", ratio(all.bytes, steps)},
      {"spectral_gap", statistic(recorder, "topology.spectral_gap", unknown)},
      {"stopped_nodes", statistic(recorder, "failures.stopped_nodes", unknown)},
      {"away_share", ratio(statistic(recorder, "failures.away_seconds", unknown), all.finished)},
      {"lost_messages", statistic(recorder, "failures.lost_messages", unknown)},
      {"duplicated_messages", statistic(recorder, "failures.duplicated_messages", unknown)},
      {"diverged_nodes", statistic(recorder, "diverged_nodes", unknown)},
  };
  if (target) add_target(all_outcomes, recorder, *target);
  return all_outcomes;
}

}  // namespace starling
