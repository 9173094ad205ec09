// Tensor sizes of well-known models against their published numbers of parameters.
#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "kernels/tensor_sizes.hpp"

namespace starling::test_tensor_sizes {
namespace {

std::size_t sum(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

}  // namespace

TEST_CASE("ResNet-50 has 161 tensors of 25,559,081 floats") {
  // 53 convolutions with two tensors of normalization each, and weights and bias of the last layer: 3 * 53 + 2.
  const std::vector<std::size_t> sizes = resnet50_tensors();
  CHECK(sizes.size() == 161);
  CHECK(sum(sizes) == 25'559'081);
  CHECK(sizes.front() == 7 * 7 * 3 * 64);
  CHECK(sizes[160] == 1001);
  CHECK(sizes[159] == 2048 * 1001);
  CHECK(std::ranges::count(sizes, 3 * 3 * 512 * 512) == 3);
}

TEST_CASE("the Transformer and both models with LSTMs add up to their published sizes") {
  CHECK(sum(transformer_base_tensors()) == 61'362'176);
  CHECK(sum(resnet18_lstm_tensors()) == 8'476'421);
  CHECK(sum(inception_lstm_tensors()) == 34'663'525);
}

TEST_CASE("scaled tensors keep their number and the sum") {
  const std::vector<std::size_t> sizes = resnet50_tensors();
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

}  // namespace starling::test_tensor_sizes
