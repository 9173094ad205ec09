#include "tools/summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace starling {
namespace {

void add(std::string& text, std::string_view what, const std::string& value) {
  text += fmt::format("  {:<36}{}\n", what, value);
}

/// Last value of an evaluation metric that is known.
double last(const Table& table, std::string_view metric) {
  for (std::size_t row = table.rows(metric); row-- > 0;) {
    const double value = table.value(metric, row);
    if (!std::isnan(value)) return value;
  }
  return std::nan("");
}

std::string fact(const Recorder& recorder, const std::string& name) {
  const auto found = recorder.facts.find(name);
  return found == recorder.facts.end() ? std::string() : found->second;
}

}  // namespace

std::string summarize(const Recorder& recorder) {
  std::string text;
  std::int64_t steps = 0;
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  Time end{};
  double compute = 0;
  double wait = 0;
  double communicate = 0;
  for (const NodeTotals& node : recorder.nodes) {
    steps += node.steps;
    messages += node.messages_sent;
    bytes += node.bytes_sent;
    end = std::max(end, node.finished);
    compute += to_seconds(node.compute);
    wait += to_seconds(node.wait);
    communicate += to_seconds(node.communicate);
  }
  const double accuracy = last(recorder.evaluation, "test_accuracy");
  const double area = last(recorder.evaluation, "test_auc");
  const double loss = last(recorder.evaluation, "test_loss");
  const double distance = last(recorder.evaluation, "consensus_distance");
  if (!std::isnan(accuracy))
    add(text, "test accuracy of the mean model", fmt::format("{:.2f} %", 100 * accuracy));
  if (!std::isnan(area)) add(text, "test AUC of the mean model", fmt::format("{:.4f}", area));
  if (!std::isnan(loss)) add(text, "test loss of the mean model", fmt::format("{:.4g}", loss));
  if (!std::isnan(distance)) add(text, "consensus distance", fmt::format("{:.4g}", distance));

  const double seconds = to_seconds(end);
  const double batch =
      std::max(1.0, std::strtod(fact(recorder, "samples_per_step").c_str(), nullptr));
  const char* clock = fact(recorder, "transport") == "mpi" ? "wall time" : "virtual time";
  add(text, clock, fmt::format("{:.4g} s", seconds));
  if (seconds > 0) {
    add(text, "throughput",
        fmt::format("{:.4g} samples/s, {:.4g} steps/s of all nodes",
                    static_cast<double>(steps) * batch / seconds,
                    static_cast<double>(steps) / seconds));
  }
  const double all = compute + wait + communicate;
  if (all > 0) {
    add(text, "nodes compute / wait / communicate",
        fmt::format("{:.1f} % / {:.1f} % / {:.1f} % of their time", 100 * compute / all,
                    100 * wait / all, 100 * communicate / all));
  }
  if (steps > 0) {
    add(text, "messages",
        fmt::format("{:.4g} per step of a node, {:.4g} MB",
                    static_cast<double>(messages) / static_cast<double>(steps),
                    static_cast<double>(bytes) / static_cast<double>(steps) / 1e6));
  }
  return text;
}

}  // namespace starling
