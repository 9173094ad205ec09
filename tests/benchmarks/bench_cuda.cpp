// How fast is a GPU? Prints "name <tab> number <tab> unit" lines for tools/gpu_check, which sets them beside the card's
// own limits: node-steps of the cases of tests/benchmarks (every node its own model, the update included), verbs and
// codes in bytes read and written, and whole runs. Needs the plug-in (docs/gpu.md); on the emulated device it only shows
// that it works.
//
//   bench_cuda [seconds per figure] [share of the nodes] [what the names of figures begin with: the others are left out]
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/cuda_mlp.hpp"
#include "scenarios/run.hpp"
#include "sim/base/random.hpp"
#include "tests/benchmarks/measure.hpp"
#include "tools/passive_waiting.hpp"

namespace {

using namespace starling;
using namespace starling::bench;

double seconds_per_figure = 1;
double node_share = 1;
std::string wanted;

bool is_wanted(std::string_view name) { return name.starts_with(wanted); }

void print(const std::string& name, double number, const char* unit) {
  fmt::print("{}\t{:.6g}\t{}\n", name, number, unit);
  std::fflush(stdout);
}

std::size_t scaled(std::size_t nodes) {
  return std::max<std::size_t>(2,
                               static_cast<std::size_t>(static_cast<double>(nodes) * node_share));
}

/// Median seconds of one call, after two to warm up.
double seconds_of(const std::function<void()>& call) {
  call();
  call();
  std::vector<double> times;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    call();
    times.push_back(seconds_since(start));
  } while (seconds_since(begin) < seconds_per_figure);
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

struct Case {
  const char* name;
  std::size_t features;
  std::vector<std::size_t> hidden;
  std::int64_t batch;
  std::size_t nodes;
};

Mlp make(const Case& c, std::size_t nodes) {
  constexpr std::size_t samples = 16384;
  Random random(1, "bench");
  Mlp::Problem problem;
  problem.hidden = c.hidden;
  Dataset& train = problem.data.train;
  train = {.samples = samples, .features = c.features, .classes = 10};
  for (std::size_t i = 0; i < samples * c.features; ++i)
    train.x.push_back(static_cast<float>(random.uniform()));
  for (std::size_t s = 0; s < samples; ++s)
    train.y.push_back(static_cast<std::int32_t>(random.below(10)));
  std::vector<std::int32_t> all(samples);
  std::iota(all.begin(), all.end(), 0);
  problem.batch_size = c.batch;
  problem.sampling = "uniform";
  // Nodes share the samples in 64 groups, so that the lists stay small.
  for (std::size_t n = 0; n < nodes; ++n) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(n % 64 * 256);
    problem.parts.emplace_back(first, first + 256);
  }
  return Mlp(std::move(problem));
}

void steps(cuda::Device& device, const Case& c, Precision precision, const char* mode) {
  const std::string name = fmt::format("steps {} {}", c.name, mode);
  if (!is_wanted(name)) return;
  const std::size_t nodes = scaled(c.nodes);
  const Mlp mlp = make(c, nodes);
  const std::size_t size = mlp.facts().parameters, stride = (size + 15) / 16 * 16;
  const CudaMlp moved(mlp, device, precision);
  CudaBackend backend(device);
  float* models = backend.allocate(nodes * stride);
  float* slopes = backend.allocate(nodes * stride);
  std::vector<float> x(size);
  mlp.initial_model(x);
  std::vector<LinearTerm> terms;
  std::vector<LinearJob> sums;
  std::vector<GradientRequest> requests(nodes);
  for (std::size_t n = 0; n < nodes; ++n) {
    float* model = models + n * stride;
    backend.write(model, x);
    terms.push_back({model, 1});
    terms.push_back({moved.folds_sums() ? nullptr : slopes + n * stride, -0.01F});
    sums.push_back({model, static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(2 * n), 2});
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    requests[n] = {.node = static_cast<NodeId>(n), .x = models + n * stride};
    if (moved.folds_sums()) {
      requests[n].sums = {&sums[n], 1};
      requests[n].terms = terms.data();
    } else {
      requests[n].gradient = slopes + n * stride;
    }
  }
  Step draw = 0;
  const double seconds = seconds_of([&] {
    ++draw;
    for (GradientRequest& request : requests) request.draw = draw;
    moved.gradients(requests);
    if (!moved.folds_sums()) backend.linear(sums, terms);
    device.wait();
  });
  print(name, static_cast<double>(nodes) / seconds, "node-steps/s");
  backend.release(models, nodes * stride);
  backend.release(slopes, nodes * stride);
}

