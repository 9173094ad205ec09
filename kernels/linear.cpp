// Linear regression (linear.hpp). Every sum runs in one order, with one fma per term:
//
//   miss       p <- c, then p <- fmaf(w_k, z_k, p) for k from 0; d = p - y
//   loss       L <- fma(d/2, d, L) in double over the samples, then divided by their number
//   gradient   g_k <- fmaf(d, z_k, g_k) and of the bias g <- g + d over the samples, then each times 1 / batch_size
#include "kernels/linear.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "kernels/data/made_regression.hpp"
#include "kernels/finite.hpp"
#include "kernels/keys.hpp"
#include "kernels/model_facts.hpp"
#include "kernels/registry.hpp"
#include "kernels/worth_threads.hpp"
#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/base/target_clones.hpp"

namespace starling {
namespace {

/// p + x_0 z_0 + x_1 z_1 + .. , one after the other.
STARLING_VECTORIZED float add_products(const float* x, const float* z, std::size_t count, float p) {
  for (std::size_t k = 0; k < count; ++k) p = std::fmaf(x[k], z[k], p);
  return p;
}

/// g_k <- g_k + d z_k.
STARLING_VECTORIZED void add_multiple(float d, const float* z, std::size_t count, float* g) {
  for (std::size_t k = 0; k < count; ++k) g[k] = std::fmaf(d, z[k], g[k]);
}

}  // namespace

Linear::Linear(Supervised problem)
    : problem_(std::move(problem)),
      sampler_(problem_.parts, problem_.batch_size, problem_.sampling, problem_.seed) {
  const std::size_t features = problem_.data.train.features;
  ensure(problem_.data.train.target.size() == problem_.data.train.samples &&
             problem_.data.test.target.size() == problem_.data.test.samples &&
             problem_.data.test.samples > 0 && problem_.data.test.features == features,
         "a regression needs targets, and samples to be tested on");
  facts_.description = "linear regression on " + problem_.data.description;
  set_parameters(facts_, features + 1, problem_.wire_parameters);
  facts_.tensors = {features, 1};
  facts_.matrices = {{.offset = 0, .rows = static_cast<std::uint32_t>(features), .columns = 1}};
  set_samples(facts_, problem_, sampler_);
}

std::int64_t Linear::batch_cost(NodeId node, Step draw) const {
  return sampler_.cost(node, draw, problem_.data.train);
}

void Linear::initial_model(std::span<float> x) const {
  ensure(x.size() == facts_.parameters, "room for a model has the wrong size");
  std::ranges::fill(x, 0.0F);
}

float Linear::miss(const float* x, const Dataset& samples, std::size_t s) {
  const std::span<const float> z = samples.row(s);
  return add_products(x, z.data(), z.size(), x[z.size()]) - samples.target[s];
}

void Linear::gradient(GradientRequest& request, std::span<std::int32_t> indices) const {
  const Dataset& train = problem_.data.train;
  const std::size_t features = train.features;
  sampler_.batch(request.node, request.draw, indices);
  std::fill_n(request.gradient, features + 1, 0.0F);
  double loss = 0;
  for (const std::int32_t index : indices) {
    const auto s = static_cast<std::size_t>(index);
    const std::span<const float> z = train.row(s);
    const float d = miss(request.x, train, s);
    loss = std::fma(0.5 * d, double{d}, loss);
    add_multiple(d, z.data(), features, request.gradient);
    request.gradient[features] += d;
  }
  const auto share = static_cast<float>(1.0 / static_cast<double>(indices.size()));
  for (std::size_t k = 0; k <= features; ++k) request.gradient[k] *= share;
  request.loss = loss_with(all_finite({request.gradient, features + 1}),
                           loss / static_cast<double>(indices.size()));
}

void Linear::gradients(std::span<GradientRequest> requests) const {
  const auto batch = static_cast<std::size_t>(sampler_.batch_size());
  std::vector<std::int32_t> indices(requests.size() * batch);  // no exception may leave a thread
  const auto numbers =
      static_cast<double>(2 * requests.size() * batch * problem_.data.train.features);
  const bool is_shared = is_worth_threads(numbers / chained_additions_per_second);
#pragma omp parallel for schedule(static) if (is_shared)
  for (std::size_t r = 0; r < requests.size(); ++r)
    gradient(requests[r], std::span(indices).subspan(r * batch, batch));
}

void Linear::evaluate(std::span<EvaluationRequest> requests) const {
  const Dataset& test = problem_.data.test;
  const auto numbers = static_cast<double>(requests.size() * test.samples * test.features);
  const bool is_shared = is_worth_threads(numbers / chained_additions_per_second);
#pragma omp parallel for schedule(static) if (is_shared)
  for (std::size_t r = 0; r < requests.size(); ++r) {
    double loss = 0;
    for (std::size_t s = 0; s < test.samples; ++s) {
      const float d = miss(requests[r].x, test, s);
      loss = std::fma(0.5 * d, double{d}, loss);
    }
    requests[r].loss = loss / static_cast<double>(test.samples);
  }
}

namespace workloads {
namespace {

MadeRegression read_made(const Section& section, NodeId nodes, std::uint64_t seed) {
  const MadeSamples made = read_made_samples(section);
  section.expect(made.samples >= static_cast<std::size_t>(nodes), "samples",
                 "must be at least the number of nodes, {}, got {}", nodes, made.samples);
  const double floats = static_cast<double>(made.samples + made.test_samples) *
                        static_cast<double>(made.features + 1);
  expect_memory(section, "samples", 4 * floats,
                fmt::format("{} samples * ({} features and what follows from them) * 4 B",
                            made.samples + made.test_samples, made.features));
  MadeRegression regression{.nodes = nodes,
                            .features = made.features,
                            .samples = made.samples,
                            .test_samples = made.test_samples,
                            .seed = seed};
  regression.noise = read_between(section, "noise", 0.1, 0, largest_scale,
                                  "standard deviation of what does not follow from the features");
  regression.node_spread =
      read_not_negative(section, "node_spread", 0,
                        "standard deviation of a node's true weights from the shared ones");
  return regression;
}

}  // namespace

std::unique_ptr<Workload> linear(const Section& section, NodeId nodes, std::uint64_t seed) {
  Supervised problem;
  problem.seed = seed;
  problem.batch_size = read_batch_size(section);
  const std::string dataset =
      section.choice("dataset", {"made", "hdf5"}, "made",
                     "which samples: made, so that the answer is known, or of a file");
  if (dataset == "made") {
    const MadeRegression made = read_made(section, nodes, seed);
    problem.sampling = read_sampling(section);
    problem.wire_parameters = read_wire_parameters(section);
    section.finish();
    problem.data = make_samples(made);
    problem.parts = parts_of(made);
  } else {
    const SampleSettings settings = read_samples_with_targets(section, problem);
    problem.data = load_samples(section, settings, seed);
    deal_samples(section, settings.partition, nodes, problem);
  }
  return std::make_unique<Linear>(std::move(problem));
}

}  // namespace workloads

}  // namespace starling
