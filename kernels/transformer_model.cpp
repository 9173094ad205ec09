#include "kernels/transformer_model.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/model_facts.hpp"
#include "kernels/scratch.hpp"
#include "sim/base/error.hpp"

namespace starling {
namespace {

/// out = a + b, row by row.
void add(std::size_t rows, std::size_t columns, TransformerModel::Matrix a,
         TransformerModel::Matrix b, TransformerModel::Matrix out) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float *left = a.row(r), *right = b.row(r);
    float* to = out.row(r);
    for (std::size_t o = 0; o < columns; ++o) to[o] = left[o] + right[o];
  }
}

}  // namespace

TransformerModel::TransformerModel(TransformerShape shape, const dense::Kernels& kernels)
    : shape_(shape), kernels_(kernels) {
  ensure(shape.width % shape.heads == 0, "heads must divide the width of a transformer");
  const std::size_t width = shape.width;
  std::size_t at = (shape.vocabulary + shape.context) * width;
  const auto norm = [&] {
    at += 2 * width;
    return at - 2 * width;
  };
  const auto connected = [&at](std::size_t inputs, std::size_t outputs) {
    return next_layer(inputs, outputs, at);
  };
  for (std::size_t l = 0; l < shape.layers; ++l) {
    Layer layer{};
    layer.attention_norm = norm();
    layer.qkv = connected(width, 3 * width);
    layer.project = connected(width, width);
    layer.mlp_norm = norm();
    layer.expand = connected(width, 4 * width);
    layer.contract = connected(4 * width, width);
    layers_.push_back(layer);
  }
  output_norm_ = norm();
  head_ = connected(width, shape.classes);
  parameters_ = at;
}

void TransformerModel::add_tensors(WorkloadFacts& facts) const {
  const std::size_t width = shape_.width;
  const auto norm = [&] { facts.tensors.insert(facts.tensors.end(), {width, width}); };
  const auto connected = [&facts](const DenseLayer& layer) { add_dense_layer(facts, layer); };
  facts.tensors.insert(facts.tensors.end(), {shape_.vocabulary * width, shape_.context * width});
  for (const Layer& layer : layers_) {
    norm();
    connected(layer.qkv);
    connected(layer.project);
    norm();
    connected(layer.expand);
    connected(layer.contract);
  }
  norm();
  connected(head_);
}

void TransformerModel::initialize(std::span<float> x, Random random) const {
  ensure(x.size() == parameters_, "initialize: wrong size");
  std::fill(x.begin(), x.end(), 0.0f);
  const auto draw = [&random](double deviation) {
    return static_cast<float>(deviation * random.normal());
  };
  const auto weights = [&](const DenseLayer& layer, double factor) {
    const double deviation = factor / std::sqrt(static_cast<double>(layer.inputs));
    draw_weights(layer.inputs, layer.outputs, &x[layer.weights], [&] { return draw(deviation); });
  };
  const auto gain = [&](std::size_t norm) {
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(norm), shape_.width, 1.0f);
  };
  for (float& value : x.first((shape_.vocabulary + shape_.context) * shape_.width))
    value = draw(0.1);
  const double into_residual = 1 / std::sqrt(2.0 * static_cast<double>(shape_.layers));
  for (const Layer& layer : layers_) {
    gain(layer.attention_norm);
    weights(layer.qkv, 1);
    weights(layer.project, into_residual);
    gain(layer.mlp_norm);
    weights(layer.expand, 1);
    weights(layer.contract, into_residual);
  }
  gain(output_norm_);
  weights(head_, 0.1);
}

std::size_t TransformerModel::deal(Work& work, float* base, const Extent& batch, bool keeps) const {
  const auto [sequences, tokens, longest] = batch;
  const std::size_t width = shape_.width;
  ScratchDealer floats(base);
  const auto matrix = [&](std::size_t rows, std::size_t columns) {
    const std::size_t stride = dense::row_stride(columns);
    return Matrix{floats(rows * stride), stride};
  };
  work.kept.resize(keeps ? layers_.size() : 1);
  for (Kept& kept : work.kept) {
    kept.input = matrix(tokens, width);
    kept.input_normed = matrix(tokens, width);
    kept.qkv = matrix(tokens, 3 * width);
    kept.attended = matrix(tokens, width);
    kept.middle = matrix(tokens, width);
    kept.middle_normed = matrix(tokens, width);
    kept.expanded = matrix(tokens, 4 * width);
    kept.activated = matrix(tokens, 4 * width);
    kept.input_moments = floats(2 * tokens);
    kept.middle_moments = floats(2 * tokens);
  }
  work.output = matrix(tokens, width);
  work.output_normed = matrix(tokens, width);
  work.output_moments = floats(2 * tokens);
  work.pooled = matrix(sequences, width);
  work.logits = matrix(outputs(batch), shape_.classes);
  work.branch = matrix(tokens, width);
  work.scratch = floats(dense::attention_scratch(longest, head_width()));
  if (!keeps) return floats.used();
  work.slope = matrix(tokens, width);
  work.normed_slope = matrix(tokens, width);
  work.wide_slope = matrix(tokens, 4 * width);
  work.qkv_slope = matrix(tokens, 3 * width);
  return floats.used();
}

