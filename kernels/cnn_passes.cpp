// Forward and backward passes through a convolutional network, step by step.
#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "kernels/cnn_network.hpp"
#include "kernels/divided_products.hpp"

namespace starling {
namespace {

struct Border {
  std::size_t top, left, height, width;  // height and width: of the whole
};

/// `to` = zeros, and in it the pixels of `from`, `spread` apart.
void frame(const float* from, Extent extent, std::size_t spread, Border border, float* to) {
  const std::size_t channels = extent.channels;
  std::fill_n(to, border.height * border.width * channels, 0.0f);
  for (std::size_t row = 0; row < extent.height; ++row) {
    float* line = to + ((border.top + row * spread) * border.width + border.left) * channels;
    const float* source = from + row * extent.width * channels;
    if (spread == 1) {
      std::copy_n(source, extent.width * channels, line);
      continue;
    }
    for (std::size_t column = 0; column < extent.width; ++column) {
      std::copy_n(source + column * channels, channels, line + column * spread * channels);
    }
  }
}

/// Weights of the convolution that takes the gradient of y to that of x: the kernel turned by half a
/// turn, inputs and outputs exchanged.
void flip(const dense::Convolution& shape, const float* weights, float* flipped) {
  const std::size_t places = shape.kernel_height * shape.kernel_width;
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t c = 0; c < shape.channels; ++c) {
      for (std::size_t o = 0; o < shape.outputs; ++o) {
        flipped[dense::weight_index(places * shape.outputs, shape.channels,
                                    (places - 1 - place) * shape.outputs + o, c)] =
            weights[dense::weight_index(shape.inputs(), shape.outputs, place * shape.channels + c,
                                        o)];
      }
    }
  }
}

/// Calls pass(first sample, end) for what a stage is cut into.
template <class Pass>
void run_stage(bool is_local, std::size_t batch, Crew::Member* member, const Pass& pass) {
  if (!is_local) return pass(0, 1);
  if (member == nullptr) return pass(0, batch);
  member->split(batch, [&](std::size_t sample) { pass(sample, sample + 1); });
}

}  // namespace

/// What all operations of a pass see. Each has forward(), prepare() where its gradient is summed over
/// samples, and backward(), for one sample, or, if it joins samples, for all of them as sample 0.
struct CnnNetwork::Passes {
  const CnnNetwork& network;
  const dense::Kernels& kernels;
  const float* x;
  const Chance& chance;
  Mode mode;
  Work& work;
  float* gradient;
  Crew::Member* member;  // of the thread that has the gradient; null: it does all
  Turns* turns;          // of operations; null: as if it was anybody's turn
  SampleWork& own = network.sample_work();
  const dense::ImageKernels& images = kernels.images;

  float* value(std::size_t buffer, std::size_t sample) const {
    return work.values[buffer].at + sample * work.values[buffer].stride;
  }
  float* slope(std::size_t buffer, std::size_t sample) const {
    const Work::Rows& rows = work.slopes[buffer];
    return rows.at == nullptr ? own.slopes[buffer] : rows.at + sample * rows.stride;
  }
  /// Calls add(), which adds to gradients of parameters, after all samples before this one.
  template <class Add>
  void in_turn(const Placed& place, std::size_t sample, const Add& add) const {
    if (turns == nullptr) return add();
    turns->take(static_cast<std::size_t>(&place - network.operations_.data()), sample, add);
  }

  // --- Operation by operation -------------------------------------------------------------------

  void forward(const Stage& stage, std::size_t first, std::size_t end) const {
    for (std::size_t sample = first; sample < end; ++sample) {
      for (std::size_t i = stage.begin; i < stage.end; ++i) {
        const Placed& place = network.operations_[i];
        std::visit([&](const auto& o) { forward(o, place, sample); }, place.operation);
      }
    }
  }

  void prepare() const {
    for (const Placed& place : network.operations_) {
      std::visit([&](const auto& o) { prepare(o, place); }, place.operation);
    }
  }

  void backward(const Stage& stage, std::size_t first, std::size_t end) const {
    for (std::size_t sample = first; sample < end; ++sample) {
      for (std::size_t i = stage.end; i-- > stage.begin;) {
        const Placed& place = network.operations_[i];
        std::visit([&](const auto& o) { backward(o, place, sample); }, place.operation);
      }
    }
  }

  template <class Operation>
  void prepare(const Operation&, const Placed&) const {}

  // --- Convolve ---------------------------------------------------------------------------------