void verbs(cuda::Device& device) {
  const std::size_t nodes = scaled(1024), size = 109'386, stride = 109'392;
  CudaBackend backend(device);
  float* rows = backend.allocate(nodes * stride);
  float* outs = backend.allocate(nodes * stride);
  std::vector<float> values(size);
  Random random(2, "bench");
  for (float& v : values) v = static_cast<float>(random.normal());
  for (std::size_t n = 0; n < nodes; ++n) backend.write(rows + n * stride, values);
  const double row_bytes = static_cast<double>(size * sizeof(float) * nodes);

  const auto sums = [&](const char* name, std::size_t terms_each, double rows_moved) {
    if (!is_wanted(name)) return;
    std::vector<LinearTerm> terms;
    std::vector<LinearJob> jobs;
    for (std::size_t n = 0; n < nodes; ++n) {
      jobs.push_back({outs + n * stride, static_cast<std::uint32_t>(size),
                      static_cast<std::uint32_t>(terms.size()),
                      static_cast<std::uint32_t>(terms_each)});
      for (std::size_t t = 0; t < terms_each; ++t)
        terms.push_back({rows + (n + t * 37) % nodes * stride, 0.1F});
    }
    const double seconds = seconds_of([&] {
      backend.linear(jobs, terms);
      device.wait();
    });
    print(name, rows_moved * row_bytes / seconds, "B/s");
  };
  sums("copy by a sum of one term", 1, 2);
  sums("pair average", 2, 3);
  sums("degree-8 round, ideal bytes", 9, 2);

  const auto codes = [&](const char* name, const Transform& transform) {
    if (!is_wanted(name)) return;
    const std::size_t sizes[] = {size};
    const std::size_t out_size = result_size(transform, sizes);
    std::vector<TransformJob> jobs;
    for (std::size_t n = 0; n < nodes; ++n) {
      jobs.push_back({.transform = &transform,
                      .inputs = {std::span<const float>(rows + n * stride, size)},
                      .out = {outs + n * stride, out_size}});
    }
    const double seconds = seconds_of([&] {
      backend.transform(jobs);
      device.wait();
    });
    print(name, row_bytes / seconds, "B/s read once");
  };
  codes("top 1 %", transforms::KeepLargest{static_cast<std::uint32_t>(size / 100)});
  codes("bfloat16", transforms::ToHalf{true});
  codes("127 levels", transforms::ToLevels{127, 512, true, Random(1, "bench")});
  codes("signs", transforms::ToSigns{true, static_cast<std::uint32_t>(size)});
  std::vector<double> found(nodes);
  std::vector<DistanceJob> distances;
  for (std::size_t n = 0; n < nodes; ++n) {
    distances.push_back({rows + n * stride, rows + (n + 1) % nodes * stride, &found[n],
                         static_cast<std::uint32_t>(size)});
  }
  if (is_wanted("distances")) {
    const double seconds = seconds_of([&] { backend.squared_distances(distances); });
    print("distances", 2 * row_bytes / seconds, "B/s");
  }
  backend.release(rows, nodes * stride);
  backend.release(outs, nodes * stride);
}

void whole_run(const char* kind, std::size_t nodes, int steps, const std::string& workload) {
  const std::string name = fmt::format("whole run {}", kind);
  if (!is_wanted(name)) return;
  const std::string text = fmt::format(
      "[run]\nnodes = {0}\nsteps = {1}\nrecord_every = {1}\nevaluate_every = {1}\ndevice = cuda\n"
      "[topology]\nkind = ring\n[network]\nkind = constant\nlatency = 50 us\nbandwidth = 10 "
      "Gbit/s\n[compute]\ngradient = 4 ms\ndistribution = lognormal\nsigma = 0.1\n"
      "[workload]\ndataset = blobs\nsamples = 16384\n{2}\n[algorithm]\nkind = "
      "dpsgd\nlearning_rate = 0.02\n",
      nodes, steps, workload);
  Run::Hooks hooks;
  hooks.saves = false;
  Run run(assemble(Scenario::parse(text, "bench.ini")), std::move(hooks));
  const auto begin = Clock::now();
  run.simulate();
  print(name, static_cast<double>(nodes) * steps / seconds_since(begin), "node-steps/s");
}

}  // namespace

int main(int count, char** words) {
  wait_passively(words);
  if (count > 1) seconds_per_figure = std::atof(words[1]);
  if (count > 2) node_share = std::atof(words[2]);
  if (count > 3) wanted = words[3];
  bool is_complete = true;
  // What fails costs its own figures only: without cuBLAS, say, those of the fast mode.
  const auto attempt = [&](const auto& measure) {
    try {
      measure();
    } catch (const std::exception& error) {
      fmt::print(stderr, "bench_cuda: {}\n", error.what());
      is_complete = false;
    }
  };
  std::unique_ptr<cuda::Device> device;
  attempt([&] { device = cuda::Device::open(); });
  if (device == nullptr) return 1;
  fmt::print("device\t{}\t\n", device->description());
  const Case cases[] = {{"A 784-128-64-10, batch 32", 784, {128, 64}, 32, 1024},
                        {"B 64-32-10, batch 16", 64, {32}, 16, 16384},
                        {"C 784-1024-1024-10, batch 64", 784, {1024, 1024}, 64, 512}};
  for (const Case& c : cases) {
    if (c.features == 784 && c.batch == 64 && node_share < 0.1) continue;  // no time for it
    attempt([&] { steps(*device, c, Precision::strict, "strict"); });
    if (c.features == 784) attempt([&] { steps(*device, c, Precision::fast, "fast"); });
  }
  attempt([&] { verbs(*device); });
  const int steps = node_share < 1 ? 4 : 200;
  attempt([&] {
    whole_run("A", scaled(1024), steps,
              "kind = mlp\nfeatures = 784\nhidden = 128, 64\nclasses = 10\nbatch_size = 32");
  });
  attempt([&] {
    whole_run("B", scaled(16384), steps,
              "kind = mlp\nfeatures = 64\nhidden = 32\nclasses = 10\nbatch_size = 16");
  });
  attempt([&] {
    whole_run("CNN zou_fashion, batch 64", scaled(64), (steps + 9) / 10,
              "kind = cnn\nnet = zou_fashion\nfeatures = 784\nclasses = 10\nbatch_size = 64");
  });
  return is_complete ? 0 : 1;
}
