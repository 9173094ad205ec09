// Convolutional networks on a GPU against the same on the CPU, bit for bit. Here on the emulated device.
#include <doctest/doctest.h>

#include "kernels/cuda/cuda_cnn.hpp"
#include "tests/kernels/cnn_problems.hpp"
#include "tests/kernels/cuda_comparison.hpp"

namespace starling::test_cuda_cnn {
using test::compare;
using test::nodes;

TEST_CASE("cuda: gradients and evaluations of a CNN are the CPU's, bit for bit") {
  const auto device = test::open_device();
  for (const auto& network : test::networks) {
    CAPTURE(network.first);
    const auto& [layers, image] = network;
    for (const std::int64_t batch_size : {1, 7}) {
      const Cnn cnn(test::problem(layers, image, batch_size, nodes));
      REQUIRE(CudaCnn::fits(cnn, *device));
      compare(*device, cnn, CudaCnn(cnn, *device));
      compare(*device, cnn, CudaCnn(cnn, *device, 1));  // one model at a time
    }
  }
}

TEST_CASE("cuda: a mini-batch of more pixels than 32 bits count is the CPU's") {
  const auto device = test::open_device();
  const auto fits = [&](std::int64_t batch_size) {
    const Cnn cnn(test::problem("conv 2 3x3 same, average", {64, 64, 1}, batch_size, nodes));
    return CudaCnn::fits(cnn, *device);
  };
  CHECK(fits((1 << 19) - 1));
  CHECK(!fits(1 << 19));
}

TEST_CASE("cuda: tiles of a convolution end anywhere") {
  const auto device = test::open_device();
  // Around tiles of 16, 32 and 64 columns, panels of 32, and 64 to 256 pixels; kernels that are not square; several images to
  // a tile and several tiles to an image; channels that do and that do not come in groups of 4, with strides back and forth.
  for (const auto& network : std::vector<std::pair<std::string, Extent>>{
           {"conv 17 1x1, relu, conv 65 3x1 same unbiased, relu, average", {4, 3, 33}},
           {"conv 64 2x3 /3, relu, conv 16 1x2", {8, 10, 3}},
           {"conv 16 3x3 same, relu, conv 32 3x3 same, relu, conv 33 1x1, average", {17, 16, 4}},
           {"conv 8 3x3 same, relu, conv 12 5x3 same /2, relu, conv 20 2x2 unbiased", {9, 8, 2}},
           {"conv 68 1x1, relu, conv 4 1x1 /3, conv 36 3x3 same unbiased", {7, 7, 1}},
           {"conv 5 7x7 same /4, relu, pool 2", {13, 11, 1}}}) {
    CAPTURE(network.first);
    const auto& [layers, image] = network;
    const Cnn cnn(test::problem(layers, image, 3, nodes));
    compare(*device, cnn, CudaCnn(cnn, *device));
  }
}

TEST_CASE("cuda: normalizations of any number of pixels and channels are the CPU's") {
  const auto device = test::open_device();
  // Sums take 16 channels of a batch a block, or 64 of a sample at once, and tiles of some thousand entries.
  for (const auto& network : std::vector<std::pair<std::string, Extent>>{
           {"batchnorm, relu, conv 17 1x1, batchnorm, pool 2, batchnorm, relu", {7, 9, 16}},
           {"groupnorm 2, conv 66 1x1, groupnorm 33, relu, groupnorm 1, relu", {5, 5, 2}},
           {"batchnorm, conv 36 1x1, groupnorm 9, relu, batchnorm, average", {13, 17, 1}}}) {
    CAPTURE(network.first);
    const auto& [layers, image] = network;
    const Cnn cnn(test::problem(layers, image, 5, nodes));
    compare(*device, cnn, CudaCnn(cnn, *device));
  }
}

TEST_CASE("cuda: a CNN that overflows does so as on the CPU") {
  const auto device = test::open_device();
  const Cnn cnn(test::problem("conv 4 3x3, groupnorm 2, relu, pool 2, batchnorm, dense 5, relu",
                              {7, 6, 2}, 4, nodes));
  for (const double move : {1e3, 1e18, 1e38}) {
    CAPTURE(move);
    compare(*device, cnn, CudaCnn(cnn, *device), move);
  }
}

}  // namespace starling::test_cuda_cnn
