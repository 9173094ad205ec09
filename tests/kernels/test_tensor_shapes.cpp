// Tensor shapes of well-known models against their published numbers of parameters.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "kernels/tensor_shapes.hpp"

namespace starling::test_tensor_shapes {
namespace {

std::vector<TensorShape> shapes_of(std::string_view name) {
  const auto model = std::ranges::find(known_models(), name, &KnownModel::name);
  REQUIRE(model != known_models().end());
  return model->shapes();
}

std::size_t sum(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

}  // namespace

TEST_CASE("ResNet-50 has 161 tensors of 25,559,081 floats") {
  // 53 convolutions with two tensors of normalization each, and weights and bias of the last layer: 3 * 53 + 2.
  const std::vector<TensorShape> shapes = shapes_of("resnet50");
  CHECK(shapes.size() == 161);
  CHECK(size_of(shapes) == 25'559'081);
  CHECK(shapes.front() == TensorShape{7 * 7 * 3, 64});
  CHECK(shapes[160] == TensorShape{1001});
  CHECK(shapes[159] == TensorShape{2048, 1001});
  CHECK(std::ranges::count(shapes, TensorShape{3 * 3 * 512, 512}) == 3);
}

TEST_CASE("models add up to their published sizes") {
  const std::pair<const char*, std::size_t> published[] = {
      {"resnet18", 11'173'962},     {"resnet101", 44'549'160},
      {"vgg16", 138'357'544},       {"transformer_base", 61'362'176},
      {"bert_large", 335'141'888},  {"lstm_wikitext2", 28'949'319},
      {"resnet18_lstm", 8'476'421}, {"inception_lstm", 34'663'525}};
  for (const auto& [name, parameters] : published) {
    const std::string model = name;
    CAPTURE(model);
    CHECK(size_of(shapes_of(model)) == parameters);
  }
  CHECK(known_models().size() == 1 + std::size(published));
}

TEST_CASE("scaled tensors keep their number and the sum") {
  const std::vector<std::size_t> sizes = sizes_of(shapes_of("resnet50"));
  for (const std::size_t parameters : {161U, 5000U, 1'000'003U}) {
    const std::vector<std::size_t> scaled = scaled_tensors(sizes, parameters);
    CHECK(scaled.size() == 161);
    CHECK(sum(scaled) == parameters);
    CHECK(*std::ranges::min_element(scaled) >= 1);
  }
  // Half of it: the tensor of 2048 * 1001 floats has half as many, and one more for the rounding up of all.
  const std::size_t half = scaled_tensors(sizes, 25'559'081 / 2)[159];
  CHECK(half >= 2048 * 1001 / 2 - 200);
  CHECK(half <= 2048 * 1001 / 2 + 200);
}

}  // namespace starling::test_tensor_shapes
