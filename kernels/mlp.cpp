#include "kernels/mlp.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <string>

#include <fmt/core.h>

#include "kernels/cache.hpp"
#include "kernels/finite.hpp"
#include "kernels/keys.hpp"
#include "kernels/model_facts.hpp"
#include "kernels/registry.hpp"
#include "kernels/scratch.hpp"
#include "sim/base/error.hpp"
#include "sim/base/prefetch.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

/// While a gradient is computed, the samples of the next mini-batch are fetched if they are at most so many bytes: so few
/// stay in the first-level cache until then, and are too short for the processor to fetch them ahead by itself.
constexpr std::size_t most_fetched = std::size_t{16} << 10;

/// Rows of other models are fetched, into the second-level cache, if they have at most so many bytes.
constexpr std::size_t longest_fetched = std::size_t{64} << 10;

/// Numbers the MLPs of a process: scratch of a thread outlives them, and must not take one for another at the same place.
std::atomic<std::uint64_t> instances = 0;

}  // namespace

/// Scratch of one thread: what one mini-batch needs between its layers. Shared by all MLPs of a
/// process.
struct Mlp::Activations {
  struct Rows {
    float* at;
    std::size_t stride;
  };
  Scratch floats;
  std::vector<Rows> input;  // [l]: (batch, inputs) of layer l, then the logits; rows on cache lines
  std::vector<float*> slope;  // [l]: (batch, inputs) of the gradient of what layer l reads; l > 0
  std::vector<std::int32_t> indices, labels;  // (batch)
  std::vector<double> losses;                 // (batch)
  struct {
    std::vector<std::int32_t> indices;  // (batch)
    std::uint64_t instance = 0;         // of which Mlp, 0: none is drawn
    NodeId node = 0;
    Step draw = 0;
  } ahead;                             // the mini-batch that is likely to be the next
  std::array<const float*, 4> soon{};  // rows that this gradient, or what follows, will use
  const float* last_x = nullptr;       // of the gradient before: in the cache
  std::uint64_t fitted = 0;            // for which Mlp

  /// Deals floats out from `base` on, and returns how many; null: only counts them.
  std::size_t deal(float* base, std::span<const DenseLayer> layers, std::size_t batch) {
    ScratchDealer dealer(base);
    input.resize(layers.size() + 1);
    slope.resize(layers.size());
    for (std::size_t l = 0; l < input.size(); ++l) {
      const std::size_t columns = l < layers.size() ? layers[l].inputs : layers.back().outputs;
      const std::size_t stride = dense::row_stride(columns);
      input[l] = {dealer(batch * stride), stride};
    }
    for (std::size_t l = 1; l < slope.size(); ++l) slope[l] = dealer(batch * input[l].stride);
    return dealer.used();
  }

  /// Makes room for mini-batches of an Mlp.
  void fit(std::uint64_t mlp, std::span<const DenseLayer> layers, std::size_t batch) {
    if (mlp == fitted && labels.size() == batch) return;
    fitted = mlp;
    deal_out(floats, [&](float* base) { return deal(base, layers, batch); });
    indices.resize(batch);
    labels.resize(batch);
    losses.resize(batch);
  }
};

Mlp::Mlp(Problem problem, const dense::Kernels& kernels)
    : problem_(std::move(problem)),
      kernels_(kernels),
      sampler_(problem_.parts, problem_.batch_size, problem_.sampling, problem_.seed),
      layers_(stack_layers(problem_.data.train.features, problem_.hidden,
                           static_cast<std::size_t>(problem_.data.train.classes))),
      instance_(++instances) {
  facts_.description =
      fmt::format("{} {} on {}", problem_.hidden.empty() ? "softmax regression" : "MLP",
                  widths_of(layers_), problem_.data.description);
  const DenseLayer& last = layers_.back();
  set_parameters(facts_, last.bias + last.outputs, problem_.wire_parameters);
  for (const DenseLayer& layer : layers_) add_dense_layer(facts_, layer);
  set_samples(facts_, problem_, sampler_);
  facts_.scratch_floats =
      Activations{}.deal(nullptr, layers_,
                         std::max(static_cast<std::size_t>(problem_.batch_size),
                                  std::min(evaluation_block, problem_.data.test.samples)));
  multiplications_ = 3 * facts_.batch_size * count_weights(facts_);
  models_exceed_cache_ =
      2 * facts_.samples.size() * facts_.parameters * sizeof(float) > last_level_cache();
  problem_.parts.clear();  // the sampler has its own copy
  problem_.parts.shrink_to_fit();
}

void Mlp::initial_model(std::span<float> x) const {
  ensure(x.size() == facts_.parameters, "initial_model: wrong size");
  Random random(problem_.seed, "initial model");
  const bool is_normal = !problem_.is_uniform;
  for (const DenseLayer& layer : layers_) {
    const bool is_last = &layer == &layers_.back();
    const double deviation = first_deviation(layer.inputs, layer.outputs, is_last);
    const double bound = 1 / std::sqrt(static_cast<double>(layer.inputs));
    const auto draw = [&] {
      return static_cast<float>(is_normal ? deviation * random.normal()
                                          : bound * (2 * random.uniform() - 1));
    };
    draw_weights(layer.inputs, layer.outputs, &x[layer.weights], draw);
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      x[layer.bias + o] = is_normal ? 0.0f : draw();
    }
  }
}

