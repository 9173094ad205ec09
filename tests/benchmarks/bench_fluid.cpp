// How long does the fluid network take? Fat trees (PGFT) of two and three levels with models of 100 MB at 12.5 GB/s and 0.5
// us per link, plain max-min sharing. Three exchanges: four random permutations at once (random 4-regular, all routes
// collide); the same four times, in which a node goes on when its own exchange is done; and ring neighbors ten times on a
// crossbar. Goals, one thread: 0.02 s and 0.1 s for N = 1024 and 4096; 0.05 s for the neighbors. Three ways:
//
//   bare      the network model by a driver without nodes
//   noted     the same, with the traffic of links noted
//   as used   D-PSGD as a scenario runs it: fibres, mailboxes, totals of nodes and links (the few pairs of nodes that two
//             permutations join exchange one model)
//
// Prints the processor time of the best of so many runs, with the simulated time, which must not change.
//
// Usage: bench_fluid [runs, default 5]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "scenarios/run.hpp"
#include "sim/base/processor_time.hpp"
#include "tests/network_models/exchange_run.hpp"
#include "topology/mixing.hpp"

namespace {

using namespace starling;

struct Exchange {
  const char* name;
  std::string fabric;  // keys of [network]
  std::string pattern;
  NodeId nodes;
  int rounds;
};

Assembly parts_of(const Exchange& exchange, double accuracy) {
  const std::string text = fmt::format(
      "[run]\nnodes = {}\nsteps = {}\n[topology]\nkind = complete\n[network]\nkind = fluid\n"
      "bandwidth = 12.5 GB/s\nlatency = 500 ns\naccuracy = {}\n{}[compute]\ngradient = 0 s\n"
      "[workload]\nkind = timing\nbytes = 100 MB\n[algorithm]\nkind = dpsgd\nlearning_rate = 0.1\n",
      exchange.nodes, exchange.rounds, accuracy, exchange.fabric);
  return assemble(Scenario::parse(text, "bench.ini"));
}

/// Who sends to whom, the same at every step.
std::unique_ptr<Topology> topology_of(const Exchange& exchange) {
  const auto scripts = network_test::exchange(exchange.pattern, exchange.nodes, 1, 1);
  std::set<std::pair<NodeId, NodeId>> pairs;
  for (NodeId i = 0; i < exchange.nodes; ++i) {
    for (const network_test::Post& post : scripts[static_cast<std::size_t>(i)][0].sends) {
      pairs.emplace(i, post.peer);
    }
  }
  std::vector<Topology::Arc> arcs;
  for (const auto& [from, to] : pairs) arcs.push_back({from, to, 0.01});
  return std::make_unique<Topology>(topologies::complete_rows(exchange.nodes, {arcs}));
}

struct Measured {
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<Time> finish;  // (nodes)
};

Measured bare(const Exchange& exchange, int runs, bool is_noted, double accuracy = 0) {
  Measured best;
  const auto scripts =
      network_test::exchange(exchange.pattern, exchange.nodes, exchange.rounds, 100'000'000);
  for (int r = 0; r < runs; ++r) {
    const Assembly parts = parts_of(exchange, accuracy);
    const double begin = thread_time();
    TimelineEnd timeline;
    NetworkLog log(timeline);
    if (is_noted) parts.network->watch(log);
    const network_test::ExchangeRun run(*parts.network, scripts);
    best.seconds = std::min(best.seconds, thread_time() - begin);
    best.finish = run.finish;
  }
  return best;
}

double as_used(const Exchange& exchange, int runs) {
  double best = std::numeric_limits<double>::infinity();
  for (int r = 0; r < runs; ++r) {
    Assembly parts = parts_of(exchange, 0);
    parts.topology = topology_of(exchange);
    const double begin = thread_time();
    Run::Hooks hooks;
    hooks.saves = false;
    Run run(std::move(parts), std::move(hooks));
    run.simulate();
    best = std::min(best, thread_time() - begin);
  }
  return best;
}

double mean(const std::vector<Time>& times) {
  double sum = 0;
  for (const Time time : times) sum += to_seconds(time);
  return sum / static_cast<double>(times.size());
}

void measure(const Exchange& exchange, int runs) {
  const Measured fast = bare(exchange, runs, false);
  const Measured noted = bare(exchange, runs, true);
  fmt::print("{:<28}{:>6}{:>10.4f}{:>10.4f}{:>10.4f}{:>16.9f}\n", exchange.name, exchange.nodes,
             fast.seconds, noted.seconds, as_used(exchange, runs), mean(fast.finish));
  std::fflush(stdout);
}

/// Largest and mean deviation of times of finish from the exact ones, as shares of these.
void compare(const std::vector<Time>& exact, const std::vector<Time>& found) {
  double largest = 0;
  double mean_off = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double off = std::abs(to_seconds(found[i]) / to_seconds(exact[i]) - 1);
    largest = std::max(largest, off);
    mean_off += off / static_cast<double>(exact.size());
  }
  fmt::print("    times of finish off by at most {:.4f} %, {:.4f} % in the mean\n", 100 * largest,
             100 * mean_off);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 5;
  fmt::print("{:<28}{:>6}{:>10}{:>10}{:>10}{:>16}\n", "exchange, seconds", "nodes", "bare", "noted",
             "as used", "mean finish [s]");
  const std::string two_levels = "fabric = fat_tree\nchildren = 32, 32\nparents = 1, 32\n";
  const std::string three_levels =
      "fabric = fat_tree\nchildren = 16, 16, 16\nparents = 1, 16, 16\n";
  measure({"fat tree, random 4-regular", two_levels, "perm4", 1024, 1}, runs);
  measure({"fat tree, random 4-regular", three_levels, "perm4", 4096, 1}, runs);
  measure({"the same x4, out of step", three_levels, "perm4", 4096, 4}, runs);
  measure({"crossbar, neighbors x10", "", "nbr_ring", 1024, 10}, runs);
  measure({"crossbar, neighbors x10", "", "nbr_ring", 4096, 10}, runs);
  // The worst case: ten rounds of random matchings, in which a node goes on when its own exchange is
  // done, over a dragonfly whose few global links all compete for.
  const Exchange worst = {
      "dragonfly, matchings x10",
      "fabric = dragonfly\nhosts_per_router = 8\nrouters = 8\nglobal_links = 8\ngroups = 64\n",
      "match", 4096, 10};
  const Measured exact = bare(worst, 1, false);
  fmt::print("{:<28}{:>6}{:>10.4f}{:>36.9f}\n", worst.name, worst.nodes, exact.seconds,
             mean(exact.finish));
  for (const double accuracy : {0.001, 0.003, 0.01}) {
    const Measured near = bare(worst, 1, false, accuracy);
    fmt::print("{:<28}{:>6}{:>10.4f}{:>36.9f}\n", fmt::format("  accuracy {}", accuracy),
               worst.nodes, near.seconds, mean(near.finish));
    compare(exact.finish, near.finish);
  }
}
