// From layers to operations: shapes, places in the model, buffers. Passes are in cnn_passes.cpp.
#include "kernels/cnn_network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/core.h>

#include "kernels/model_facts.hpp"
#include "kernels/scratch.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

constexpr std::size_t most_numbers = (std::size_t{1} << 31) - 1;  // parameters, floats of a layer

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw std::invalid_argument(fmt::format(format, std::forward<Args>(args)...));
}

template <class T>
bool is(const CnnNetwork::Operation& operation) {
  return std::holds_alternative<T>(operation);
}

/// Works on all samples at once: a product that reads its weights once, or sums over the batch.
bool joins_samples(const CnnNetwork::Operation& operation) {
  const auto* normalize = std::get_if<CnnNetwork::Normalize>(&operation);
  return is<CnnNetwork::Dense>(operation) || (normalize != nullptr && normalize->groups == 0);
}

}  // namespace

/// Appends operations; `at` is the buffer that the next one reads, `extent` its shape.
struct CnnNetwork::Builder {
  CnnNetwork& network;
  const CnnLayer* layer = nullptr;  // being built, for messages
  std::size_t number = 0;           // of it, from 1
  std::size_t at = 0;
  Extent extent;

  std::size_t new_buffer(std::size_t size) {
    network.buffers_.push_back({.size = size});
    return network.buffers_.size() - 1;
  }

  std::size_t new_parameters(std::size_t count) {
    const std::size_t first = network.parameters_;
    network.parameters_ += count;
    if (network.parameters_ > most_numbers) {
      refuse("must have at most {} parameters, got more at layer {}, `{}`", most_numbers, number,
             layer->text);
    }
    return first;
  }

  void push(Operation operation, Extent to) {
    if (to.size() > most_numbers) {
      refuse("must have at most {} numbers per sample between layers, got {} after layer {}, `{}`",
             most_numbers, to.size(), number, layer->text);
    }
    const std::size_t output = new_buffer(to.size());
    network.operations_.push_back({operation, at, output, extent, to});
    at = output;
    extent = to;
  }

  void push_in_place(Operation operation) {
    network.operations_.push_back({operation, at, at, extent, extent});
  }

  void convolve(const CnnLayer& with) {
    Convolve operation{.shape = {.height = extent.height,
                                 .width = extent.width,
                                 .channels = extent.channels,
                                 .kernel_height = with.kernel_height,
                                 .kernel_width = with.kernel_width,
                                 .stride = with.stride,
                                 .outputs = with.count},
                       .border_height = with.same ? with.kernel_height / 2 : 0,
                       .border_width = with.same ? with.kernel_width / 2 : 0,
                       .is_biased = !with.unbiased};
    dense::Convolution& shape = operation.shape;
    if (with.same && (shape.kernel_height % 2 == 0 || shape.kernel_width % 2 == 0)) {
      refuse("must have kernels of odd height and width with `same`, got layer {}, `{}`", number,
             layer->text);
    }
    shape.height += 2 * operation.border_height;
    shape.width += 2 * operation.border_width;
    if (shape.kernel_height > shape.height || shape.kernel_width > shape.width) {
      refuse("must have kernels that fit into the image, got layer {}, `{}`, on {} x {}", number,
             layer->text, extent.height, extent.width);
    }
    operation.weights = new_parameters(shape.inputs() * shape.outputs);
    operation.bias = operation.is_biased ? new_parameters(shape.outputs) : 0;
    operation.flipped = network.flipped_size_;
    network.flipped_size_ += shape.inputs() * shape.outputs;
    const std::size_t back =
        (extent.height + shape.kernel_height) * (extent.width + shape.kernel_width) * shape.outputs;
    network.framed_size_ =
        std::max({network.framed_size_, shape.height * shape.width * shape.channels, back});
    push(operation, {shape.out_height(), shape.out_width(), shape.outputs});
  }

  /// `groups` 0: over the mini-batch.
  void normalize(std::size_t groups) {
    if (groups > 0 && extent.channels % groups != 0) {
      refuse("must have groups that divide the channels, got layer {}, `{}`, on {} channels",
             number, layer->text, extent.channels);
    }
    const std::size_t pixels = extent.height * extent.width;
    if (groups > 0 && pixels * extent.channels / groups == 1) {
      refuse(
          "must have groups of more than one number, which is 0 when normalized, got layer {}, "
          "`{}`, on 1 x 1 x {}",
          number, layer->text, extent.channels);
    }
    network.normalizes_over_samples_alone_ |= groups == 0 && pixels == 1;
    const std::size_t statistics = network.channels_normalized_;
    network.channels_normalized_ += extent.channels;
    network.has_batch_normalization_ |= groups == 0;
    const std::size_t scale = new_parameters(extent.channels);
    const std::size_t shift = new_parameters(extent.channels);
    push(Normalize{groups, scale, shift, statistics}, extent);
  }