std::int64_t Mlp::batch_cost(NodeId node, Step draw) const {
  return sampler_.cost(node, draw, problem_.data.train);
}

/// The rows, but x, that a gradient uses and the x of the next one; not what the one before has just used.
dense::Ahead Mlp::list_ahead(const GradientRequest& request, Activations& work) const {
  dense::Ahead ahead{.row = work.soon.data(), .floats = facts_.parameters};
  const auto add = [&](const float* row) {
    const auto end = work.soon.begin() + static_cast<std::ptrdiff_t>(ahead.rows);
    if (row == nullptr || row == request.x || row == work.last_x || end == work.soon.end() ||
        std::find(work.soon.begin(), end, row) != end) {
      return;
    }
    work.soon[ahead.rows++] = row;
  };
  if (facts_.parameters * sizeof(float) <= longest_fetched) {
    add(request.next_x);
    add(request.gradient);
    for (const LinearJob& sum : request.sums) {
      add(sum.out);
      for (std::size_t t = 0; t < sum.terms; ++t) add(request.terms[sum.first_term + t].values);
    }
  }
  work.last_x = request.x;
  return ahead;
}

void Mlp::forward(const float* x, std::size_t batch, const float* input, std::size_t input_stride,
                  Activations& work, const DividedProducts& products, dense::Ahead ahead) const {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const DenseLayer& layer = layers_[l];
    const auto& output = work.input[l + 1];
    products.forward({batch, layer.inputs, layer.outputs}, l == 0 ? input : work.input[l].at,
                     l == 0 ? input_stride : work.input[l].stride, x + layer.weights,
                     x + layer.bias, l + 1 < layers_.size(), output.at, output.stride, &ahead);
  }
}

/// Draws the mini-batch, and copies its samples to where the first layer reads them.
void Mlp::load_batch(const GradientRequest& request, Activations& work) const {
  auto& ahead = work.ahead;
  if (ahead.instance == instance_ && ahead.node == request.node && ahead.draw == request.draw) {
    work.indices.swap(ahead.indices);
  } else {
    sampler_.batch(request.node, request.draw, work.indices);
  }
  ahead.instance = 0;
  const Dataset& train = problem_.data.train;
  const auto& input = work.input[0];
  kernels_.gather(work.indices.size(), train.features, train.x.data(), work.indices.data(),
                  input.at, input.stride);
  for (std::size_t b = 0; b < work.indices.size(); ++b) {
    work.labels[b] = train.y[static_cast<std::size_t>(work.indices[b])];
  }
}

/// Draws the mini-batch that is likely to be the next, and answers its samples.
std::span<const std::int32_t> Mlp::draw_ahead(const GradientRequest& next,
                                              Activations& work) const {
  auto& ahead = work.ahead;
  ahead.indices.resize(work.indices.size());
  sampler_.batch(next.node, next.draw, ahead.indices);
  ahead.instance = instance_;
  ahead.node = next.node;
  ahead.draw = next.draw;
  return ahead.indices;
}

/// Fetches samples of a data set into the cache, a share at a time.
class Mlp::SampleFetch {
 public:
  SampleFetch(const Dataset& data, std::span<const std::int32_t> samples, std::size_t shares)
      : data_(data), left_(samples), share_((samples.size() + shares - 1) / shares) {}
  void fetch_share() {
    const auto now = left_.first(std::min(share_, left_.size()));
    for (const std::int32_t index : now) {
      const auto sample = static_cast<std::size_t>(index);
      prefetch(data_.row(sample).data(), data_.features * sizeof(float));
      prefetch(&data_.y[sample]);
    }
    left_ = left_.subspan(now.size());
  }

 private:
  const Dataset& data_;
  std::span<const std::int32_t> left_;
  std::size_t share_;
};

void Mlp::gradient(GradientRequest& request, const GradientRequest* next, Activations& work,
                   const DividedProducts& products) const {
  const auto batch = static_cast<std::size_t>(problem_.batch_size);
  const Dataset& train = problem_.data.train;
  work.fit(instance_, layers_, batch);
  load_batch(request, work);
  std::span<const std::int32_t> next_samples;
  if (next != nullptr && batch * train.features * sizeof(float) <= most_fetched)
    next_samples = draw_ahead(*next, work);
  // One share after the forward pass, one after the loss, one for each layer of the way back.
  SampleFetch fetch(train, next_samples, layers_.size() + 2);

  forward(request.x, batch, work.input[0].at, work.input[0].stride, work, products,
          list_ahead(request, work));
  fetch.fetch_share();
  const auto& logits = work.input.back();
  kernels_.softmax_cross_entropy(batch, layers_.back().outputs, logits.at, logits.stride,
                                 work.labels.data(), work.losses.data());
  fetch.fetch_share();
  double loss = 0;
  for (const double sample_loss : work.losses) loss += sample_loss;
  request.loss = loss / static_cast<double>(batch);
  backward(request, work, products, fetch);
  // What overflowed on the way may be no gradient.
  if (std::isfinite(request.loss) && products.have_overflowed())
    request.loss = loss_with(is_finite(work), request.loss);
}

