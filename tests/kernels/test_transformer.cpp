// The transformer against a plain twin in double by finite differences, against PyTorch, and against
// itself on other builds; its batches, and what it learns.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/transformer.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/answers.hpp"
#include "tests/kernels/data/made_sequences.hpp"
#include "tests/kernels/make_workload.hpp"

namespace starling::test_transformer {
namespace {

using test::check_every_build;
using test::initial_model;
using Model = std::vector<float>;
using Doubles = std::vector<double>;

/// A number in -0.5 .. 0.5 for each index, exact in single precision; the same in
/// reference/transformer_torch.py.
double pattern(std::uint64_t index) {
  return static_cast<double>((index * 2654435761u % (std::uint64_t{1} << 32)) >> 16) / 65536 - 0.5;
}

/// The place of every parameter, tensor by tensor, in the order and layout of the PyTorch script.
struct Tensor {
  std::string name;
  std::vector<std::size_t> places;
};

std::vector<Tensor> tensors(const TransformerModel& model) {
  std::vector<Tensor> all;
  const auto flat = [&](const std::string& name, std::size_t first, std::size_t count) {
    Tensor tensor{name, {}};
    for (std::size_t i = 0; i < count; ++i) tensor.places.push_back(first + i);
    all.push_back(tensor);
  };
  const auto connected = [&](const std::string& name, const DenseLayer& layer,
                             const std::string& suffix) {
    Tensor weights{name + suffix, {}};
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        weights.places.push_back(layer.weights +
                                 dense::weight_index(layer.inputs, layer.outputs, i, o));
      }
    }
    all.push_back(weights);
    flat(name + "_bias" + suffix, layer.bias, layer.outputs);
  };
  const TransformerShape& shape = model.shape();
  flat("token", 0, shape.vocabulary * shape.width);
  flat("position", model.position_embedding(), shape.context * shape.width);
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const auto& layer = model.layers()[l];
    const std::string suffix = "_" + std::to_string(l);
    flat("norm1" + suffix, layer.attention_norm, 2 * shape.width);
    connected("qkv", layer.qkv, suffix);
    connected("project", layer.project, suffix);
    flat("norm2" + suffix, layer.mlp_norm, 2 * shape.width);
    connected("expand", layer.expand, suffix);
    connected("contract", layer.contract, suffix);
  }
  flat("norm", model.output_norm(), 2 * shape.width);
  connected("head", model.head(), "");
  return all;
}

/// The fixed model of the PyTorch script.
Model fixed_model(const TransformerModel& model) {
  Model x(model.parameters());
  std::uint64_t index = 0;
  for (const Tensor& tensor : tensors(model)) {
    const bool is_norm = tensor.name.starts_with("norm");
    for (std::size_t i = 0; i < tensor.places.size(); ++i) {
      const double gain = is_norm && i < tensor.places.size() / 2 ? 1 : 0;
      x[tensor.places[i]] = static_cast<float>(pattern(index++) + gain);
    }
  }
  return x;
}

PackedBatch fixed_batch(const TransformerShape& shape) {
  PackedBatch batch;
  batch.clear();
  const auto token = [](std::size_t t, std::size_t s) {
    return static_cast<std::int32_t>((7 * t * t + 3 * s) % 11);
  };
  std::size_t s = 0;
  for (const std::size_t length : {5, 9, 1, 7}) {
    std::vector<std::int32_t> tokens;
    for (std::size_t t = 0; t < length; ++t) {
      tokens.push_back(token(t, s));
      if (shape.predicts_next) batch.labels.push_back(token(t + 1, s));
    }
    if (!shape.predicts_next) batch.labels.push_back(static_cast<std::int32_t>(s % 3));
    batch.push(tokens);
    ++s;
  }
  return batch;
}

TransformerShape small_shape(bool predicts_next, std::size_t width) {
  return {.layers = 2,
          .heads = 2,
          .width = width,
          .context = 9,
          .vocabulary = 11,
          .classes = predicts_next ? 11u : 3u,
          .predicts_next = predicts_next};
}

// --- The twin: the formulas of transformer_model.hpp, one sequence and one number at a time -------

class Twin {
 public:
  Twin(const TransformerModel& model, const Doubles& x) : model_(model), x_(x) {}

  double loss(const PackedBatch& batch) const {
    double sum = 0;
    std::size_t label = 0;
    for (std::size_t s = 0; s + 1 < batch.begin.size(); ++s) {
      const std::vector<std::int32_t> tokens(
          batch.tokens.begin() + static_cast<std::ptrdiff_t>(batch.begin[s]),
          batch.tokens.begin() + static_cast<std::ptrdiff_t>(batch.begin[s + 1]));
      for (const Doubles& logits : run(tokens)) {
        double total = 0;
        for (const double z : logits) total += std::exp(z);
        sum += std::log(total) - logits[static_cast<std::size_t>(batch.labels[label++])];
      }
    }
    return sum / static_cast<double>(batch.labels.size());
  }

