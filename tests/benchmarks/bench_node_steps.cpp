// How fast does a node step, and how far from what the machine can do? One run prints, beside the machine's peak of
// fused multiply-adds and its memory bandwidth, with a model per node:
//   step        gather the batch, forward, backward, update in place: the kernels alone
//   averaging   the same with the mean of three neighboring models, through gradient rows, and folded
//   end to end  ring D-PSGD through scenario, engine, recorded graph and results file, beside that bare loop
//   rows        the mean of two rows in place; mixing of eight neighbors
// and the time of two timing-only runs. Times are the best of many short slices (measure.hpp); end to end,
// whose runs cannot be sliced, is the best of several runs, each beside a bare loop that is measured as a whole, too.
//
//   bench_node_steps [nodes] [seconds per figure] [runs end to end] [cases, such as AB, or rows]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <omp.h>

#include "kernels/cpu_backend.hpp"
#include "scenarios/run.hpp"
#include "sim/base/memory.hpp"
#include "sim/base/processor_time.hpp"
#include "sim/base/random.hpp"
#include "tests/benchmarks/measure.hpp"
#include "tools/passive_waiting.hpp"

namespace {

using namespace starling;
using namespace starling::bench;

struct Case {
  const char* name;
  const char* workload;  // keys
  std::vector<std::size_t> widths;
  std::int64_t batch;
  double goal;          // share of peak
  std::size_t slice;    // nodes
  int steps;            // of a run end to end
  std::size_t divisor;  // of the number of nodes

  /// Multiplications and additions of a step; the first layer needs no gradient of its input.
  double flops() const {
    double products = 0;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      products += static_cast<double>(widths[l] * widths[l + 1]) * (l == 0 ? 2 : 3);
    }
    return 2 * products * static_cast<double>(batch);
  }
};

const Case cases[] = {
    {"A",
     "features = 784\nhidden = 128, 64\nbatch_size = 32",
     {784, 128, 64, 10},
     32,
     0.70,
     4,
     40,
     1},
    {"B", "features = 64\nhidden = 32\nbatch_size = 16", {64, 32, 10}, 16, 0.45, 32, 1200, 1},
    {"C",
     "features = 784\nhidden = 1024, 1024\nbatch_size = 64",
     {784, 1024, 1024, 10},
     64,
     0.75,
     1,
     40,
     16}};

std::string scenario_of(const Case& which, std::size_t nodes) {
  return fmt::format(
      "[run]\nnodes = {}\nsteps = {}\nrecord_every = {}\nevaluate_every = {}\noutput = "
      "/tmp/starling_bench.h5\n"
      "[topology]\nkind = ring\n[network]\nkind = constant\nlatency = 50 us\nbandwidth = 10 "
      "Gbit/s\n"
      "[compute]\ngradient = 4 ms\ndistribution = lognormal\nsigma = 0.1\n"
      "[workload]\nkind = mlp\ndataset = blobs\nsamples = 16384\n{}\n[algorithm]\nkind = "
      "dpsgd\nlearning_rate = 0.02\n",
      nodes, std::max(1, which.steps), std::max(1, which.steps / 10), std::max(1, which.steps),
      which.workload);
}

/// Models of all nodes in rows, and steps of them without any machinery.
class BareLoop {
 public:
  BareLoop(const Case& which, std::size_t nodes, bool averages)
      : parts_(assemble(Scenario::parse(scenario_of(which, nodes), "bench.ini"))),
        nodes_(nodes),
        slice_(which.slice),
        parameters_(parts_.workload->facts().parameters),
        row_((parameters_ + 15) / 16 * 16),
        copies_(averages ? 3 : 1) {
    memory_ = backend_.allocate(copies_ * nodes * row_);
    models_ = memory_;
    next_ = memory_ + (copies_ > 1 ? nodes * row_ : 0);
    gradients_ = memory_ + (copies_ > 1 ? 2 * nodes * row_ : 0);
#pragma omp parallel for schedule(static)
    for (std::size_t n = 0; n < nodes; ++n) {
      std::fill_n(next_ + n * row_, row_, 0.0F);
      std::fill_n(gradients_ + n * row_, row_, 0.0F);
      parts_.workload->initial_model({models_ + n * row_, parameters_});
    }
  }
  BareLoop(const BareLoop&) = delete;
  BareLoop& operator=(const BareLoop&) = delete;
  ~BareLoop() { backend_.release(memory_, copies_ * nodes_ * row_); }