/// From the gradient of the logits, which stands in their place, to that of the model, or sums with it.
void Mlp::backward(const GradientRequest& request, Activations& work,
                   const DividedProducts& products, SampleFetch& fetch) const {
  const float* dy = work.input.back().at;
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const DenseLayer& layer = layers_[l];
    const dense::Shape shape{work.labels.size(), layer.inputs, layer.outputs};
    const auto& input = work.input[l];
    const std::size_t dy_stride = work.input[l + 1].stride;
    float* dx = work.slope[l];
    fetch.fetch_share();
    if (l > 0) {  // first, because a sum may take the place of x
      products.input_gradient(shape, dy, dy_stride, request.x + layer.weights, input.at,
                              input.stride, dx);
    }
    if (request.sums.empty()) {
      products.parameter_gradient(shape, input.at, input.stride, dy, dy_stride,
                                  request.gradient + layer.weights, request.gradient + layer.bias);
    } else {
      products.parameter_sums(shape, input.at, input.stride, dy, dy_stride,
                              {.sums = request.sums.data(),
                               .sum_count = request.sums.size(),
                               .terms = request.terms,
                               .weights = layer.weights,
                               .bias = layer.bias,
                               .is_far = models_exceed_cache_});
    }
    dy = dx;
  }
}

/// Whether the gradient is finite whose activations and slopes are there: computes it once more.
bool Mlp::is_finite(const Activations& work) const {
  const auto batch = static_cast<std::size_t>(problem_.batch_size);
  std::vector<float> gradient(facts_.parameters);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const DenseLayer& layer = layers_[l];
    const float* dy = l + 1 < layers_.size() ? work.slope[l + 1] : work.input.back().at;
    kernels_.parameter_gradient({batch, layer.inputs, layer.outputs}, work.input[l].at,
                                work.input[l].stride, dy, work.input[l + 1].stride,
                                &gradient[layer.weights], &gradient[layer.bias]);
  }
  return all_finite(gradient);
}

void Mlp::gradients(std::span<GradientRequest> requests) const {
  ReadyRequests ready(requests);
  gradients_of(ready, requests);
}

void Mlp::gradients_of(RowOwner& owner, std::span<GradientRequest> requests) const {
  for_all_of<Activations>(owner, requests.size(), multiplications_,
                          [&](GradientRequest& request, Activations& work, Crew::Member* member) {
                            gradient(request, &request < &requests.back() ? &request + 1 : nullptr,
                                     work, {kernels_, member});
                          });
}

Score Mlp::score(const float* x, std::size_t first, std::size_t count, Activations& work) const {
  const Dataset& test = problem_.data.test;
  work.fit(instance_, layers_, count);
  forward(x, count, test.row(first).data(), test.features, work, {kernels_, nullptr}, {});
  const auto& logits = work.input.back();
  return score_logits(kernels_, layers_.back().outputs, logits.at, logits.stride,
                      test.y.data() + first, work.losses);
}

void Mlp::evaluate(std::span<EvaluationRequest> requests) const {
  const std::size_t samples = problem_.data.test.samples;
  const std::size_t blocks = (samples + evaluation_block - 1) / evaluation_block;
  std::vector<Score> scores(requests.size() * blocks);  // (requests, blocks)
  const double multiplications =
      count_weights(facts_) * static_cast<double>(std::min(evaluation_block, samples));
  for_all<Activations>(scores.size(), multiplications, [&](std::size_t i, Activations& work) {
    const std::size_t first = i % blocks * evaluation_block;
    scores[i] =
        score(requests[i / blocks].x, first, std::min(evaluation_block, samples - first), work);
  });
  answer(requests, scores);
}

namespace workloads {

std::unique_ptr<Workload> make_mlp(const Section& section, std::vector<std::size_t> hidden,
                                   NodeId nodes, std::uint64_t seed) {
  Mlp::Problem problem;
  problem.hidden = std::move(hidden);
  problem.seed = seed;
  problem.batch_size = read_batch_size(section);
  problem.is_uniform = read_is_uniform(section);
  const SampleSettings settings = read_samples(section, problem);

  problem.data = load_samples(section, settings, seed);
  deal_samples(section, settings.partition, nodes, problem);
  return std::make_unique<Mlp>(std::move(problem));
}

std::unique_ptr<Workload> mlp(const Section& section, NodeId nodes, std::uint64_t seed) {
  std::vector<std::size_t> hidden =
      read_hidden(section, {32}, "widths of the hidden layers, from the input on");
  return make_mlp(section, std::move(hidden), nodes, seed);
}

}  // namespace workloads
}  // namespace starling