std::size_t TransformerModel::work_floats(const Extent& batch) const {
  Work nobodys{};
  return deal(nobodys, nullptr, batch, true);
}

void TransformerModel::fit(Work& work, bool keeps) const {
  Extent batch{work.batch.begin.size() - 1, work.batch.tokens.size(), 0};
  for (std::size_t s = 0; s < batch.sequences; ++s)
    batch.longest = std::max(batch.longest, work.batch.begin[s + 1] - work.batch.begin[s]);
  deal_out(work.floats, [&](float* base) { return deal(work, base, batch, keeps); });
  work.losses.resize(outputs(batch));
}

void TransformerModel::run(const DenseLayer& layer, const float* x, std::size_t rows, Matrix in,
                           Matrix out) const {
  kernels_.forward({rows, layer.inputs, layer.outputs}, in.at, in.stride, x + layer.weights,
                   x + layer.bias, false, out.at, out.stride);
}

void TransformerModel::run_back(const DenseLayer& layer, const float* x, std::size_t rows,
                                Matrix in, Matrix out_slope, Matrix slope, float* gradient) const {
  const dense::Shape shape{rows, layer.inputs, layer.outputs};
  kernels_.parameter_gradient(shape, in.at, in.stride, out_slope.at, out_slope.stride,
                              gradient + layer.weights, gradient + layer.bias);
  kernels_.input_gradient(shape, out_slope.at, out_slope.stride, x + layer.weights, nullptr,
                          slope.stride, slope.at);
}

void TransformerModel::embed(const float* x, const PackedBatch& batch, Matrix out) const {
  for (std::size_t s = 0; s + 1 < batch.begin.size(); ++s) {
    const float* position = x + position_embedding();
    for (std::size_t r = batch.begin[s]; r < batch.begin[s + 1]; ++r, position += shape_.width) {
      const float* token = x + static_cast<std::size_t>(batch.tokens[r]) * shape_.width;
      float* to = out.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) to[o] = token[o] + position[o];
    }
  }
}

void TransformerModel::embedding_gradient(const Work& work, float* gradient) const {
  std::fill_n(gradient, (shape_.vocabulary + shape_.context) * shape_.width, 0.0f);
  const PackedBatch& batch = work.batch;
  for (std::size_t s = 0; s + 1 < batch.begin.size(); ++s) {
    float* position = gradient + position_embedding();
    for (std::size_t r = batch.begin[s]; r < batch.begin[s + 1]; ++r, position += shape_.width) {
      float* token = gradient + static_cast<std::size_t>(batch.tokens[r]) * shape_.width;
      const float* slope = work.slope.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) {
        token[o] += slope[o];
        position[o] += slope[o];
      }
    }
  }
}

void TransformerModel::run_layer(const float* x, const Layer& layer, const Kept& kept, Matrix out,
                                 Work& work) const {
  const std::size_t tokens = work.batch.tokens.size(), width = shape_.width;
  kernels_.sequences.layer_norm(tokens, width, kept.input.at, kept.input.stride,
                                x + layer.attention_norm, kept.input_normed.at, kept.input_moments);
  run(layer.qkv, x, tokens, kept.input_normed, kept.qkv);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width()));
  for (std::size_t s = 0; s + 1 < work.batch.begin.size(); ++s) {
    const std::size_t first = work.batch.begin[s], length = work.batch.begin[s + 1] - first;
    for (std::size_t c = 0; c < width; c += head_width()) {
      const float* q = kept.qkv.row(first) + c;
      kernels_.sequences.attention({length, head_width(), scale}, q, q + width, q + 2 * width,
                                   kept.qkv.stride, kept.attended.row(first) + c,
                                   kept.attended.stride, work.scratch);
    }
  }
  run(layer.project, x, tokens, kept.attended, work.branch);
  add(tokens, width, kept.input, work.branch, kept.middle);

  kernels_.sequences.layer_norm(tokens, width, kept.middle.at, kept.middle.stride,
                                x + layer.mlp_norm, kept.middle_normed.at, kept.middle_moments);
  run(layer.expand, x, tokens, kept.middle_normed, kept.expanded);
  for (std::size_t r = 0; r < tokens; ++r) {
    kernels_.sequences.gelu(kept.expanded.row(r), kept.activated.row(r), 4 * width);
  }
  run(layer.contract, x, tokens, kept.activated, work.branch);
  add(tokens, width, kept.middle, work.branch, out);
}

/// Mean over the positions of each sequence.
void TransformerModel::pool(Work& work) const {
  for (std::size_t s = 0; s + 1 < work.batch.begin.size(); ++s) {
    const std::size_t first = work.batch.begin[s], end = work.batch.begin[s + 1];
    const float share = 1.0f / static_cast<float>(end - first);
    float* to = work.pooled.row(s);
    std::fill_n(to, shape_.width, 0.0f);
    for (std::size_t r = first; r < end; ++r) {
      const float* from = work.output_normed.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) to[o] += from[o] * share;
    }
  }
}

