// starling describe: a scenario with every default filled in, and what can be said of the run without running it.

#include <algorithm>

#include <boost/program_options.hpp>
#include <fmt/core.h>

#include "algorithms/exchange.hpp"
#include "scenarios/assemble.hpp"
#include "scenarios/memory.hpp"
#include "tools/arguments.hpp"
#include "tools/execute_run.hpp"
#include "topology/mixing.hpp"
#include "topology/spectrum.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

constexpr std::size_t most_arcs_for_spectrum = 4'000'000;

void line(std::string_view what, const std::string& value) {
  fmt::print("#   {:<24}{}\n", what, value);
}

void describe_topology(const Topology& topology) {
  std::size_t least = static_cast<std::size_t>(topology.nodes());
  std::size_t most = 0;
  for (NodeId i = 0; i < topology.nodes(); ++i) {
    for (std::size_t p = 0; p < topology.period(); ++p) {
      const std::size_t degree = topology.out(i, static_cast<Step>(p)).size();
      least = std::min(least, degree);
      most = std::max(most, degree);
    }
  }
  line("topology",
       fmt::format("{} node{}, {} arc{} in {} phase{}, out-degree {}", topology.nodes(),
                   topology.nodes() == 1 ? "" : "s", topology.arc_count(),
                   topology.arc_count() == 1 ? "" : "s", topology.period(),
                   topology.period() == 1 ? "" : "s",
                   least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most)));
  const bool is_doubly_stochastic = topologies::is_doubly_stochastic(topology);
  line("mixing weights", is_doubly_stochastic                      ? "doubly stochastic"
                         : topologies::is_row_stochastic(topology) ? "row-stochastic"
                         : algorithms::has_unit_columns(topology)
                             ? "rows and columns sum to one, some weights are negative"
                             : "neither rows nor columns sum to one");
  if (topology.is_complete() || topology.arc_count() <= most_arcs_for_spectrum) {
    const topologies::SpectralGap spectrum = topologies::spectral_gap(topology);
    line("spectral gap",
         fmt::format("{}{:.6g} per period of {} phase{}{}{}", spectrum.converged ? "" : "at most ",
                     spectrum.gap, topology.period(), topology.period() == 1 ? "" : "s",
                     is_doubly_stochastic ? "" : ", the worst of all models",
                     topology.period() == 1 ? ""
                                            : fmt::format("; in the long run {:.3g} per phase",
                                                          topologies::long_run_gap(topology))));
  }
}

/// "205 to 206 samples": what all nodes have, or the least and the most.
template <class Number>
std::string range_of(const std::vector<Number>& counts, std::string_view what) {
  const auto [least, most] = std::ranges::minmax(counts);
  const std::string from = least == most ? "" : fmt::format("{} to ", least);
  return fmt::format("{}{} {}{}", from, most, what, most == 1 ? "" : "s");
}

/// How training samples are dealt, where there is something to deal.
void describe_data(const Workload& workload) {
  const WorkloadFacts& facts = workload.facts();
  if (facts.samples.empty() || std::ranges::max(facts.samples) <= 1) return;
  const std::vector<std::int32_t> labels = workload.labels();
  const std::string with = labels.empty() ? "" : fmt::format(" with {}", range_of(labels, "label"));
  line("data of a node", range_of(facts.samples, "sample") + with);
}

void describe_model(const Assembly& parts) {
  const WorkloadFacts& facts = parts.workload->facts();
  line("workload", facts.description);
  describe_data(*parts.workload);
  line("parameters", fmt::format("{} ({} on the network)",
                                 facts.has_numbers ? static_cast<std::int64_t>(facts.parameters)
                                                   : facts.wire_parameters,
                                 to_text(Bytes{4 * facts.wire_parameters})));
  line("memory", describe_memory(parts.settings, facts));
}

}  // namespace

void describe_command(const Arguments& arguments) {
  po::options_description options("options");
  po::variables_map values;
  if (!parse_arguments(arguments, "describe",
                       "starling describe SCENARIO.ini|RESULTS.h5 [section.key=value ...]", options,
                       values))
    return;
  const Assembly parts = assemble(read_scenario(values["words"].as<std::vector<std::string>>()));
  warn_of_settings(parts);
  fmt::print("{}\n# {}\n", Scenario::to_text(parts.described), parts.scenario_name);
  if (parts.reads_topology) {
    describe_topology(*parts.topology);
  } else {
    line("topology", fmt::format("not read by {}", parts.algorithm));
  }
  describe_model(parts);
  const LinkCost link = parts.network->link_cost();
  const WorkloadFacts& facts = parts.workload->facts();
  const double model_bytes = 4.0 * static_cast<double>(facts.wire_parameters);
  const double whole = link.seconds(model_bytes);
  const std::string busy =
      link.busy_seconds_per_byte > 0
          ? fmt::format(", {:.4g} more where the receiver sends as much meanwhile",
                        link.busy_seconds_per_byte * 1e9)
          : "";
  line("message",
       fmt::format("{} + {:.4g} ns per byte between a typical pair{}; a whole model {}",
                   to_text(link.latency), link.seconds_per_byte * 1e9, busy,
                   whole < to_seconds(Duration::max()) ? to_text(from_seconds(whole))
                                                       : fmt::format("{:.4g} s", whole)));
  line("gradient",
       fmt::format("{} on the mean, the first one of {} {}s", to_text(parts.compute_time->mean()),
                   parts.workload->batch_cost(0, 0), facts.cost_unit));
  line("work", fmt::format("{} steps on {} nodes = {:.0f} gradients", parts.settings.steps,
                           parts.settings.nodes,
                           static_cast<double>(parts.settings.steps) * parts.settings.nodes));
}

}  // namespace starling
