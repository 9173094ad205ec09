// Transformers on a GPU against the same on the CPU, bit for bit. Here on the emulated device.
#include <doctest/doctest.h>

#include "kernels/cuda/cuda_transformer.hpp"
#include "tests/kernels/cuda_comparison.hpp"

namespace starling::test_cuda_transformer {
using test::compare;
using test::nodes;

namespace {

struct Sizes {
  std::size_t layers, heads, width, context;
  bool predicts_next;
  std::int64_t batch = 3, buckets = 0;
};

/// Random sequences of 1 to `context` tokens.
Sequences sequences(std::size_t count, const Sizes& sizes, int vocabulary, int classes,
                    std::uint64_t seed) {
  Random random(seed, "sequences");
  Sequences made;
  made.samples = {.samples = count, .classes = sizes.predicts_next ? vocabulary : classes};
  for (std::size_t s = 0; s < count; ++s) {
    const auto length = 1 + static_cast<std::int32_t>(random.below(sizes.context));
    made.begin.push_back(made.tokens.size());
    made.samples.length.push_back(length);
    made.samples.y.push_back(static_cast<std::int32_t>(random.below(classes)));
    for (std::int32_t t = 0; t < length; ++t)
      made.tokens.push_back(static_cast<std::int32_t>(random.below(vocabulary)));
  }
  made.tokens.push_back(0);  // what follows the last token of a text
  return made;
}

Transformer make(const Sizes& sizes) {
  constexpr int vocabulary = 11, classes = 3;
  Transformer::Problem problem{.layers = sizes.layers,
                               .heads = sizes.heads,
                               .width = sizes.width,
                               .context = sizes.context,
                               .data = {},
                               .parts = {},
                               .batch_size = sizes.batch,
                               .buckets = sizes.buckets,
                               .max_tokens = sizes.buckets > 0 ? 40 : 0};
  problem.data.train = sequences(43, sizes, vocabulary, classes, 1);
  // Several blocks of some 1,024 tokens.
  problem.data.test = sequences(2400 / sizes.context, sizes, vocabulary, classes, 2);
  problem.data.predicts_next = sizes.predicts_next;
  problem.data.vocabulary = vocabulary;
  problem.data.classes = sizes.predicts_next ? vocabulary : classes;
  problem.parts.resize(nodes);
  for (std::int32_t s = 0; s < 43; ++s)
    problem.parts[static_cast<std::size_t>(s) % nodes].push_back(s);
  return Transformer(std::move(problem));
}

}  // namespace

TEST_CASE("cuda: gradients and evaluations of a transformer are the CPU's, bit for bit") {
  const auto device = test::open_device();
  // Around lanes of 16, blocks of 16 positions, rows of 8 and 32, and 128 columns; mini-batches of uneven tokens.
  for (const Sizes& sizes : {Sizes{1, 1, 1, 3, true}, Sizes{2, 2, 8, 20, true},
                             Sizes{1, 3, 15, 33, false}, Sizes{2, 1, 33, 17, false, 1},
                             Sizes{1, 2, 130, 16, true, 2}, Sizes{2, 4, 16, 48, false, 6, 4}}) {
    CAPTURE(sizes.width);
    const Transformer transformer = make(sizes);
    compare(*device, transformer, CudaTransformer(transformer, *device));
    compare(*device, transformer, CudaTransformer(transformer, *device, 1));  // one by one
  }
}

TEST_CASE("cuda: a transformer with an odd number of tokens and labels is the CPU's, bit for bit") {
  const auto device = test::open_device();
  const Transformer transformer = make({1, 1, 32, 1, true, 33});  // 33 sequences of one token
  compare(*device, transformer, CudaTransformer(transformer, *device, 1));
}

TEST_CASE("cuda: a gradient of a transformer that is not finite makes the loss NaN") {
  const auto device = test::open_device();
  for (const bool predicts_next : {true, false}) {
    const Transformer transformer = make({1, 2, 12, 20, predicts_next});
    const TransformerModel::Layer& layer = transformer.model().layers()[0];
    // What the second normalization gives is some 1e30, what is made of it as ever; logits and their slopes are 1e20.
    const auto stretch = [](std::vector<float>& x, std::size_t begin, std::size_t end, float by) {
      for (std::size_t i = begin; i < end; ++i) x[i] *= by;
    };
    const auto change = [&](std::vector<float>& x) {
      stretch(x, layer.mlp_norm, layer.mlp_norm + 2 * transformer.model().shape().width, 1e30F);
      stretch(x, layer.expand.weights, layer.expand.bias, 1e-30F);
      stretch(x, transformer.model().head().weights, x.size(), 1e20F);
    };
    CHECK(compare(*device, transformer, CudaTransformer(transformer, *device), 0.1, change) ==
          nodes);
  }
}

TEST_CASE("cuda: a transformer that overflows does so as on the CPU") {
  const auto device = test::open_device();
  const Transformer transformer = make({1, 2, 12, 20, false});
  for (const double move : {1e3, 1e18, 1e38}) {
    CAPTURE(move);
    compare(*device, transformer, CudaTransformer(transformer, *device), move);
  }
}

}  // namespace starling::test_cuda_transformer
