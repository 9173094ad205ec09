// What a calibration says: the sections of a scenario, and how far to believe them.
#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/calibrate.hpp"
#include "sim/base/units.hpp"

namespace starling {
namespace {

constexpr double most_scatter = 3;  // quartiles of quiet machines lie less than twice apart

/// Four digits are more than was measured.
std::string duration_text(double seconds) {
  return to_text(from_seconds(std::stod(fmt::format("{:.3e}", std::max(seconds, 0.0)))));
}

std::string bandwidth_text(double seconds_per_byte) {
  return fmt::format("{:.4g} GB/s", 1e-9 / std::max(seconds_per_byte, 1e-15));
}

}  // namespace

std::vector<std::string> Calibration::doubts() const {
  std::vector<std::string> sentences;
  const auto look = [&](const char* where, const std::optional<LinkFigures>& figures) {
    if (!figures || figures->worst.scatter() < most_scatter) return;
    const Rounds& worst = figures->worst;
    sentences.push_back(
        fmt::format("the figures {} are too noisy to be believed: of the rounds that moved {} B a "
                    "quarter took less than {}, and a "
                    "quarter more than {}; measure again while nothing else runs",
                    where, worst.bytes, duration_text(worst.lower), duration_text(worst.upper)));
  };
  look("within a host", within);
  look("between hosts", between);
  for (int rank = 0; within && rank < ranks; ++rank) {
    if (host_of[static_cast<std::size_t>(rank)] == rank / nodes_per_host()) continue;
    sentences.push_back(fmt::format(
        "the ranks were on hosts {}, which nodes_per_host = {} cannot say: nodes are on "
        "other hosts than the ranks were; start as many ranks on each host, one host after the "
        "other (mpirun --map-by slot)",
        fmt::join(host_of, " "), nodes_per_host()));
    break;
  }
  return sentences;
}

std::string to_scenario_text(const Calibration& c, bool over_tcp) {
  const auto list = [](const char* where, const LinkFigures& f) {
    return fmt::format("#   {:<14} L {}, o {}, g {}, 1/G {}; {} to a rank that is awake\n", where,
                       duration_text(f.latency), duration_text(f.overhead), duration_text(f.gap),
                       bandwidth_text(f.gap_per_byte), duration_text(f.awake));
  };
  std::string text = fmt::format("{}: {} ranks on {} host{}.\n", calibration_head, c.ranks, c.hosts,
                                 c.hosts == 1 ? "" : "s");
  if (c.within) text += list("within a host", *c.within);
  if (c.between) text += list("between hosts", *c.between);
  for (const std::string& doubt : c.doubts()) text += fmt::format("# Beware: {}.\n", doubt);
  if (!c.between) {
    text +=
        "# No link between hosts was measured: that of nodes on several hosts is as within one.\n";
  }
  const LinkFigures& link = c.between ? *c.between : *c.within;
  text += fmt::format("[network]\nkind = {}\nfabric = crossbar\n", over_tcp ? "tcp" : "fluid");
  // A message crosses two links of a crossbar.
  text += fmt::format("latency = {}\n", duration_text(0.5 * (link.latency + 2 * link.overhead)));
  text += fmt::format("bandwidth = {}\n", bandwidth_text(link.gap_per_byte));
  // What was measured is of whole messages of MPI: slow start, headers and windows are in it.
  if (over_tcp) text += "latency_factor = 1\nbandwidth_factor = 1\nwindow = 0 B\n";
  text += "concurrent = no\n";            // MPI has one connection per pair of ranks
  text += "blocking_collectives = no\n";  // Starling's processes go on meanwhile
  if (c.within) {
    text += fmt::format("nodes_per_host = {}\n", c.nodes_per_host());
    text += fmt::format("local_latency = {}\n",
                        duration_text(c.within->latency + 2 * c.within->overhead));
    text += fmt::format("local_bandwidth = {}\n", bandwidth_text(c.within->shared_per_byte));
  }
  if (c.gradients.empty()) return text;
  double sum = 0, logs = 0, squares = 0;
  const auto count = static_cast<double>(c.gradients.size());
  for (const double seconds : c.gradients) {
    sum += seconds;
    logs += std::log(seconds);
  }
  for (const double seconds : c.gradients) squares += std::pow(std::log(seconds) - logs / count, 2);
  text += fmt::format("\n[compute]\ngradient = {}\ndistribution = lognormal\nsigma = {:.3g}\n",
                      duration_text(sum / count), std::sqrt(squares / count));
  return text;
}

}  // namespace starling
