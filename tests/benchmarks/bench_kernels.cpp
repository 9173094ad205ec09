// How fast are the kernels of images and sequences, and how far from what the machine can do? Prints the measured FMA
// peak and stream bandwidth, then the convolutions of the MNIST CNN by themselves, then node-steps per second of some
// networks with a model per node: gradients alone, and followed by averaging of three models and the update through
// Backend::linear. Each on one thread and on all. Multilayer perceptrons: bench_node_steps.
//
//   bench_kernels [nodes] [seconds per figure]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <fmt/core.h>
#include <omp.h>

#include "kernels/cnn.hpp"
#include "kernels/cpu_backend.hpp"
#include "kernels/transformer.hpp"
#include "sim/base/random.hpp"
#include "tests/benchmarks/measure.hpp"

namespace {

using namespace starling;
using namespace starling::bench;

/// Best rate (calls per second) of `call`, repeated for `budget` seconds after one call to warm up.
double best_rate(double budget, const std::function<void()>& call) {
  call();
  double best = 0;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    call();
    best = std::max(best, 1 / seconds_since(start));
  } while (seconds_since(begin) < budget);
  return best;
}

/// A network, and with how many nodes it is measured: nodes / divisor.
struct Case {
  const char* name;
  std::unique_ptr<Workload> workload;
  double flops;  // multiplications and additions of one gradient
  std::size_t nodes;
};

constexpr std::size_t noise_samples = 8192;

SplitDataset noise(std::size_t features) {
  Random random(1, "bench");
  SplitDataset data;
  data.train = {.samples = noise_samples, .features = features, .classes = 10};
  data.train.x.resize(noise_samples * features);
  for (float& x : data.train.x) x = static_cast<float>(random.uniform());
  for (std::size_t s = 0; s < noise_samples; ++s) {
    data.train.y.push_back(static_cast<std::int32_t>(s % 10));
  }
  data.description = "noise";
  return data;
}

std::vector<std::vector<std::int32_t>> deal_noise(std::size_t nodes) {
  std::vector<std::vector<std::int32_t>> parts(nodes);
  for (std::size_t s = 0; s < noise_samples; ++s) {
    parts[s % nodes].push_back(static_cast<std::int32_t>(s));
  }
  return parts;
}

double flops_of(const dense::Convolution& s) {
  return 2.0 * static_cast<double>(s.out_height() * s.out_width() * s.inputs() * s.outputs);
}

Case cnn_case(const char* name, const char* layers, Extent image, std::int64_t batch,
              std::size_t nodes) {
  Cnn::Problem problem;
  problem.layers = parse_cnn_layers(layers);
  problem.image = image;
  problem.data = noise(image.size());
  problem.parts = deal_noise(nodes);
  problem.batch_size = batch;
  auto cnn = std::make_unique<Cnn>(std::move(problem));
  double flops = 0;
  for (const auto& place : cnn->network().operations()) {
    double product = 0;
    if (const auto* convolve = std::get_if<CnnNetwork::Convolve>(&place.operation)) {
      product = flops_of(convolve->shape);
    } else if (const auto* dense = std::get_if<CnnNetwork::Dense>(&place.operation)) {
      product = 2.0 * static_cast<double>(dense->inputs * dense->outputs);
    }
    flops += product * (place.input == 0 ? 2 : 3);
  }
  return {name, std::move(cnn), flops * static_cast<double>(batch), nodes};
}

/// The two convolutions of the MNIST CNN, forward and backward, on images of each thread's own.
/// Zeros around the gradient (backward) are work, but count for nothing here.
void measure_convolutions(double budget, double peak) {
  const dense::Convolution first{28, 28, 1, 3, 3, 1, 32}, second{26, 26, 32, 3, 3, 1, 64},
      back{28, 28, 64, 3, 3, 1, 32};
  constexpr std::size_t floats = 28 * 28 * 64;  // of the largest image; 288 x 64 weights fit, too
  constexpr int repeats = 20;
  const auto& images = dense::kernels().images;
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  std::vector<float> memory(threads * 4 * floats, 0.01f);
  const double rate = best_rate(budget, [&] {
#pragma omp parallel
    {
      float* x = memory.data() + static_cast<std::size_t>(omp_get_thread_num()) * 4 * floats;
      float *weights = x + floats, *y = weights + floats, *gradient = y + floats;
      for (int i = 0; i < repeats; ++i) {
        images.convolve(first, x, weights, weights, y);
        images.convolve(second, x, weights, weights, y);
        images.convolution_gradient(second, x, y, gradient, gradient + 288 * 64);
        images.convolve(back, y, weights, weights, x);
        images.convolution_gradient(first, x, y, gradient, gradient + 288 * 64);
        std::fill_n(gradient, 289 * 64, 0.0f);
        std::fill_n(x, floats, 0.01f);
      }
    }
  });
  const double flops =
      rate * static_cast<double>(threads) * repeats * (2 * flops_of(first) + 3 * flops_of(second));
  fmt::print(
      "convolutions of the MNIST CNN, forward and backward: {:.0f} Gflop/s ({:.1f} % of peak)\n",
      flops / 1e9, peak > 0 ? 100 * flops / peak : 0);
}