  /// x <- x - 0.02 g, in place.
  double steps(double budget) {
    return rate(
        budget, [this](std::size_t first, std::size_t last) { step(first, last); }, [] {});
  }
  /// next <- (x + left + right) / 3 - 0.02 g, with gradients in rows.
  double averaging_steps(double budget) {
    return rate(
        budget,
        [this](std::size_t first, std::size_t last) {
          store_gradients(first, last);
          average(first, last);
        },
        [this] { std::swap(models_, next_); });
  }
  double folded_averaging_steps(double budget) {
    return rate(
        budget, [this](std::size_t first, std::size_t last) { fold(first, last); },
        [this] { std::swap(models_, next_); });
  }
  /// The same in one batch per round, as a whole.
  double whole_rounds(double budget) {
    std::size_t rounds = 0;
    const auto begin = Clock::now();
    for (; rounds == 0 || seconds_since(begin) < budget; ++rounds) {
      fold(0, nodes_);
      std::swap(models_, next_);
      ++draw_;
    }
    return static_cast<double>(rounds * nodes_) / seconds_since(begin);
  }

 private:
  template <class Task, class Between>
  double rate(double budget, const Task& task, const Between& between) {
    return static_cast<double>(nodes_) / best_seconds(budget, nodes_, slice_, task, [&] {
             between();
             ++draw_;
           });
  }
  void request_all(std::size_t first, std::size_t last, std::vector<GradientRequest>& requests) {
    requests.assign(last - first, {});
    for (std::size_t n = first; n < last; ++n) {
      requests[n - first] = {
          .node = static_cast<NodeId>(n), .draw = draw_, .x = models_ + n * row_};
    }
  }
  void step(std::size_t first, std::size_t last) {
    thread_local std::vector<GradientRequest> requests;
    thread_local std::vector<LinearTerm> terms;
    thread_local std::vector<LinearJob> jobs;
    request_all(first, last, requests);
    jobs.clear();
    terms.clear();
    for (std::size_t n = first; n < last; ++n) {
      jobs.push_back({models_ + n * row_, static_cast<std::uint32_t>(parameters_),
                      static_cast<std::uint32_t>(terms.size()), 2});
      terms.push_back({models_ + n * row_, 1.0F});
      terms.push_back({nullptr, -0.02F});
    }
    run(requests, jobs, terms);
  }
  void fold(std::size_t first, std::size_t last) {
    thread_local std::vector<GradientRequest> requests;
    thread_local std::vector<LinearTerm> terms;
    thread_local std::vector<LinearJob> jobs;
    request_all(first, last, requests);
    list_averages(first, last, jobs, terms, nullptr);
    run(requests, jobs, terms);
  }
  void run(std::vector<GradientRequest>& requests, const std::vector<LinearJob>& jobs,
           const std::vector<LinearTerm>& terms) {
    for (std::size_t r = 0; r < requests.size(); ++r) {
      requests[r].sums = {jobs.data() + r, 1};
      requests[r].terms = terms.data();
    }
    parts_.workload->gradients(requests);
  }
  void store_gradients(std::size_t first, std::size_t last) {
    thread_local std::vector<GradientRequest> requests;
    request_all(first, last, requests);
    for (std::size_t n = first; n < last; ++n) {
      requests[n - first].gradient = gradients_ + n * row_;
    }
    parts_.workload->gradients(requests);
  }
  void average(std::size_t first, std::size_t last) {
    thread_local std::vector<LinearTerm> terms;
    thread_local std::vector<LinearJob> jobs;
    list_averages(first, last, jobs, terms, gradients_);
    backend_.linear(jobs, terms);
  }
  void list_averages(std::size_t first, std::size_t last, std::vector<LinearJob>& jobs,
                     std::vector<LinearTerm>& terms, const float* gradients) {
    jobs.clear();
    terms.clear();
    for (std::size_t n = first; n < last; ++n) {
      jobs.push_back({next_ + n * row_, static_cast<std::uint32_t>(parameters_),
                      static_cast<std::uint32_t>(terms.size()), 4});
      terms.push_back({models_ + n * row_, 1 / 3.0F});
      terms.push_back({models_ + (n + nodes_ - 1) % nodes_ * row_, 1 / 3.0F});
      terms.push_back({models_ + (n + 1) % nodes_ * row_, 1 / 3.0F});
      terms.push_back({gradients == nullptr ? nullptr : gradients + n * row_, -0.02F});
    }
  }