/// The gradient of pool(): each token gets its share of its sequence's.
void TransformerModel::spread(Matrix pooled_slope, Work& work) const {
  for (std::size_t s = 0; s + 1 < work.batch.begin.size(); ++s) {
    const std::size_t first = work.batch.begin[s], end = work.batch.begin[s + 1];
    const float share = 1.0f / static_cast<float>(end - first);
    const float* from = pooled_slope.row(s);
    for (std::size_t r = first; r < end; ++r) {
      float* to = work.normed_slope.row(r);
      for (std::size_t o = 0; o < shape_.width; ++o) to[o] = from[o] * share;
    }
  }
}

void TransformerModel::forward(const float* x, Work& work) const {
  const std::size_t tokens = work.batch.tokens.size(), last = work.kept.size() - 1;
  embed(x, work.batch, work.kept[0].input);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const bool is_last = l + 1 == layers_.size();
    // Without a gradient to come, layers take turns in one place: its input has been read by then.
    const Matrix out = is_last ? work.output : work.kept[std::min(l + 1, last)].input;
    run_layer(x, layers_[l], work.kept[std::min(l, last)], out, work);
  }
  kernels_.sequences.layer_norm(tokens, shape_.width, work.output.at, work.output.stride,
                                x + output_norm_, work.output_normed.at, work.output_moments);
  if (!shape_.predicts_next) pool(work);
  run(head_, x, work.losses.size(), shape_.predicts_next ? work.output_normed : work.pooled,
      work.logits);
}

void TransformerModel::score(const float* x, Work& work) const {
  fit(work, false);
  forward(x, work);
}

void TransformerModel::layer_gradient(const float* x, const Layer& layer, const Kept& kept,
                                      Work& work, float* gradient) const {
  const std::size_t tokens = work.batch.tokens.size(), width = shape_.width;
  run_back(layer.contract, x, tokens, kept.activated, work.slope, work.wide_slope, gradient);
  for (std::size_t r = 0; r < tokens; ++r) {
    kernels_.sequences.gelu_gradient(kept.expanded.row(r), work.wide_slope.row(r), 4 * width);
  }
  run_back(layer.expand, x, tokens, kept.middle_normed, work.wide_slope, work.normed_slope,
           gradient);
  kernels_.sequences.layer_norm_gradient(
      tokens, width, kept.middle.at, kept.middle.stride, kept.middle_moments, x + layer.mlp_norm,
      work.normed_slope.at, work.slope.at, gradient + layer.mlp_norm);

  run_back(layer.project, x, tokens, kept.attended, work.slope, work.branch, gradient);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width()));
  for (std::size_t s = 0; s + 1 < work.batch.begin.size(); ++s) {
    const std::size_t first = work.batch.begin[s], length = work.batch.begin[s + 1] - first;
    for (std::size_t c = 0; c < width; c += head_width()) {
      const float* q = kept.qkv.row(first) + c;
      float* dq = work.qkv_slope.row(first) + c;
      kernels_.sequences.attention_gradient({length, head_width(), scale}, q, q + width,
                                            q + 2 * width, kept.qkv.stride,
                                            work.branch.row(first) + c, work.branch.stride, dq,
                                            dq + width, dq + 2 * width, work.scratch);
    }
  }
  run_back(layer.qkv, x, tokens, kept.input_normed, work.qkv_slope, work.normed_slope, gradient);
  kernels_.sequences.layer_norm_gradient(
      tokens, width, kept.input.at, kept.input.stride, kept.input_moments, x + layer.attention_norm,
      work.normed_slope.at, work.slope.at, gradient + layer.attention_norm);
}

double TransformerModel::gradient(const float* x, Work& work, float* gradient) const {
  fit(work, true);
  forward(x, work);
  const std::size_t tokens = work.batch.tokens.size(), rows = work.losses.size();
  kernels_.softmax_cross_entropy(rows, shape_.classes, work.logits.at, work.logits.stride,
                                 work.batch.labels.data(), work.losses.data());
  double loss = 0;
  for (const double label_loss : work.losses) loss += label_loss;

  if (shape_.predicts_next) {
    run_back(head_, x, rows, work.output_normed, work.logits, work.normed_slope, gradient);
  } else {
    const Matrix pooled_slope = work.branch;  // which is not in use yet
    run_back(head_, x, rows, work.pooled, work.logits, pooled_slope, gradient);
    spread(pooled_slope, work);
  }
  for (std::size_t r = 0; r < tokens; ++r) std::fill_n(work.slope.row(r), shape_.width, 0.0f);
  kernels_.sequences.layer_norm_gradient(
      tokens, shape_.width, work.output.at, work.output.stride, work.output_moments,
      x + output_norm_, work.normed_slope.at, work.slope.at, gradient + output_norm_);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layer_gradient(x, layers_[l], work.kept[l], work, gradient);
  }
  embedding_gradient(work, gradient);
  return loss / static_cast<double>(rows);
}

}  // namespace starling