/// Multiplications and additions that a transformer cannot do without; what attention computes above
/// the diagonal or twice does not count.
double flops_of(const TransformerModel& model, std::size_t length) {
  double dense = static_cast<double>(model.head().inputs * model.head().outputs);
  double attention = 0;
  for (const auto& layer : model.layers()) {
    for (const auto* part : {&layer.qkv, &layer.project, &layer.expand, &layer.contract}) {
      dense += static_cast<double>(part->inputs * part->outputs);
    }
    attention += static_cast<double>(model.shape().width * (length + 1));  // 2 products, half
  }
  return 2.0 * 3 * (dense + attention) * static_cast<double>(length);
}

Case transformer_case(const char* name, std::size_t layers, std::size_t heads, std::size_t width,
                      std::size_t context, std::int64_t batch, std::size_t nodes) {
  Transformer::Problem problem;
  problem.layers = layers;
  problem.heads = heads;
  problem.width = width;
  problem.context = context;
  problem.batch_size = batch;
  problem.data.predicts_next = true;
  problem.data.vocabulary = problem.data.classes = 65;
  problem.data.description = "noise";
  Random random(1, "bench");
  Sequences& train = problem.data.train;
  for (std::size_t s = 0; s < noise_samples; ++s) {
    train.begin.push_back(s * context);
    train.samples.length.push_back(static_cast<std::int32_t>(context));
  }
  train.samples.samples = noise_samples;
  for (std::size_t t = 0; t <= noise_samples * context; ++t) {
    train.tokens.push_back(static_cast<std::int32_t>(random.below(65)));
  }
  problem.parts = deal_noise(nodes);
  auto transformer = std::make_unique<Transformer>(std::move(problem));
  const double flops = flops_of(transformer->model(), context) * static_cast<double>(batch);
  return {name, std::move(transformer), flops, nodes};
}

void measure(const Case& which, double budget, double peak) {
  const std::size_t nodes = which.nodes;
  const Workload& workload = *which.workload;
  const std::size_t parameters = workload.facts().parameters;
  const std::size_t row = (parameters + 15) / 16 * 16;
  CpuBackend backend;
  float* memory = backend.allocate(3 * nodes * row);
  std::fill_n(memory, 3 * nodes * row, 0.0f);
  float* models = memory;
  float* gradients = memory + nodes * row;
  float* next = memory + 2 * nodes * row;
  for (std::size_t n = 0; n < nodes; ++n) workload.initial_model({models + n * row, parameters});

  Step draw = 0;
  std::vector<GradientRequest> requests(nodes);
  const auto gradient = [&] {
    for (std::size_t n = 0; n < nodes; ++n) {
      requests[n] = {.node = static_cast<NodeId>(n),
                     .draw = draw,
                     .x = models + n * row,
                     .gradient = gradients + n * row};
    }
    workload.gradients(requests);
    ++draw;
  };
  std::vector<LinearTerm> terms;
  std::vector<LinearJob> jobs;
  const auto average = [&] {  // ring: next = (left + self + right) / 3 - 0.05 gradient
    terms.clear();
    jobs.clear();
    for (std::size_t n = 0; n < nodes; ++n) {
      jobs.push_back({next + n * row, static_cast<std::uint32_t>(parameters),
                      static_cast<std::uint32_t>(terms.size()), 4});
      terms.push_back({models + n * row, 1 / 3.0f});
      terms.push_back({models + (n + 1) % nodes * row, 1 / 3.0f});
      terms.push_back({models + (n + nodes - 1) % nodes * row, 1 / 3.0f});
      terms.push_back({gradients + n * row, -0.05f});
    }
    backend.linear(jobs, terms);
    std::swap(models, next);
  };

  const auto count = static_cast<double>(nodes);
  const double bare = count * best_rate(budget, gradient);
  const double whole = count * best_rate(budget, [&] {
                         gradient();
                         average();
                       });
  const double flops = which.flops;
  fmt::print(
      "{}  {:<45} {:>5} nodes {} threads: gradient {:>10.0f}/s ({:4.1f} % of peak), with averaging "
      "{:>10.0f}/s "
      "({:4.1f} %)\n",
      which.name, workload.facts().description, nodes, omp_get_max_threads(), bare,
      peak > 0 ? 100 * bare * flops / peak : 0, whole, peak > 0 ? 100 * whole * flops / peak : 0);
  std::fflush(stdout);
  backend.release(memory, 3 * nodes * row);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t nodes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const double budget = argc > 2 ? std::strtod(argv[2], nullptr) : 1.0;
  const auto part = [nodes](std::size_t divisor) {
    return std::max<std::size_t>(1, nodes / divisor);
  };
  std::vector<Case> cases;
  const char* names[] = {"D", "E", "F"};
  const Extent images[] = {{28, 28, 1}, {28, 28, 1}, {32, 32, 3}};
  for (std::size_t i = 0; i < 3; ++i) {
    cases.push_back(cnn_case(names[i], cnn_presets[i].layers, images[i], 10, part(16)));
  }
  cases.push_back(transformer_case("T", 2, 4, 128, 64, 16, part(16)));  // 1,024 tokens
  const int all = omp_get_max_threads();
  fmt::print("kernels {}\n", dense::kernels().name);
  for (int threads = 1; threads <= all; threads = threads < all ? all : all + 1) {
    omp_set_num_threads(threads);
    const double peak = peak_flops(budget);
    fmt::print("{} threads: FMA peak {:.0f} Gflop/s, stream {:.1f} GB/s\n", threads, peak / 1e9,
               stream_bandwidth(budget) / 1e9);
    measure_convolutions(budget, peak);
    for (const Case& which : cases) measure(which, budget, peak);
  }
}
