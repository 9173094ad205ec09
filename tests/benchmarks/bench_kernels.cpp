// How fast are the kernels, and how far from what the machine can do? Prints the measured FMA peak
// and copy bandwidth, then the convolutions of the MNIST CNN by themselves, then node-steps per
// second of some networks with a model per node: gradients alone, and followed by averaging of three
// models and the update through Backend::linear. Each on one thread and on all.
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

#include <fmt/format.h>
#include <omp.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cnn.hpp"
#include "kernels/cpu_backend.hpp"
#include "kernels/mlp.hpp"
#include "kernels/transformer.hpp"
#include "sim/base/random.hpp"

namespace {

using namespace starling;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Best rate (calls per second) of `call`, repeated for `budget` seconds after one call to warm up.
double best_rate(double budget, const std::function<void()>& call) {
  call();
  double best = 0;
  const auto begin = std::chrono::steady_clock::now();
  do {
    const auto start = std::chrono::steady_clock::now();
    call();
    best = std::max(best, 1 / seconds_since(start));
  } while (seconds_since(begin) < budget);
  return best;
}

#if defined(__x86_64__)

constexpr int fma_repeats = 1 << 16, fma_chains = 12;

__attribute__((target("avx512f"))) float fma_chains_of_16() {
  __m512 sum[fma_chains];
#pragma GCC unroll 12
  for (int c = 0; c < fma_chains; ++c) sum[c] = _mm512_set1_ps(static_cast<float>(c));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int i = 0; i < fma_repeats; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < fma_chains; ++c) {
      asm volatile("vfmadd213ps %2, %1, %0" : "+v"(sum[c]) : "v"(a), "v"(b));
    }
  }
  float first[16], total = 0;
#pragma GCC unroll 12
  for (int c = 0; c < fma_chains; ++c) {
    _mm512_storeu_ps(first, sum[c]);
    total += first[0];
  }
  return total;
}

__attribute__((target("avx2,fma"))) float fma_chains_of_8() {
  __m256 sum[fma_chains];
#pragma GCC unroll 12
  for (int c = 0; c < fma_chains; ++c) sum[c] = _mm256_set1_ps(static_cast<float>(c));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int i = 0; i < fma_repeats; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < fma_chains; ++c) {
      asm volatile("vfmadd213ps %2, %1, %0" : "+x"(sum[c]) : "x"(a), "x"(b));
    }
  }
  float first[8], total = 0;
#pragma GCC unroll 12
  for (int c = 0; c < fma_chains; ++c) {
    _mm256_storeu_ps(first, sum[c]);
    total += first[0];
  }
  return total;
}

/// Floating-point operations per second of independent fused multiply-adds in registers; 0 if not
/// measured.
double peak_flops(double budget) {
  const std::string isa = dense::kernels().name;
  if (isa == "v1") return 0;
  const int width = isa == "v4" ? 16 : 8;
  volatile float sink = 0;
  const double rate = best_rate(budget, [&] {
    float sum = 0;
#pragma omp parallel reduction(+ : sum)
    sum += isa == "v4" ? fma_chains_of_16() : fma_chains_of_8();
    sink = sum;
  });
  return rate * 2.0 * width * fma_chains * fma_repeats * omp_get_max_threads();
}

#else

double peak_flops(double) { return 0; }  // not measured

#endif

/// Bytes read and written per second when copying 512 MiB.
double copy_bandwidth(double budget) {
  constexpr std::size_t floats = std::size_t{1} << 26, rows = 64;
  CpuBackend backend;
  float* from = backend.allocate(2 * floats);
  float* to = from + floats;
  std::fill_n(from, 2 * floats, 1.0f);
  std::vector<LinearTerm> terms;
  std::vector<LinearJob> jobs;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t length = floats / rows;
    terms.push_back({from + r * length, 1.0f});
    jobs.push_back(
        {to + r * length, static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(r), 1});
  }
  const double rate = best_rate(budget, [&] { backend.linear(jobs, terms); });
  backend.release(from, 2 * floats);
  return rate * 2.0 * floats * sizeof(float);
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

Case mlp_case(const char* name, std::size_t features, std::vector<std::size_t> hidden,
              std::int64_t batch, std::size_t nodes) {
  Mlp::Problem problem;
  problem.hidden = std::move(hidden);
  problem.data = noise(features);
  problem.parts = deal_noise(nodes);
  problem.batch_size = batch;
  auto mlp = std::make_unique<Mlp>(std::move(problem));
  double flops = 0;
  for (const auto& layer : mlp->layers()) {  // the first layer needs no gradient of its input
    const double product = 2.0 * static_cast<double>(layer.inputs * layer.outputs);
    flops += product * (&layer == &mlp->layers().front() ? 2 : 3);
  }
  return {name, std::move(mlp), flops * static_cast<double>(batch), nodes};
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
        "{}  {:<45} {:>5} nodes {} threads: gradient {:>10.0f}/s ({:4.1f} % of peak), with "
        "averaging "
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
  cases.push_back(mlp_case("A", 784, {128, 64}, 32, nodes));
  cases.push_back(mlp_case("B", 64, {32}, 16, nodes));
  cases.push_back(mlp_case("C", 784, {1024, 1024}, 64, part(4)));
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
    fmt::print("{} threads: FMA peak {:.0f} Gflop/s, copy {:.1f} GB/s\n", threads, peak / 1e9,
               copy_bandwidth(budget) / 1e9);
    measure_convolutions(budget, peak);
    for (const Case& which : cases) measure(which, budget, peak);
  }
}