  void dense(std::size_t outputs, bool is_last) {
    const std::size_t inputs = extent.size();
    const std::size_t weights = new_parameters(inputs * outputs);
    const std::size_t bias = new_parameters(outputs);
    push(Dense{{inputs, outputs, weights, bias}, is_last}, {1, 1, outputs});
  }

  void residual(const CnnLayer& with) {
    const std::size_t begin = at;
    const Extent before = extent;
    CnnLayer inner{.kind = CnnLayer::Kind::conv,
                   .count = with.count,
                   .kernel_height = 3,
                   .kernel_width = 3,
                   .stride = with.stride,
                   .same = true,
                   .unbiased = true};
    const std::size_t first = network.operations_.size();
    convolve(inner);
    network.operations_[first].adds_slope = true;  // after the shortcut
    normalize(with.groups);
    push_in_place(Relu{});
    inner.stride = 1;
    convolve(inner);
    normalize(with.groups);
    const std::size_t branch = at;
    std::size_t shortcut = begin;
    if (extent != before) {
      at = begin;
      extent = before;
      inner.kernel_height = inner.kernel_width = 1;
      inner.stride = with.stride;
      convolve(inner);
      normalize(with.groups);
      shortcut = at;
      at = branch;
    }
    push(Add{shortcut}, extent);
    push_in_place(Relu{});
  }

  void append(const CnnLayer& next) {
    using Kind = CnnLayer::Kind;
    layer = &next;
    ++number;
    switch (next.kind) {
      case Kind::conv:
        return convolve(next);
      case Kind::relu:
        return push_in_place(Relu{});
      case Kind::pool:
        if (next.count > extent.height || next.count > extent.width) {
          refuse("must have pools that fit into the image, got layer {}, `{}`, on {} x {}", number,
                 next.text, extent.height, extent.width);
        }
        return push(Pool{next.count},
                    {extent.height / next.count, extent.width / next.count, extent.channels});
      case Kind::average:
        return push(Average{}, {1, 1, extent.channels});
      case Kind::batchnorm:
        return normalize(0);
      case Kind::groupnorm:
        return normalize(next.groups);
      case Kind::dropout: {
        const auto threshold = static_cast<std::uint32_t>(std::lround(next.rate * 65536));
        return push_in_place(
            Dropout{std::min(threshold, 65535u), new_buffer(extent.size()), number});
      }
      case Kind::dense:
        return dense(next.count, false);
      case Kind::residual:
        return residual(next);
    }
  }
};

CnnNetwork::CnnNetwork(const std::vector<CnnLayer>& layers, Extent image, std::size_t classes)
    : image_(image), classes_(classes) {
  Builder builder{.network = *this, .at = 0, .extent = image};
  builder.new_buffer(image.size());
  for (const CnnLayer& layer : layers) builder.append(layer);
  const CnnLayer last{.kind = CnnLayer::Kind::dense, .text = "to the classes"};
  builder.layer = &last;
  ++builder.number;
  builder.dense(classes, true);
  plan_stages();
  plan_buffers();
}

void CnnNetwork::plan_stages() {
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const bool is_local = !joins_samples(operations_[i].operation);
    if (is_local && !stages_.empty() && stages_.back().is_local) {
      stages_.back().end = i + 1;
    } else {
      stages_.push_back({i, i + 1, is_local});
    }
  }
}

void CnnNetwork::plan_buffers() {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct Use {
    std::size_t first_stage = none, last_stage = 0;
    bool by_dense = false, by_batch_normalization = false;
  };
  std::vector<Use> uses(buffers_.size());
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    for (std::size_t i = stages_[stage].begin; i < stages_[stage].end; ++i) {
      const Placed& place = operations_[i];
      const auto touch = [&](std::size_t buffer) {
        Use& use = uses[buffer];
        use.first_stage = std::min(use.first_stage, stage);
        use.last_stage = stage;
        use.by_dense |= is<Dense>(place.operation);
        use.by_batch_normalization |=
            is<Normalize>(place.operation) && joins_samples(place.operation);
      };
      touch(place.input);
      touch(place.output);
      if (const auto* add = std::get_if<Add>(&place.operation)) touch(add->other);
      if (const auto* dropout = std::get_if<Dropout>(&place.operation)) {
        buffers_[dropout->factors].has_slope = false;
      }
      widest_ = std::max({widest_, place.from.channels, place.to.channels});
    }
  }
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const Use& use = uses[b];
    // Batch normalization sees the mini-batch as one image, so nothing may lie between the samples;
    // rows of a product lie better off multiples of 1 KiB (dense::row_stride).
    const bool is_padded = use.by_dense && !use.by_batch_normalization;
    buffers_[b].stride = is_padded ? dense::row_stride(buffers_[b].size) : buffers_[b].size;
    buffers_[b].is_local = use.first_stage == use.last_stage && stages_[use.first_stage].is_local;
  }
}