  /// The input with its border.
  const float* framed_input(const Convolve& o, const Placed& place, std::size_t sample) const {
    const float* from = value(place.input, sample);
    if (o.border_height == 0 && o.border_width == 0) return from;
    frame(from, place.from, 1, {o.border_height, o.border_width, o.shape.height, o.shape.width},
          own.framed);
    return own.framed;
  }

  void forward(const Convolve& o, const Placed& place, std::size_t sample) const {
    images.convolve(o.shape, framed_input(o, place, sample), x + o.weights,
                    o.is_biased ? x + o.bias : work.zeros, value(place.output, sample));
  }

  void prepare(const Convolve& o, const Placed& place) const {
    std::fill_n(gradient + o.weights, o.shape.inputs() * o.shape.outputs, 0.0f);
    if (o.is_biased) std::fill_n(gradient + o.bias, o.shape.outputs, 0.0f);
    if (place.input != 0) flip(o.shape, x + o.weights, work.flipped + o.flipped);
  }

  void backward(const Convolve& o, const Placed& place, std::size_t sample) const {
    const float* dy = slope(place.output, sample);
    const float* from = framed_input(o, place, sample);
    in_turn(place, sample, [&] {
      images.convolution_gradient(o.shape, from, dy, gradient + o.weights,
                                  o.is_biased ? gradient + o.bias : nullptr);
    });
    if (place.input == 0) return;
    const dense::Convolution back{.height = place.from.height + o.shape.kernel_height - 1,
                                  .width = place.from.width + o.shape.kernel_width - 1,
                                  .channels = o.shape.outputs,
                                  .kernel_height = o.shape.kernel_height,
                                  .kernel_width = o.shape.kernel_width,
                                  .stride = 1,
                                  .outputs = o.shape.channels};
    frame(dy, place.to, o.shape.stride,
          {o.shape.kernel_height - 1 - o.border_height, o.shape.kernel_width - 1 - o.border_width,
           back.height, back.width},
          own.framed);
    images.convolve(back, own.framed, work.flipped + o.flipped,
                    place.adds_slope ? nullptr : work.zeros, slope(place.input, sample));
  }

  // --- Dense ------------------------------------------------------------------------------------

  void forward(const Dense& o, const Placed& place, std::size_t) const {
    const auto& input = work.values[place.input];
    const auto& output = work.values[place.output];
    DividedProducts(kernels, member)
        .forward({work.batch, o.inputs, o.outputs}, input.at, input.stride, x + o.weights,
                 x + o.bias, false, output.at, output.stride);
  }

  void backward(const Dense& o, const Placed& place, std::size_t) const {
    const dense::Shape shape{work.batch, o.inputs, o.outputs};
    const auto& input = work.values[place.input];
    const auto& dy = o.is_last ? work.values[place.output] : work.slopes[place.output];
    const DividedProducts products(kernels, member);
    products.parameter_gradient(shape, input.at, input.stride, dy.at, dy.stride,
                                gradient + o.weights, gradient + o.bias);
    if (place.input == 0) return;
    const auto& dx = work.slopes[place.input];
    products.input_gradient(shape, dy.at, dy.stride, x + o.weights, nullptr, dx.stride, dx.at);
  }

  // --- Normalize: `sample` is 0 and the image the whole batch for batch normalization -----------

  dense::Normalization shape_of(const Normalize& o, const Placed& place) const {
    const std::size_t samples = o.groups == 0 ? work.batch : 1;
    return {samples * place.from.pixels(), place.from.channels,
            o.groups == 0 ? place.from.channels : o.groups};
  }

  void forward(const Normalize& o, const Placed& place, std::size_t sample) const {
    const std::size_t at = sample * network.channels_normalized_ + o.statistics;
    const float* from = value(place.input, sample);
    if (o.groups > 0 || mode != Mode::evaluate) {
      images.moments(shape_of(o, place), from, own.sums.data(), work.mean + at, work.rate + at);
    }
    images.normalize(shape_of(o, place), from, work.mean + at, work.rate + at, x + o.scale,
                     x + o.shift, value(place.output, sample));
  }

  void prepare(const Normalize& o, const Placed& place) const {
    std::fill_n(gradient + o.scale, place.from.channels, 0.0f);
    std::fill_n(gradient + o.shift, place.from.channels, 0.0f);
  }