 private:
  using Rows = std::vector<Doubles>;

  Doubles connect(const DenseLayer& layer, const Doubles& in) const {
    Doubles out(layer.outputs);
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      out[o] = x_[layer.bias + o];
      for (std::size_t i = 0; i < layer.inputs; ++i) {
        out[o] +=
            in[i] * x_[layer.weights + dense::weight_index(layer.inputs, layer.outputs, i, o)];
      }
    }
    return out;
  }

  Doubles norm(std::size_t at, const Doubles& in) const {
    const auto n = static_cast<double>(in.size());
    double mean = 0, variance = 0;
    for (const double v : in) mean += v / n;
    for (const double v : in) variance += (v - mean) * (v - mean) / n;
    Doubles out;
    for (std::size_t o = 0; o < in.size(); ++o) {
      out.push_back((in[o] - mean) / std::sqrt(variance + 1e-5) * x_[at + o] +
                    x_[at + in.size() + o]);
    }
    return out;
  }

  Doubles attend(const Rows& qkv, std::size_t i) const {
    const std::size_t width = model_.shape().width, head = width / model_.shape().heads;
    Doubles out(width);
    for (std::size_t c = 0; c < width; c += head) {
      Doubles weights;
      double total = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        double product = 0;
        for (std::size_t o = c; o < c + head; ++o) product += qkv[i][o] * qkv[j][width + o];
        weights.push_back(std::exp(product / std::sqrt(static_cast<double>(head))));
        total += weights.back();
      }
      for (std::size_t o = c; o < c + head; ++o) {
        for (std::size_t j = 0; j <= i; ++j) out[o] += weights[j] / total * qkv[j][2 * width + o];
      }
    }
    return out;
  }

  /// The logits of each label.
  Rows run(const std::vector<std::int32_t>& tokens) const {
    const std::size_t width = model_.shape().width;
    Rows h(tokens.size(), Doubles(width));
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      for (std::size_t o = 0; o < width; ++o) {
        h[t][o] = x_[static_cast<std::size_t>(tokens[t]) * width + o] +
                  x_[model_.position_embedding() + t * width + o];
      }
    }
    const auto add = [&](Doubles& to, const Doubles& from) {
      for (std::size_t o = 0; o < width; ++o) to[o] += from[o];
    };
    for (const auto& layer : model_.layers()) {
      Rows qkv;
      for (const Doubles& row : h) {
        qkv.push_back(connect(layer.qkv, norm(layer.attention_norm, row)));
      }
      for (std::size_t t = 0; t < h.size(); ++t) add(h[t], connect(layer.project, attend(qkv, t)));
      for (Doubles& row : h) {
        Doubles wide = connect(layer.expand, norm(layer.mlp_norm, row));
        for (double& v : wide) {
          v = v / 2 * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
        }
        add(row, connect(layer.contract, wide));
      }
    }
    Rows logits;
    Doubles mean(width);
    for (const Doubles& row : h) {
      const Doubles normed = norm(model_.output_norm(), row);
      if (model_.shape().predicts_next) logits.push_back(connect(model_.head(), normed));
      for (std::size_t o = 0; o < width; ++o) {
        mean[o] += normed[o] / static_cast<double>(h.size());
      }
    }
    if (!model_.shape().predicts_next) logits.push_back(connect(model_.head(), mean));
    return logits;
  }

  const TransformerModel& model_;
  const Doubles& x_;
};

TEST_CASE("a transformer's loss and gradient are those of finite differences in double") {
  for (const bool predicts_next : {true, false}) {
    const TransformerModel model(small_shape(predicts_next, 6), dense::kernels());
    const Model x = fixed_model(model);
    TransformerModel::Work work;
    work.batch = fixed_batch(model.shape());
    Model gradient(x.size(), 77.0f);
    const double loss = model.gradient(x.data(), work, gradient.data());
    Doubles point(x.begin(), x.end());
    const Twin twin(model, point);
    CHECK(loss == doctest::Approx(twin.loss(work.batch)).epsilon(1e-6));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Central differences are off by about h^2 and by 1e-16 / h, together 1e-9; the float
      // gradient by some 1e-6, as sums of some hundred terms go through it.
      constexpr double h = 1e-5;
      point[i] = static_cast<double>(x[i]) + h;
      const double above = twin.loss(work.batch);
      point[i] = static_cast<double>(x[i]) - h;
      const double below = twin.loss(work.batch);
      point[i] = static_cast<double>(x[i]);
      worst =
          std::max(worst, std::abs((above - below) / (2 * h) - static_cast<double>(gradient[i])));
    }
    CHECK(worst < 5e-6);
  }
}

