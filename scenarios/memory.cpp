#include "scenarios/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

namespace starling {
namespace {

constexpr std::size_t row_granularity = 16;  // floats: rows fill cache lines
constexpr double gibibyte = 1 << 30;
constexpr double node_bytes =
    3800;  // of program, mailbox, totals, recorded operations: measured at a million nodes

std::size_t row_floats(const WorkloadFacts& facts) {
  return (facts.parameters + row_granularity - 1) / row_granularity * row_granularity;
}

}  // namespace

double model_bytes(const RunSettings& settings, const WorkloadFacts& facts) {
  return 4.0 * static_cast<double>(row_floats(facts)) * settings.nodes;
}

std::string describe_memory(const RunSettings& settings, const WorkloadFacts& facts) {
  const double models = model_bytes(settings, facts);
  const double nodes = node_bytes * settings.nodes;
  const auto in_words = [](double bytes) {
    return bytes < 0.1 * gibibyte ? fmt::format("{:.4g} MB", bytes / 1e6)
                                  : fmt::format("{:.2f} GiB", bytes / gibibyte);
  };
  return fmt::format(
      "{} nodes * {} floats * 4 B = {} of models, and about {:.0f} B * {} = {} of all else: {}; as "
      "much again for each further model that nodes keep, or have in flight",
      settings.nodes, row_floats(facts), in_words(models), node_bytes, settings.nodes,
      in_words(nodes), in_words(models + nodes));
}

std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace starling