  void backward(const Normalize& o, const Placed& place, std::size_t sample) const {
    const std::size_t at = sample * network.channels_normalized_ + o.statistics;
    in_turn(place, sample, [&] {
      images.normalize_gradient(shape_of(o, place), value(place.input, sample), work.mean + at,
                                work.rate + at, x + o.scale, slope(place.output, sample),
                                own.sums.data(), own.shares, gradient + o.scale, gradient + o.shift,
                                slope(place.input, sample));
    });
  }

  // --- What has no parameters -------------------------------------------------------------------

  void forward(const Relu&, const Placed& place, std::size_t sample) const {
    images.relu(value(place.output, sample), place.to.size());
  }
  void backward(const Relu&, const Placed& place, std::size_t sample) const {
    images.relu_gradient(value(place.output, sample), slope(place.output, sample), place.to.size());
  }

  void forward(const Pool& o, const Placed& place, std::size_t sample) const {
    images.max_pool(place.from.height, place.from.width, place.from.channels, o.window,
                    value(place.input, sample), value(place.output, sample));
  }
  void backward(const Pool& o, const Placed& place, std::size_t sample) const {
    images.max_pool_gradient(place.from.height, place.from.width, place.from.channels, o.window,
                             value(place.input, sample), slope(place.output, sample),
                             slope(place.input, sample));
  }

  void forward(const Average&, const Placed& place, std::size_t sample) const {
    images.average(place.from.pixels(), place.from.channels, value(place.input, sample),
                   value(place.output, sample));
  }
  void backward(const Average&, const Placed& place, std::size_t sample) const {
    images.average_gradient(place.from.pixels(), place.from.channels, slope(place.output, sample),
                            slope(place.input, sample));
  }

  void forward(const Dropout& o, const Placed& place, std::size_t sample) const {
    if (mode != Mode::train) return;
    Random random = dropout_stream(chance, o.layer, sample);
    const float grown = 65536.0f / static_cast<float>(65536 - o.threshold);
    float* y = value(place.output, sample);
    float* factors = value(o.factors, sample);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < place.to.size(); ++i) {
      bits = i % 2 == 0 ? random() : bits >> 16;
      factors[i] = (bits & 0xFFFFu) < o.threshold ? 0 : grown;
      y[i] *= factors[i];
    }
  }
  void backward(const Dropout& o, const Placed& place, std::size_t sample) const {
    float* dy = slope(place.output, sample);
    const float* factors = value(o.factors, sample);
    for (std::size_t i = 0; i < place.to.size(); ++i) dy[i] *= factors[i];
  }

  void forward(const Add& o, const Placed& place, std::size_t sample) const {
    images.add(value(place.input, sample), value(o.other, sample), value(place.output, sample),
               place.to.size());
  }
  void backward(const Add& o, const Placed& place, std::size_t sample) const {
    const float* dy = slope(place.output, sample);
    std::copy_n(dy, place.to.size(), slope(place.input, sample));
    std::copy_n(dy, place.to.size(), slope(o.other, sample));
  }
};

Random CnnNetwork::dropout_stream(const Chance& chance, std::size_t layer, std::size_t sample) {
  return {chance.seed, fmt::format("dropout in layer {}, sample {}", layer, sample), chance.node,
          chance.draw};
}

void CnnNetwork::forward(const dense::Kernels& kernels, const float* x, const Chance& chance,
                         Mode mode, Work& work, Crew::Member* member) const {
  const auto passes = [&] {
    return Passes{*this, kernels, x, chance, mode, work, nullptr, member, nullptr};
  };
  for (const Stage& stage : stages_) {
    run_stage(stage.is_local, work.batch, member,
              [&](std::size_t first, std::size_t end) { passes().forward(stage, first, end); });
  }
}

void CnnNetwork::backward(const dense::Kernels& kernels, const float* x, Work& work,
                          float* gradient, Crew::Member* member) const {
  constexpr Chance no_chance{};  // backward draws nothing
  std::optional<Turns> turns;
  if (member != nullptr) turns.emplace(*member, operations_.size());
  const auto passes = [&] {
    return Passes{*this,     kernels,     x,
                  no_chance, Mode::train, work,
                  gradient,  member,      turns ? &*turns : nullptr};
  };
  passes().prepare();
  for (std::size_t s = stages_.size(); s-- > 0;) {
    run_stage(stages_[s].is_local, work.batch, member, [&](std::size_t first, std::size_t end) {
      passes().backward(stages_[s], first, end);
    });
  }
}

}  // namespace starling