struct Expected {
  const char* name;
  double norm, projection;  // of the gradient; onto pattern(5 index + 1)
};

// tests/kernels/reference/transformer_torch.py fixed (PyTorch 1.13 in double precision)
constexpr double next_loss = 3.610048888, label_loss = 1.180254698;
constexpr Expected next_gradient[] = {
    {"token", 1.030994897, 0.056500717},          {"position", 1.286451634, 0.046508617},
    {"norm1_0", 0.754063861, 0.011691856},        {"qkv_0", 1.459787770, 0.268738117},
    {"qkv_bias_0", 0.681120506, 0.188405414},     {"project_0", 1.532781794, 0.095159148},
    {"project_bias_0", 0.616932149, 0.189460118}, {"norm2_0", 0.415250105, 0.030800578},
    {"expand_0", 2.239277152, -1.170906689},      {"expand_bias_0", 0.717171229, 0.201612423},
    {"contract_0", 2.442825941, -0.015745312},    {"contract_bias_0", 0.601566138, 0.092110377},
    {"norm1_1", 0.399153405, 0.168930215},        {"qkv_1", 1.295713978, -0.095051600},
    {"qkv_bias_1", 0.415470542, -0.027600465},    {"project_1", 1.461670415, 0.147296380},
    {"project_bias_1", 0.478027531, 0.123554569}, {"norm2_1", 0.331455507, 0.011080917},
    {"expand_1", 2.475953642, 0.967048073},       {"expand_bias_1", 0.695826118, 0.049909446},
    {"contract_1", 1.526158891, 0.080882792},     {"contract_bias_1", 0.471155392, -0.047669758},
    {"norm", 1.027114867, 0.262104922},           {"head", 1.411820925, 0.063066004},
    {"head_bias", 0.468851121, 0.025867246},
};
constexpr Expected label_gradient[] = {
    {"token", 0.910609834, -0.001523456},
    {"position", 0.699105224, -0.121735559},
    {"norm1_0", 0.575205610, -0.078611527},
    {"qkv_0", 1.012337616, 0.237871402},
    {"qkv_bias_0", 0.380212155, -0.099481115},
    {"project_0", 0.851671366, 0.044044545},
    {"project_bias_0", 0.376735455, -0.052256313},
    {"norm2_0", 0.303908205, -0.004139702},
    {"expand_0", 1.051303335, -0.026816659},
    {"expand_bias_0", 0.277289609, 0.072015893},
    {"contract_0", 1.029605826, -0.211798587},
    {"contract_bias_0", 0.174091061, 0.004479565},
    {"norm1_1", 0.213203067, -0.062060151},
    {"qkv_1", 0.620108121, -0.028501931},
    {"qkv_bias_1", 0.167606370, -0.052019372},
    {"project_1", 0.689843717, 0.128544294},
    {"project_bias_1", 0.160029433, 0.051716594},
    {"norm2_1", 0.178392705, -0.043480675},
    {"expand_1", 1.015854567, 0.025440535},
    {"expand_bias_1", 0.225278852, 0.057402984},
    {"contract_1", 0.922684158, 0.155430039},
    {"contract_bias_1", 0.125190408, 0.012864734},
    {"norm", 0.451466722, 0.087241047},
    {"head", 0.996039101, 0.222334715},
    {"head_bias", 0.188110591, 0.016780396},
};

TEST_CASE("a transformer's loss and the gradient of every tensor are PyTorch's") {
  for (const bool predicts_next : {true, false}) {
    const TransformerModel model(small_shape(predicts_next, 12), dense::kernels());
    const Model x = fixed_model(model);
    TransformerModel::Work work;
    work.batch = fixed_batch(model.shape());
    Model gradient(x.size(), 77.0f);
    const double loss = model.gradient(x.data(), work, gradient.data());
    CHECK(std::abs(loss - (predicts_next ? next_loss : label_loss)) < 1e-6);

    // Each float is off by some 1e-7 of the tensor's largest; a tensor has up to 576.
    std::uint64_t index = 0;
    const Expected* expected = predicts_next ? next_gradient : label_gradient;
    for (const Tensor& tensor : tensors(model)) {
      CAPTURE(tensor.name);
      double squares = 0, projection = 0;
      for (const std::size_t place : tensor.places) {
        const auto g = static_cast<double>(gradient[place]);
        squares += g * g;
        projection += g * pattern(5 * index++ + 1);
      }
      CHECK(tensor.name == expected->name);
      CHECK(std::abs(std::sqrt(squares) - expected->norm) < 3e-6);
      CHECK(std::abs(projection - expected->projection) < 3e-6);
      ++expected;
    }
  }
}