  Assembly parts_;
  CpuBackend backend_;
  std::size_t nodes_, slice_, parameters_, row_, copies_;
  float* memory_;
  float *models_, *next_, *gradients_;
  Step draw_ = 0;
};

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:5.1f} %", 100 * part / whole) : "    -  ";
}

/// Rates of the bare loop with averaging, for the comparison end to end.
void measure_kernels(const Case& which, std::size_t nodes, double budget, double peak) {
  const double flops = which.flops();
  const double rate = BareLoop(which, nodes, false).steps(budget);
  fmt::print("{} step                {:>5} nodes {:>10.0f}/s  {} of peak (goal {:.0f} %)\n",
             which.name, nodes, rate, share(rate * flops, peak), 100 * which.goal);
  std::fflush(stdout);
  BareLoop loop(which, nodes, true);
  const double rows = loop.averaging_steps(budget);
  const double folded = loop.folded_averaging_steps(budget);
  fmt::print(
      "{} with averaging      {:>5} nodes {:>10.0f}/s  {} of peak; through gradient rows "
      "{:.0f}/s\n",
      which.name, nodes, folded, share(folded * flops, peak), rows);
  std::fflush(stdout);
}

/// Best rate, and least processor time of a node-step, over several measurements.
struct Best {
  double rate = 0;
  double processor = std::numeric_limits<double>::infinity();

  template <class Task>  // returns node-steps per second and how many there were
  void add(const Task& task) {
    const double before = process_time();
    const auto [rate_now, count] = task();
    rate = std::max(rate, rate_now);
    processor = std::min(processor, (process_time() - before) / count);
  }
};

void measure_end_to_end(const Case& which, std::size_t nodes, double budget, int runs) {
  Best bare, whole;
  const std::string text = scenario_of(which, nodes);
  for (int r = 0; r < runs; ++r) {
    {
      BareLoop loop(which, nodes, true);
      loop.whole_rounds(0);
      bare.add([&] {
        const auto begin = Clock::now();
        const double rate = loop.whole_rounds(budget);
        return std::pair(rate, rate * seconds_since(begin));
      });
    }
    Run run(assemble(Scenario::parse(text, "bench.ini")), {});
    whole.add([&] {
      const auto begin = Clock::now();
      run.simulate();
      const double steps = static_cast<double>(nodes) * which.steps;
      return std::pair(steps / seconds_since(begin), steps);
    });
  }
  fmt::print(
      "{} end to end          {:>5} nodes {:>10.0f}/s  {} of the bare loop's {:.0f}/s (goal 80 %); "
      "of processor time {}: {:.2f} of {:.2f} us\n",
      which.name, nodes, whole.rate, share(whole.rate, bare.rate), bare.rate,
      share(bare.processor, whole.processor), 1e6 * bare.processor, 1e6 * whole.processor);
  std::fflush(stdout);
}

