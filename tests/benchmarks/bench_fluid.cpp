// How long does the fluid network take, in real time? Fat trees (PGFT) of two and three levels with
// models of 100 MB at 12.5 GB/s and 0.5 us per link, plain max-min sharing. Two exchanges: four
// random permutations at once (random 4-regular, all routes collide), and ring neighbors ten times
// on a crossbar. Goals, one thread: 0.02 s and 0.1 s for N = 1024 and 4096; 0.05 s for the
// neighbors. Prints the best of so many runs, with the simulated time, which must not change.
//
// Usage: bench_fluid [runs, default 5]

#include <algorithm>
#include <chrono>
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

void measure(const char* name, const std::function<Fabric()>& fabric, const std::string& pattern,
             NodeId nodes, int rounds, int runs) {
  double best = 1e30;
  double simulated = 0;
  std::size_t messages = 0;
  for (int r = 0; r < runs; ++r) {
    const auto scripts = starling::network_test::exchange(pattern, nodes, rounds, 100'000'000);
    const auto begin = std::chrono::steady_clock::now();
    starling::network_models::Fluid network(fabric(), nodes, {}, false);
    const starling::network_test::ExchangeRun run(network, scripts);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
    simulated = run.mean_finish();
    messages = run.messages();
  }
  std::printf("%-28s %6d %10zu %10.4f %12.0f %16.9f\n", name, nodes, messages, best,
              static_cast<double>(messages) / best, simulated);
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
  for (const NodeId nodes : {1024, 4096}) {
    const auto flat = [&] { return starling::network_models::crossbar(nodes, link()); };
    measure("crossbar, neighbors x10", flat, "nbr_ring", nodes, 10, runs);
  }
  return 0;
}