// --- The workload ---------------------------------------------------------------------------------

using test::Keys;

std::unique_ptr<Workload> make(const Keys& keys) {
  return test::make_workload("transformer", keys);
}

Transformer::Problem problem(bool predicts_next, bool has_buckets) {
  Transformer::Problem result;
  result.layers = 2;
  result.heads = 3;
  result.width = 24;
  result.context = 40;
  result.data = load_sequences(dataset_test::made_sequences(101, 0.1), result.context, 1);
  if (predicts_next) {
    // The last token of a sequence is followed by the first of the next one: good enough here.
    result.data.predicts_next = true;
    result.data.classes = result.data.vocabulary;
    result.data.train.tokens.push_back(0);
    result.data.test.tokens.push_back(0);
  }
  result.parts.resize(2);
  for (std::int32_t s = 0; s < 101; ++s) result.parts[static_cast<std::size_t>(s) % 2].push_back(s);
  result.batch_size = 6;
  if (has_buckets) {
    result.buckets = 4;
    result.max_tokens = 64;
  }
  return result;
}

TEST_CASE("a transformer has the same bits in every build: gradient, loss and evaluation") {
  for (const bool predicts_next : {true, false}) {
    for (const bool has_buckets : {true, false}) {
      const auto make = [&](const dense::Kernels& kernels) {
        return Transformer(problem(predicts_next, has_buckets), kernels);
      };
      check_every_build(make, initial_model(make(dense::kernels())));
    }
  }
}

TEST_CASE("a transformer's evaluation is the mean loss over all labels of the test sequences") {
  const auto setup = problem(false, false);
  const Transformer transformer(setup);
  Model x(transformer.facts().parameters);
  transformer.initial_model(x);
  PackedBatch all;  // 150 sequences of some 15 tokens: several blocks of 1,024
  all.clear();
  const Sequences& test = setup.data.test;
  for (std::size_t s = 0; s < 150; ++s) {
    all.push(std::span(test.tokens).subspan(test.begin[s], test.length(s)));
    all.labels.push_back(test.samples.y[s]);
  }
  REQUIRE(all.tokens.size() > 2048);
  const Doubles point(x.begin(), x.end());
  EvaluationRequest request{.x = x.data()};
  transformer.evaluate({&request, 1});
  CHECK(request.loss == doctest::Approx(Twin(transformer.model(), point).loss(all)).epsilon(1e-6));

  // Without a head all logits are equal: the loss is ln 4, and class 0 is guessed for every sample.
  const auto& head = transformer.model().head();
  std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(head.weights), head.inputs * head.outputs,
              0.0f);
  transformer.evaluate({&request, 1});
  CHECK(request.loss == doctest::Approx(std::log(4.0)).epsilon(1e-6));
  CHECK(request.accuracy == 38.0 / 150);  // labels 0, 1, 2, 3, 0, ..: 150 = 37 * 4 + 2
}

TEST_CASE("a mini-batch of sequences costs its tokens, not those of a padded one") {
  for (const bool has_buckets : {true, false}) {
    const Transformer transformer(problem(false, has_buckets));
    CHECK(transformer.facts().cost_unit == "token");
    std::int64_t least = 1 << 20, most = 0;
    for (Step draw = 0; draw < 50; ++draw) {
      TransformerModel::Work work;
      transformer.pack(1, draw, work);
      const auto tokens = static_cast<std::int64_t>(work.batch.tokens.size());
      CHECK(transformer.batch_cost(1, draw) == tokens);
      least = std::min(least, tokens);
      most = std::max(most, tokens);
    }
    CHECK(most > least);
    if (has_buckets) CHECK(most <= 64);
  }
}