std::size_t CnnNetwork::multiplications() const {
  std::size_t sum = 0;
  for (const Placed& place : operations_) {
    if (const auto* convolve = std::get_if<Convolve>(&place.operation)) {
      sum += place.to.pixels() * convolve->shape.inputs() * convolve->shape.outputs;
    } else if (const auto* dense = std::get_if<Dense>(&place.operation)) {
      sum += dense->inputs * dense->outputs;
    }
  }
  return sum;
}

void CnnNetwork::add_tensors(WorkloadFacts& facts) const {
  for (const Placed& place : operations_) {
    if (const auto* convolve = std::get_if<Convolve>(&place.operation)) {
      add_weights(facts, convolve->weights, convolve->shape.inputs(), convolve->shape.outputs);
      if (convolve->is_biased) facts.tensors.push_back(convolve->shape.outputs);
    } else if (const auto* dense = std::get_if<Dense>(&place.operation)) {
      add_dense_layer(facts, *dense);
    } else if (std::holds_alternative<Normalize>(place.operation)) {
      facts.tensors.insert(facts.tensors.end(), {place.from.channels, place.from.channels});
    }
  }
}

void CnnNetwork::initial_model(std::uint64_t seed, bool is_uniform, std::span<float> x) const {
  Random random(seed, "initial model");
  const auto uniform = [&](std::size_t inputs) {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    return static_cast<float>(bound * (2 * random.uniform() - 1));
  };
  const auto draw = [&](std::size_t inputs, std::size_t outputs, std::size_t weights,
                        bool is_last) {
    const double deviation = first_deviation(inputs, outputs, is_last);
    draw_weights(inputs, outputs, &x[weights], [&] {
      return is_uniform ? uniform(inputs) : static_cast<float>(deviation * random.normal());
    });
  };
  const auto draw_bias = [&](std::size_t inputs, std::size_t outputs, std::size_t bias) {
    if (!is_uniform) return;
    for (std::size_t o = 0; o < outputs; ++o) x[bias + o] = uniform(inputs);
  };
  std::fill(x.begin(), x.end(), 0.0f);
  for (const Placed& place : operations_) {
    if (const auto* convolve = std::get_if<Convolve>(&place.operation)) {
      const std::size_t inputs = convolve->shape.inputs();
      draw(inputs, convolve->shape.outputs, convolve->weights, false);
      if (convolve->is_biased) draw_bias(inputs, convolve->shape.outputs, convolve->bias);
    } else if (const auto* dense = std::get_if<Dense>(&place.operation)) {
      draw(dense->inputs, dense->outputs, dense->weights, dense->is_last);
      draw_bias(dense->inputs, dense->outputs, dense->bias);
    } else if (const auto* normalize = std::get_if<Normalize>(&place.operation)) {
      std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(normalize->scale), place.from.channels,
                  1.0f);
    }
  }
}

std::size_t CnnNetwork::deal(Work& work, float* base, std::size_t batch,
                             bool is_backward_too) const {
  ScratchDealer floats(base);
  work.values.resize(buffers_.size());
  work.slopes.resize(buffers_.size());
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& buffer = buffers_[b];
    work.values[b] = {floats(batch * buffer.stride), buffer.stride};
    const bool has_slopes = is_backward_too && buffer.has_slope && !buffer.is_local;
    work.slopes[b] = {has_slopes ? floats(batch * buffer.stride) : nullptr, buffer.stride};
  }
  work.flipped = floats(is_backward_too ? flipped_size_ : 0);
  work.zeros = floats(widest_);
  work.mean = floats(batch * channels_normalized_);
  work.rate = floats(batch * channels_normalized_);
  return floats.used();
}

std::size_t CnnNetwork::deal(SampleWork& own, float* base) const {
  ScratchDealer floats(base);
  own.slopes.resize(buffers_.size());
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& buffer = buffers_[b];
    own.slopes[b] = buffer.has_slope && buffer.is_local ? floats(buffer.stride) : nullptr;
  }
  own.framed = floats(framed_size_);
  own.shares = floats(2 * widest_);
  return floats.used();
}

CnnNetwork::SampleWork& CnnNetwork::sample_work() const {
  thread_local SampleWork own;  // lives on between calls
  deal_out(own.floats, [&](float* base) { return deal(own, base); });
  own.sums.resize(2 * widest_);
  return own;
}

std::size_t CnnNetwork::work_floats(std::size_t batch, bool is_backward_too) const {
  Work nobodys{};
  SampleWork nobodys_either{};
  return deal(nobodys, nullptr, batch, is_backward_too) + deal(nobodys_either, nullptr);
}

void CnnNetwork::fit(Work& work, std::size_t batch, bool is_backward_too) const {
  deal_out(work.floats, [&](float* base) { return deal(work, base, batch, is_backward_too); });
  std::fill_n(work.zeros, widest_, 0.0f);
  work.batch = batch;
  work.indices.resize(batch);
  work.labels.resize(batch);
  work.losses.resize(batch);
}

}  // namespace starling
