// Linear regression (linear.hpp). Every sum runs in one order, with one fma per term:
//
//   miss       p <- c, then p <- fmaf(w_k, z_k, p) for k from 0; d = p - y
//   loss       L <- fma(d/2, d, L) in double over the samples, then divided by their number
//   gradient   g_k <- fmaf(d, z_k, g_k) and of the bias g <- g + d over the samples, then each times 1 / batch_size
#include "kernels/linear.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/core.h>

#include "kernels/finite.hpp"
#include "kernels/keys.hpp"
#include "kernels/model_facts.hpp"
#include "kernels/registry.hpp"
#include "kernels/worth_threads.hpp"
#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"

namespace starling {
namespace {

/// Consecutive samples for each node.
std::vector<std::vector<std::int32_t>> parts_of(const Linear::Problem& problem) {
  ensure(problem.nodes > 0 && problem.features > 0 && problem.test_samples > 0 &&
             problem.samples >= static_cast<std::size_t>(problem.nodes),
         "linear regression needs nodes, features and samples for all of them");
  const auto nodes = static_cast<std::size_t>(problem.nodes);
  std::vector<std::vector<std::int32_t>> parts(nodes);
  std::int32_t at = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    parts[i].resize(problem.samples / nodes + (i < problem.samples % nodes ? 1 : 0));
    std::iota(parts[i].begin(), parts[i].end(), at);
    at += static_cast<std::int32_t>(parts[i].size());
  }
  return parts;
}

}  // namespace

Linear::Linear(const Problem& problem)
    : problem_(problem),
      sampler_(parts_of(problem), problem.batch_size, problem.sampling, problem.seed) {
  const std::size_t features = problem_.features;
  facts_.description =
      fmt::format("linear regression on {} made samples of {} features, noise {}, {} held out",
                  problem_.samples, features, problem_.noise, problem_.test_samples);
  set_parameters(facts_, features + 1, problem_.wire_parameters);
  facts_.batch_size = static_cast<double>(problem_.batch_size);
  facts_.tensors = {features, 1};
  facts_.matrices = {{.offset = 0, .rows = static_cast<std::uint32_t>(features), .columns = 1}};
  facts_.samples = sampler_.samples();
  facts_.data_bytes =
      4.0 * static_cast<double>((problem_.samples + problem_.test_samples) * facts_.parameters);

  for (auto [samples, count] :
       {std::pair(&train_, problem_.samples), std::pair(&test_, problem_.test_samples)}) {
    samples->z.resize(count * features);
    samples->y.resize(count);
  }
  const Random made(problem_.seed, "linear samples");
  const Random held_out(problem_.seed, "linear test samples");
  std::size_t at = 0;
  for (NodeId i = 0; i < problem_.nodes; ++i) {
    const std::vector<double> own = truth(i);
    const auto count = facts_.samples[static_cast<std::size_t>(i)];
    for (std::int64_t s = 0; s < count; ++s) draw(train_, at++, own, made.at(i, s));
    for (auto t = static_cast<std::size_t>(i); t < problem_.test_samples;
         t += static_cast<std::size_t>(problem_.nodes)) {
      draw(test_, t, own, held_out.at(i, static_cast<Step>(t)));
    }
  }
}

std::vector<double> Linear::truth(NodeId node) const {
  Random shared(problem_.seed, "linear weights");
  Random own(problem_.seed, "linear weights of a node", node);
  std::vector<double> weights(problem_.features);
  for (double& weight : weights) {
    weight = shared.normal();
    if (problem_.node_spread > 0) weight = std::fma(problem_.node_spread, own.normal(), weight);
  }
  return weights;
}

void Linear::draw(Samples& samples, std::size_t at, const std::vector<double>& truth,
                  Random random) const {
  double y = 0;
  for (std::size_t k = 0; k < problem_.features; ++k) {
    const auto z = static_cast<float>(random.normal());
    samples.z[at * problem_.features + k] = z;
    y = std::fma(truth[k], double{z}, y);
  }
  if (problem_.noise > 0) y = std::fma(problem_.noise, random.normal(), y);
  samples.y[at] = static_cast<float>(y);
}

void Linear::initial_model(std::span<float> x) const {
  ensure(x.size() == facts_.parameters, "room for a model has the wrong size");
  std::ranges::fill(x, 0.0F);
}

float Linear::miss(const float* x, const Samples& samples, std::size_t s) const {
  const float* z = &samples.z[s * problem_.features];
  float p = x[problem_.features];
  for (std::size_t k = 0; k < problem_.features; ++k) p = std::fmaf(x[k], z[k], p);
  return p - samples.y[s];
}

void Linear::gradient(GradientRequest& request, std::span<std::int32_t> indices) const {
  const std::size_t features = problem_.features;
  sampler_.batch(request.node, request.draw, indices);
  std::fill_n(request.gradient, features + 1, 0.0F);
  double loss = 0;
  for (const std::int32_t index : indices) {
    const auto s = static_cast<std::size_t>(index);
    const float* z = &train_.z[s * features];
    const float d = miss(request.x, train_, s);
    loss = std::fma(0.5 * d, double{d}, loss);
    for (std::size_t k = 0; k < features; ++k)
      request.gradient[k] = std::fmaf(d, z[k], request.gradient[k]);
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
  const auto numbers = static_cast<double>(2 * requests.size() * batch * problem_.features);
  const bool is_shared = is_worth_threads(numbers / chained_additions_per_second);
#pragma omp parallel for schedule(static) if (is_shared)
  for (std::size_t r = 0; r < requests.size(); ++r)
    gradient(requests[r], std::span(indices).subspan(r * batch, batch));
}

void Linear::evaluate(std::span<EvaluationRequest> requests) const {
  const auto numbers =
      static_cast<double>(requests.size() * problem_.test_samples * problem_.features);
  const bool is_shared = is_worth_threads(numbers / chained_additions_per_second);
#pragma omp parallel for schedule(static) if (is_shared)
  for (std::size_t r = 0; r < requests.size(); ++r) {
    double loss = 0;
    for (std::size_t s = 0; s < problem_.test_samples; ++s) {
      const float d = miss(requests[r].x, test_, s);
      loss = std::fma(0.5 * d, double{d}, loss);
    }
    requests[r].loss = loss / static_cast<double>(problem_.test_samples);
  }
}

namespace workloads {

std::unique_ptr<Workload> linear(const Section& section, NodeId nodes, std::uint64_t seed) {
  const MadeSamples made = read_made_samples(section);
  Linear::Problem problem{.nodes = nodes,
                          .features = made.features,
                          .samples = made.samples,
                          .test_samples = made.test_samples,
                          .seed = seed};
  section.expect(problem.samples >= static_cast<std::size_t>(nodes), "samples",
                 "must be at least the number of nodes, {}, got {}", nodes, problem.samples);
  const double floats = static_cast<double>(problem.samples + problem.test_samples) *
                        static_cast<double>(problem.features + 1);
  expect_memory(section, "samples", 4 * floats,
                fmt::format("{} samples * ({} features and what follows from them) * 4 B",
                            problem.samples + problem.test_samples, problem.features));
  problem.noise = read_between(section, "noise", 0.1, 0, largest_scale,
                               "standard deviation of what does not follow from the features");
  problem.node_spread =
      read_not_negative(section, "node_spread", 0,
                        "standard deviation of a node's true weights from the shared ones");
  problem.batch_size = read_batch_size(section);
  problem.sampling = read_sampling(section);
  problem.wire_parameters = read_wire_parameters(section);
  section.finish();
  return std::make_unique<Linear>(problem);
}

}  // namespace workloads

}  // namespace starling
