#include "scenarios/replay_check.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"

namespace starling {
namespace {

constexpr std::string_view metric = "train_loss";

bool is_same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool is_same_model(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return is_same(x, y); });
}

/// Where the losses differ first; empty if they do not.
std::string difference_of_losses(const Table& recorded, const Table& replayed) {
  if (recorded.schedule() != replayed.schedule())
    return "losses were not recorded at the same steps";
  for (std::size_t row = 0; row < recorded.schedule().rows(); ++row) {
    for (std::size_t node = 0; node < recorded.width(); ++node) {
      const double a = recorded.value(metric, row, node);
      const double b = replayed.value(metric, row, node);
      if (is_same(a, b)) continue;
      return fmt::format("{} of node {} after step {} is {}, {} was recorded", metric, node,
                         recorded.schedule().finished(row), b, a);
    }
  }
  return "";
}

/// The lines of a scenario that decide what its nodes do.
std::string decisive_lines(const std::string& scenario) {
  std::istringstream lines(scenario);
  std::string decisive;
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) section = line;
    const bool is_of_run =
        line.starts_with("steps =") || line.starts_with("until =") || line.starts_with("seed =");
    const bool is_expanded = section == "[network]" && line.starts_with("collectives =");
    if (section != "[reference]" && (section != "[run]" || is_of_run) && !is_expanded)
      decisive += line + '\n';
  }
  return decisive;
}

}  // namespace

std::string other_scenario(const Assembly& parts, const Recorder& recorded) {
  const std::string here = decisive_lines(Scenario::to_text(parts.described));
  const std::string there = decisive_lines(fact(recorded.facts, "scenario"));
  const std::string line = quoted_other_line(here, there, '"');
  const std::string recorded_line = quoted_other_line(there, here, '"');
  return line == recorded_line ? "" : fmt::format("{}, which was {}", line, recorded_line);
}

void check_for_replay(const Assembly& parts, const Recorder& recorded, const std::string& path) {
  if (recorded.acts.empty()) {
    throw Error(fmt::format(
        "{}: holds no order of events to replay: runs over MPI record it (run.record_order)",
        path));
  }
  if (!recorded.is_complete()) {
    const std::string status = fact(recorded.facts, "status");
    throw Error(fmt::format("{}: only a complete run can be replayed, this one: {}", path,
                            status.empty() ? "unknown" : status));
  }
  const auto refuse = [&](const std::string& what) {
    throw ScenarioError(fmt::format("{}: {}", parts.scenario_name, what));
  };
  if (std::ssize(recorded.acts) != parts.settings.nodes) {
    refuse(fmt::format("run.nodes must be {} as in the run that {} recorded, got {}",
                       recorded.acts.size(), path, parts.settings.nodes));
  }
  if (parts.settings.checkpoint.is_on()) {
    refuse("run.checkpoint must be never in a replay of a real run: its order comes from there");
  }
  if (parts.settings.until_target)
    refuse("run.until_target must be none in a replay of a real run: it ends where that ended");
  if (parts.failures) refuse("[failures] must not be there in a replay: nobody failed as recorded");
}

std::string describe_replay(const Recorder& recorded, const Recorder& replayed) {
  std::string losses = difference_of_losses(recorded.steps, replayed.steps);
  if (!losses.empty()) return losses;
  const auto& a = recorded.models;
  const auto& b = replayed.models;
  if (a.empty() || b.empty()) return "the same losses as recorded";
  for (std::size_t node = 0; node < std::min(a.size(), b.size()); ++node) {
    if (!is_same_model(a[node], b[node]))
      return fmt::format("the same losses, but another final model of node {}", node);
  }
  return "the same losses and models as recorded";
}

}  // namespace starling
