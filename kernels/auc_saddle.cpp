#include "kernels/auc_saddle.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "kernels/finite.hpp"
#include "kernels/for_all.hpp"
#include "kernels/model_facts.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace starling {

double area_under_curve(std::span<const float> scores, std::span<const std::int32_t> labels) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return scores[i]; });
  // Twice the ranks, so that those of ties, the mean of their places, are whole numbers.
  double twice_ranks = 0, positives = 0;
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && !(scores[order[last]] > scores[order[first]])) ++last;
    for (std::size_t i = first; i < last; ++i) {
      if (labels[order[i]] != 1) continue;
      twice_ranks += static_cast<double>(first + last + 1);
      ++positives;
    }
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  return (twice_ranks / 2 - positives * (positives + 1) / 2) / (positives * negatives);
}

/// Scratch of one thread.
struct Auc::Work {
  DenseStack stack;
  std::vector<std::int32_t> indices;  // (batch)
};

namespace {

double share_of_positives(const Dataset& data) {
  return static_cast<double>(std::ranges::count(data.y, 1)) / static_cast<double>(data.samples);
}

}  // namespace

Auc::Auc(Problem problem)
    : problem_(std::move(problem)),
      share_(share_of_positives(problem_.data.train)),
      kernels_(dense::kernels()),
      sampler_(problem_.parts, problem_.batch_size, problem_.sampling, problem_.seed),
      layers_(stack_layers(problem_.data.train.features, problem_.hidden, 1)) {
  facts_.description = fmt::format("AUC of {} score {} on {}, {:.3g} % positive",
                                   problem_.hidden.empty() ? "a linear" : "an MLP",
                                   widths_of(layers_), problem_.data.description, 100 * share_);
  set_parameters(facts_, layers_.back().bias + 1 + 3, problem_.wire_parameters);
  for (const DenseLayer& layer : layers_) add_dense_layer(facts_, layer);
  facts_.tensors.push_back(3);
  set_samples(facts_, problem_, sampler_);
  facts_.accuracy_metric = "test_auc";
  facts_.dual_parameters = 1;
  facts_.dual_curvature = 2 * share_ * (1 - share_);
  DenseStack row;
  row.fit(layers_, 1);
  facts_.scratch_floats =
      row.floats() * std::max(static_cast<std::size_t>(problem_.batch_size),
                              std::min(evaluation_block, problem_.data.test.samples));
}

void Auc::initial_model(std::span<float> x) const {
  ensure(x.size() == facts_.parameters, "initial_model: wrong size");
  std::ranges::fill(x, 0.0F);
  Random random(problem_.seed, "initial model");
  for (const DenseLayer& layer : layers_) {
    const bool is_last = &layer == &layers_.back();
    const double deviation = first_deviation(layer.inputs, layer.outputs, is_last);
    draw_weights(layer.inputs, layer.outputs, &x[layer.weights],
                 [&] { return static_cast<float>(deviation * random.normal()); });
  }
}

std::int64_t Auc::batch_cost(NodeId node, Step draw) const {
  return sampler_.cost(node, draw, problem_.data.train);
}

