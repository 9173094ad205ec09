// How long does the fluid network take, in real time? Fat trees (PGFT) of two and three levels with
// models of 100 MB at 12.5 GB/s and 0.5 us per link, plain max-min sharing. Two exchanges: four
// random permutations at once (random 4-regular, all routes collide), and ring neighbors ten times
// on a crossbar. Goals, one thread: 0.02 s and 0.1 s for N = 1024 and 4096; 0.05 s for the
// neighbors. Prints the best of so many runs, with the simulated time, which must not change.
//
// Usage: bench_fluid [runs, default 5]

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "network_models/fabrics.hpp"
#include "network_models/fluid.hpp"
#include "tests/network_models/exchange_run.hpp"

namespace {

using starling::NodeId;
using starling::network_models::Fabric;

starling::network_models::Link link() { return {12.5e9, starling::Duration{500'000}}; }

Fabric tree(std::vector<NodeId> children, std::vector<NodeId> parents) {
  const std::vector<NodeId> cables(children.size(), 1);
  return starling::network_models::fat_tree({std::move(children), std::move(parents), cables},
                                            link());
}

struct Options {
  double accuracy = 0;
  bool is_watched = false;
};

/// Returns the times of finish, by node.
std::vector<starling::Time> measure(const char* name, const std::function<Fabric()>& fabric,
                                    const std::string& pattern, NodeId nodes, int rounds, int runs,
                                    Options options = {}) {
  double best = 1e30;
  double simulated = 0;
  std::size_t messages = 0;
  std::vector<starling::Time> finish;
  for (int r = 0; r < runs; ++r) {
    const auto scripts = starling::network_test::exchange(pattern, nodes, rounds, 100'000'000);
    const auto begin = std::chrono::steady_clock::now();
    starling::network_models::Fluid network(fabric(), nodes, {}, {.accuracy = options.accuracy});
    starling::NetworkLog log{starling::Time{}};
    if (options.is_watched) network.watch(log);
    const starling::network_test::ExchangeRun run(network, scripts);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
    simulated = run.mean_finish();
    messages = run.messages();
    finish = run.finish;
  }
  std::printf("%-28s %6d %10zu %10.4f %12.0f %16.9f\n", name, nodes, messages, best,
              static_cast<double>(messages) / best, simulated);
  std::fflush(stdout);
  return finish;
}

/// Largest and mean deviation of times of finish from the exact ones, as shares of these.
void compare(const std::vector<starling::Time>& exact, const std::vector<starling::Time>& found) {
  double largest = 0;
  double mean = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double off = std::abs(to_seconds(found[i]) / to_seconds(exact[i]) - 1);
    largest = std::max(largest, off);
    mean += off / static_cast<double>(exact.size());
  }
  std::printf("    times of finish off by at most %.4f %%, %.4f %% in the mean\n", 100 * largest,
              100 * mean);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 5;
  std::printf("%-28s %6s %10s %10s %12s %16s\n", "exchange", "nodes", "messages", "real [s]",
              "messages/s", "mean finish [s]");
  const auto two_levels = [] { return tree({32, 32}, {1, 32}); };
  const auto three_levels = [] { return tree({16, 16, 16}, {1, 16, 16}); };
  measure("fat tree, random 4-regular", two_levels, "perm4", 1024, 1, runs);
  measure("fat tree, random 4-regular", three_levels, "perm4", 4096, 1, runs);
  measure("  links noted", three_levels, "perm4", 4096, 1, runs, {.is_watched = true});
  for (const NodeId nodes : {1024, 4096}) {
    const auto flat = [&] { return starling::network_models::crossbar(nodes, link()); };
    measure("crossbar, neighbors x10", flat, "nbr_ring", nodes, 10, runs);
    measure("  links noted", flat, "nbr_ring", nodes, 10, runs, {.is_watched = true});
  }
  // The worst case: ten rounds of random matchings, in which a node goes on when its own exchange is
  // done, over a dragonfly whose few global links all compete for.
  const auto fly = [] { return starling::network_models::dragonfly({8, 8, 8, 64}, link()); };
  const auto exact = measure("dragonfly, matchings x10", fly, "match", 4096, 10, 1);
  for (const double accuracy : {0.001, 0.003, 0.01}) {
    char name[40];
    std::snprintf(name, sizeof name, "  accuracy %g", accuracy);
    compare(exact, measure(name, fly, "match", 4096, 10, 1, {.accuracy = accuracy}));
  }
  return 0;
}
