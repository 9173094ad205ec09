// Cost of the machinery, all included: scenario, engine, recorded graph, ring averaging, recording and results
// file. Prints node-steps per second for the cases of the issue, beside what the bare gradient kernel alone
// reaches in the same run on the same batches, and the time of the timing-only scenarios.
//
//   bench_node_steps [repetitions]        default 3; the best is printed, for the machine is shared

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "scenarios/run.hpp"
#include "tools/passive_waiting.hpp"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string ring_dpsgd(int steps, const std::string& workload) {
  return fmt::format(
      "[run]\nnodes = 256\nsteps = {0}\nrecord_every = {1}\nevaluate_every = {0}\noutput = "
      "/tmp/starling_bench.h5\n"
      "[topology]\nkind = ring\n[network]\nkind = constant\nlatency = 50 us\nbandwidth = 10 "
      "Gbit/s\n"
      "[compute]\ngradient = 4 ms\ndistribution = lognormal\nsigma = 0.1\n"
      "[workload]\nkind = mlp\ndataset = blobs\nsamples = 16384\n{2}\n[algorithm]\nkind = "
      "dpsgd\nlearning_rate = 0.02\n",
      steps, std::max(1, steps / 10), workload);
}

/// Node-steps per second of a whole run.
double whole_run(const std::string& text) {
  Run run(assemble(Scenario::parse(text, "bench.ini")), {});
  const auto begin = Clock::now();
  run.simulate();
  return static_cast<double>(run.assembly().settings.nodes) *
         static_cast<double>(run.assembly().settings.steps) / seconds_since(begin);
}

/// Gradients per second of the bare kernel, every node with its own model, nothing else.
double bare_kernel(const std::string& text) {
  const Assembly parts = assemble(Scenario::parse(text, "bench.ini"));
  const auto nodes = static_cast<std::size_t>(parts.settings.nodes);
  const std::size_t parameters = parts.workload->facts().parameters;
  std::vector<float> models(nodes * parameters);
  std::vector<float> gradients(nodes * parameters);
  std::vector<GradientRequest> requests(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    parts.workload->initial_model({&models[i * parameters], parameters});
    requests[i] = {.node = static_cast<NodeId>(i),
                   .x = &models[i * parameters],
                   .gradient = &gradients[i * parameters]};
  }
  const auto begin = Clock::now();
  std::size_t done = 0;
  for (Step draw = 0; seconds_since(begin) < 1.0; ++draw) {
    for (GradientRequest& request : requests) request.draw = draw;
    parts.workload->gradients(requests);
    done += nodes;
  }
  return static_cast<double>(done) / seconds_since(begin);
}

void compare(const char* name, const std::string& text, double goal, int repetitions) {
  double bare = 0;
  double whole = 0;
  for (int r = 0; r < repetitions; ++r) {
    bare = std::max(bare, bare_kernel(text));
    whole = std::max(whole, whole_run(text));
  }
  fmt::print(
      "{:<34}{:>12.0f} node-steps/s (goal {:.0f}); bare gradients {:.0f}/s; share {:.0f} %\n", name,
      whole, goal, bare, 100 * whole / bare);
  std::fflush(stdout);
}

void timing_only(const char* collectives, double goal) {
  const std::string text = fmt::format(
      "[run]\nnodes = 1024\nsteps = 1000\noutput = /tmp/starling_bench.h5\n[topology]\nkind = "
      "ring\n"
      "[network]\nkind = loggp\npreset = aries\ncollectives = {}\n"
      "[compute]\ngradient = 600 ms\ndistribution = lognormal\nsigma = 0.1\n"
      "[workload]\nkind = timing\nmodel = resnet50\n[algorithm]\nkind = wagma\nlearning_rate = "
      "0.1\n",
      collectives);
  Run run(assemble(Scenario::parse(text, "bench.ini")), {});
  const auto begin = Clock::now();
  run.simulate();
  fmt::print("WAGMA, 1,024 nodes, 1,000 steps, {:<9}{:>8.2f} s (goal {:.0f} s), {:.1f} M events\n",
             collectives, seconds_since(begin), goal,
             run.recorder().statistics.at("engine.events") / 1e6);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  wait_passively(words);
  const int repetitions = count > 1 ? std::max(1, std::atoi(words[1])) : 3;
  fmt::print("{} threads, ring D-PSGD, 256 nodes\n", omp_get_max_threads());
  compare("MLP 64-32-10, batch 16", ring_dpsgd(1000, "features = 64\nhidden = 32\nbatch_size = 16"),
          150'000, repetitions);
  compare("MLP 784-128-64-10, batch 32",
          ring_dpsgd(40, "features = 784\nhidden = 128, 64\nbatch_size = 32"), 4'000, repetitions);
  timing_only("expanded", 60);
  timing_only("analytic", 5);
}