void Auc::gradient(GradientRequest& request, Work& work) const {
  const auto batch = static_cast<std::size_t>(problem_.batch_size);
  const Dataset& train = problem_.data.train;
  work.indices.resize(batch);
  sampler_.batch(request.node, request.draw, work.indices);
  DenseStack& stack = work.stack;
  stack.fit(layers_, batch);
  DenseStack::Rows& input = stack.values.front();
  kernels_.gather(batch, train.features, train.x.data(), work.indices.data(), input.row(0),
                  input.stride);
  stack.forward(kernels_, layers_, request.x, input.row(0), input.stride, 0, batch);

  const float* last = request.x + facts_.parameters - 3;
  const double a = last[0], b = last[1], alpha = last[2];
  const double p = share_, q = 1 - share_;
  const double weight = 1 / static_cast<double>(batch);
  double loss = 0, slope_a = 0, slope_b = 0, slope_alpha = 0;
  for (std::size_t s = 0; s < batch; ++s) {
    float& score = *stack.values.back().row(s);
    const double h = score;
    double slope = 0;
    if (train.y[static_cast<std::size_t>(work.indices[s])] == 1) {
      loss += q * (h - a) * (h - a) - 2 * (1 + alpha) * q * h;
      slope = 2 * q * (h - a) - 2 * (1 + alpha) * q;
      slope_a -= 2 * q * (h - a);
      slope_alpha -= 2 * q * h;
    } else {
      loss += p * (h - b) * (h - b) + 2 * (1 + alpha) * p * h;
      slope = 2 * p * (h - b) + 2 * (1 + alpha) * p;
      slope_b -= 2 * p * (h - b);
      slope_alpha += 2 * p * h;
    }
    score = static_cast<float>(weight * slope);
  }
  stack.backward(kernels_, layers_, request.x, batch, request.gradient);
  float* end = request.gradient + facts_.parameters - 3;
  end[0] = static_cast<float>(weight * slope_a);
  end[1] = static_cast<float>(weight * slope_b);
  end[2] = static_cast<float>(-(weight * slope_alpha - 2 * p * q * alpha));  // ascent
  request.loss = loss_with(all_finite({request.gradient, facts_.parameters}),
                           weight * loss - p * q * alpha * alpha);
}

void Auc::gradients(std::span<GradientRequest> requests) const {
  const double multiplications = 3 * facts_.batch_size * count_weights(facts_);
  for_all<Work>(requests.size(), multiplications,
                [&](std::size_t r, Work& work) { gradient(requests[r], work); });
}

void Auc::judge(std::span<const float> scores, EvaluationRequest& request) const {
  const std::vector<std::int32_t>& labels = problem_.data.test.y;
  double count[2] = {0, 0}, sum[2] = {0, 0}, squares[2] = {0, 0};
  for (std::size_t s = 0; s < scores.size(); ++s) {
    ++count[labels[s]];
    sum[labels[s]] += scores[s];
  }
  const double mean[2] = {sum[0] / count[0], sum[1] / count[1]};
  for (std::size_t s = 0; s < scores.size(); ++s) {
    squares[labels[s]] += (scores[s] - mean[labels[s]]) * (scores[s] - mean[labels[s]]);
  }
  const double p = count[1] / (count[0] + count[1]);
  const double margin = 1 - (mean[1] - mean[0]);
  request.loss =
      p * (1 - p) * (margin * margin + squares[0] / count[0] + squares[1] / count[1] - 1);
  request.accuracy = area_under_curve(scores, labels);
}

void Auc::evaluate(std::span<EvaluationRequest> requests) const {
  const Dataset& test = problem_.data.test;
  std::vector<float> scores(requests.size() * test.samples);  // (requests, test samples)
  const std::size_t blocks = (test.samples + evaluation_block - 1) / evaluation_block;
  const double multiplications =
      count_weights(facts_) * static_cast<double>(std::min(evaluation_block, test.samples));
  for_all<Work>(requests.size() * blocks, multiplications, [&](std::size_t i, Work& work) {
    const std::size_t request = i / blocks, first = i % blocks * evaluation_block;
    const std::size_t count = std::min(evaluation_block, test.samples - first);
    DenseStack& stack = work.stack;
    stack.fit(layers_, count);
    stack.forward(kernels_, layers_, requests[request].x, test.row(first).data(), test.features, 0,
                  count);
    for (std::size_t s = 0; s < count; ++s)
      scores[request * test.samples + first + s] = *stack.values.back().row(s);
  });
  for (std::size_t r = 0; r < requests.size(); ++r) {
    judge(std::span(scores).subspan(r * test.samples, test.samples), requests[r]);
  }
}

}  // namespace starling