TEST_CASE("a bucket holds sequences of like length, and short ones make larger batches") {
  // Lengths 1 .. 8 on node 0: buckets {1, 2}, {3, 4}, {5, 6}, {7, 8}. With at most 16 tokens and 5
  // samples they give min(5, 16 / longest) = 5, 4, 2, 2 samples: 13 / 4 on the mean.
  const BucketSampler sampler({{7, 6, 5, 4, 3, 2, 1, 0}}, {1, 2, 3, 4, 5, 6, 7, 8}, {5, 4, 16}, 9);
  CHECK(sampler.mean_batch_size() == 3.25);
  // A second node with one bucket, of 16 / 8 = 2 samples, counts as much as the first.
  CHECK(BucketSampler({{7, 6, 5, 4, 3, 2, 1, 0}, {7}}, {1, 2, 3, 4, 5, 6, 7, 8}, {5, 4, 16}, 9)
            .mean_batch_size() == 2.625);
  std::map<std::int32_t, std::size_t> sizes;  // by bucket
  std::vector<std::int32_t> samples;
  for (Step draw = 0; draw < 200; ++draw) {
    sampler.batch(0, draw, samples);
    for (const std::int32_t sample : samples) CHECK(sample / 2 == samples[0] / 2);
    sizes[samples[0] / 2] = samples.size();
  }
  CHECK(sizes == std::map<std::int32_t, std::size_t>{{0, 5}, {1, 4}, {2, 2}, {3, 2}});

  // A sequence longer than the limit is a batch by itself, and fewer samples than buckets are fine.
  BucketSampler({{0}}, {100}, {5, 4, 16}, 9).batch(0, 3, samples);
  CHECK(samples == std::vector<std::int32_t>{0});
}

/// The score of the model after `steps` of SGD with momentum 0.9.
EvaluationRequest train(const Workload& workload, int steps, float learning_rate, Model& x) {
  Model velocity(workload.facts().parameters), gradient(velocity.size());
  x.resize(velocity.size());
  workload.initial_model(x);
  for (int k = 0; k < steps; ++k) {
    GradientRequest request{.node = 0, .draw = k, .x = x.data(), .gradient = gradient.data()};
    workload.gradients({&request, 1});
    for (std::size_t i = 0; i < x.size(); ++i) {
      velocity[i] = 0.9f * velocity[i] + gradient[i];
      x[i] -= learning_rate * velocity[i];
    }
  }
  EvaluationRequest request{.x = x.data()};
  workload.evaluate({&request, 1});
  return request;
}

TEST_CASE("one node learns the sonnets: the loss falls from ln 58 = 4.06 to below 2.5") {
  // A model that knows only how often each character occurs has a loss of 3.1.
  const auto workload = make({{"batch_size", "32"}});
  Model x;
  CHECK(train(*workload, 0, 0, x).loss == doctest::Approx(std::log(58)).epsilon(0.02));
  CHECK(train(*workload, 400, 0.1f, x).loss < 2.5);
}

TEST_CASE("one node learns to label sequences of which only pairs of neighbors tell") {
  const auto workload = make(
      {{"dataset", "sequences"}, {"layers", "2"}, {"batch_size", "32"}, {"batching", "bucket"}});
  Model x;
  CHECK(train(*workload, 600, 0.03f, x).accuracy > 0.9);  // a guess: 0.25
}

TEST_CASE("a diverged transformer has a loss that is not finite") {
  const auto workload = make({});
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), 1e38f}) {
    Model x(workload->facts().parameters, value), gradient(x.size());
    GradientRequest request{.node = 0, .draw = 0, .x = x.data(), .gradient = gradient.data()};
    workload->gradients({&request, 1});
    CHECK_FALSE(std::isfinite(request.loss));
  }
}

TEST_CASE("wrong settings of a transformer are errors at their place in the scenario") {
  const auto wrong = [](const Keys& keys, const char* message) {
    CHECK_THROWS_WITH_AS(make(keys), doctest::Contains(message), ScenarioError);
  };
  wrong({{"heads", "5"}}, "test.ini:7: workload.heads must divide the width, 32, got 5");
  wrong({{"context", "0"}}, "workload.context must be from 1 to 65536, got 0");
  wrong({{"partition", "by_label"}}, "windows of a text have none, got by_label");
  wrong({{"test_fraction", "1"}}, "test_fraction must be above 0 and below 1, got 1");
  wrong({{"dataset", "sequences"}, {"classes", "16"}}, "below the vocabulary, 16, got 16");
  wrong({{"dataset", "hdf5"}}, "workload.path is missing");
  wrong({{"dataset", "hdf5"}, {"path", "x.h5"}, {"test_fraction", "1"}},
        "test_fraction must be above 0 and below 1, got 1");
  wrong({{"max_tokens", "100"}}, "max_tokens");  // batching is not bucket
  wrong({{"dataset", "sequences"}, {"batching", "bucket"}, {"sampling", "epochs"}}, "sampling");
  wrong({{"path", "/nowhere/text"}}, "workload.path /nowhere/text: cannot open");
  wrong({{"path", "/"}}, "workload.path /: cannot read: Is a directory");
}

}  // namespace
}  // namespace starling::test_transformer