/// Means over rows of case A's length.
void measure_rows(std::size_t nodes, double budget, double stream) {
  constexpr std::size_t row = 109'392;
  constexpr std::size_t degree = 8;
  CpuBackend backend;
  float* memory = backend.allocate(2 * nodes * row);
  std::fill_n(memory, 2 * nodes * row, 1.0F);
  const double bytes = sizeof(float) * row * static_cast<double>(nodes);
  const auto job = [](float* out, std::size_t first, std::size_t terms) {
    return LinearJob{out, row, static_cast<std::uint32_t>(first),
                     static_cast<std::uint32_t>(terms)};
  };

  const double pairs = best_seconds(
      budget, nodes / 2, 1,
      [&](std::size_t pair, std::size_t) {
        float* a = memory + 2 * pair * row;
        const LinearTerm terms[] = {{a, 0.5F}, {a + row, 0.5F}};
        const LinearJob jobs[] = {job(a, 0, 2)};
        backend.linear(jobs, terms);
      },
      [] {});
  const double moved = 1.5 * bytes;  // of two rows, both read and one written: both nodes have it
  fmt::print(
      "mean of two rows      {:>5} rows  {:>10.1f} GB/s {} of stream (goal 95 %); {} if both were "
      "written, too\n",
      nodes, moved / pairs / 1e9, share(moved / pairs, stream), share(2 * bytes / pairs, stream));

  std::vector<LinearJob> jobs;
  std::vector<LinearTerm> terms;
  Random random(1, "bench");
  for (std::size_t n = 0; n < nodes; ++n) {
    jobs.push_back(job(memory + (nodes + n) * row, terms.size(), degree + 1));
    terms.push_back({memory + n * row, 1.0F / (degree + 1)});
    for (std::size_t d = 0; d < degree; ++d) {
      terms.push_back({memory + random.below(nodes) * row, 1.0F / (degree + 1)});
    }
  }
  double mixing = std::numeric_limits<double>::infinity();
  const auto begin = Clock::now();
  for (int round = 0; round < 4 || seconds_since(begin) < budget; ++round) {
    const auto start = Clock::now();
    backend.linear(jobs, terms);
    if (round > 0) mixing = std::min(mixing, seconds_since(start));
  }
  fmt::print(
      "mixing of 8 neighbors {:>5} rows  {:>10.1f} ms   {:.2f} times its 2 rows at stream speed "
      "(goal 3)\n",
      nodes, 1e3 * mixing, mixing / (2 * bytes / stream));
  std::fflush(stdout);
  backend.release(memory, 2 * nodes * row);
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

std::string load() {
  std::string line = "not known";
  std::ifstream file("/proc/loadavg");
  std::getline(file, line);
  return line;
}

}  // namespace

int main(int count, char** words) {
  wait_passively(words);
  keep_freed_memory();
  const std::size_t nodes = count > 1 ? std::strtoul(words[1], nullptr, 10) : 1024;
  const double budget = count > 2 ? std::strtod(words[2], nullptr) : 1.0;
  const int runs = count > 3 ? std::max(0, std::atoi(words[3])) : 3;
  const std::string wanted = count > 4 ? words[4] : "ABC";
  const auto is_wanted = [&wanted](const Case& which) {
    return wanted.find(which.name) != wanted.npos;
  };
  const int all = omp_get_max_threads();
  fmt::print("kernels {}, load of the machine {}\n", dense::kernels().name, load());
  double stream = 0;
  for (int threads = 1; threads <= all; threads = threads < all ? all : all + 1) {
    omp_set_num_threads(threads);
    const double peak = peak_flops(budget);
    stream = stream_bandwidth(budget);
    fmt::print("{} threads: FMA peak {:.0f} Gflop/s, stream {:.1f} GB/s\n", threads, peak / 1e9,
               stream / 1e9);
    for (const Case& which : cases) {
      if (!is_wanted(which)) continue;
      measure_kernels(which, std::max<std::size_t>(3, nodes / which.divisor), budget, peak);
    }
  }
  if (wanted == "ABC" || wanted == "rows") measure_rows(nodes, budget, stream);
  for (const Case& which : cases) {
    if (!is_wanted(which) || runs == 0) continue;
    measure_end_to_end(which, std::max<std::size_t>(3, nodes / which.divisor), budget, runs);
  }
  if (wanted == "ABC" && runs > 0) {
    timing_only("expanded", 60);
    timing_only("analytic", 5);
  }
  fmt::print("load of the machine {}\n", load());
}
