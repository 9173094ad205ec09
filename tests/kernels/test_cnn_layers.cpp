// The words that spell a network, and what is said of wrong ones.
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "kernels/cnn_layers.hpp"
#include "kernels/cnn_network.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_cnn_layers {
namespace {

using Kind = CnnLayer::Kind;

/// What parsing, and then fitting to an image, says.
std::string refusal(const std::string& layers, Extent image = {8, 8, 4}) {
  return test::message_of<std::invalid_argument>(
      [&] { const CnnNetwork network(parse_cnn_layers(layers), image, 10); });
}

TEST_CASE("layers are read word by word, whatever the spaces") {
  const auto layers = parse_cnn_layers(
      " conv 32 3x5 same /2 unbiased,relu ,pool 2, average,batchnorm, groupnorm 4,dropout  0.25, "
      "dense 128,residual 16 8 /2");
  REQUIRE(layers.size() == 9);
  CHECK(layers[0].kind == Kind::conv);
  CHECK(layers[0].count == 32);
  CHECK(layers[0].kernel_height == 3);
  CHECK(layers[0].kernel_width == 5);
  CHECK(layers[0].same);
  CHECK(layers[0].stride == 2);
  CHECK(layers[0].unbiased);
  CHECK(layers[2].count == 2);
  CHECK(layers[5].groups == 4);
  CHECK(layers[6].rate == 0.25);
  CHECK(layers[6].text == "dropout 0.25");
  CHECK(layers[7].count == 128);
  CHECK(layers[8].kind == Kind::residual);
  CHECK(layers[8].count == 16);
  CHECK(layers[8].groups == 8);
  CHECK(layers[8].stride == 2);
  const auto plain = parse_cnn_layers("conv 1 1x1");
  CHECK_FALSE(plain[0].same);
  CHECK_FALSE(plain[0].unbiased);
  CHECK(plain[0].stride == 1);
}

TEST_CASE("a wrong layer is named, with the form that it should have") {
  CHECK(refusal("relu, conv 32") ==
        "must have layer 2 in the form `conv CHANNELS HxW [same] [/STRIDE] [unbiased]`, got `conv "
        "32`");
  for (const char* wrong :
       {"conv 32 3", "conv 0 3x3", "conv 32 3x3x3", "conv 32 3x0", "conv 32 3x", "conv 32 3x3 2",
        "conv 32 3x3 /0", "conv 32 3x3 /2 same", "conv 32 99x3", "conv -1 3x3", "conv 1e3 3x3"}) {
    CHECK_MESSAGE(refusal(wrong).starts_with("must have layer 1 in the form `conv"), wrong);
  }
  CHECK(refusal("pool") == "must have layer 1 in the form `pool SIZE`, got `pool`");
  CHECK(refusal("dense 1000000000") ==
        "must have numbers up to 1048576 in layer 1, got `dense 1000000000`");
  CHECK(refusal("relu 3") == "must have layer 1 in the form `relu`, got `relu 3`");
  CHECK(refusal("dropout 1") ==
        "must have layer 1 in the form `dropout PROBABILITY`, got `dropout 1`");
  CHECK(refusal("dropout -0.1").starts_with("must have layer 1"));
  CHECK(refusal("dropout nan").starts_with("must have layer 1"));
  CHECK(refusal("dropout 1e-5").starts_with("must have layer 1"));
  CHECK(refusal("dropout 2e-5, dropout 0") == "no error");
  CHECK(refusal("dense 2.5").starts_with("must have layer 1"));
  CHECK(refusal("residual 16").starts_with("must have layer 1"));
  CHECK(parse_cnn_layers("residual 16 8 /16")[0].stride == 16);
  for (const char* wide : {"residual 16 8 /17", "conv 32 3x3 /17"})
    CHECK_MESSAGE(refusal(wide).starts_with("must have layer 1"), wide);
  CHECK(refusal("relu, desne 3") ==
        "must be layers of conv, relu, pool, average, batchnorm, groupnorm, dropout, dense, "
        "residual, got `desne 3` as layer 2; did you mean dense?");
  CHECK(refusal("relu,,relu") == "must be layers separated by commas, got nothing as layer 2");
  CHECK(refusal("") == "must be layers separated by commas, got nothing as layer 1");
}

TEST_CASE("layers that do not fit the image are named, with what they meet") {
  CHECK(refusal("pool 2, conv 8 5x5") ==
        "must have kernels that fit into the image, got layer 2, `conv 8 5x5`, on 4 x 4");
  CHECK(refusal("conv 8 4x3 same") ==
        "must have kernels of odd height and width with `same`, got layer 1, `conv 8 4x3 same`");
  CHECK(refusal("pool 9") ==
        "must have pools that fit into the image, got layer 1, `pool 9`, on 8 x 8");
  CHECK(refusal("groupnorm 3") ==
        "must have groups that divide the channels, got layer 1, `groupnorm 3`, on 4 channels");
  CHECK(refusal("dense 8, groupnorm 8") ==
        "must have groups of more than one number, which is 0 when normalized, got layer 2, "
        "`groupnorm 8`, on 1 x 1 x 8");
  CHECK(refusal("dense 8, groupnorm 4") == "no error");
  CHECK(refusal("residual 9 2").starts_with("must have groups that divide the channels"));
  CHECK(refusal("dense 1000000, dense 1000000").starts_with("must have at most 2147483647"));
  CHECK(refusal("conv 1048576 1x1", {64, 64, 1}) ==
        "must have at most 2147483647 numbers per sample between layers, got 4294967296 after "
        "layer 1, `conv 1048576 1x1`");
  CHECK(refusal("conv 8 5x5 same, pool 8, dense 3") == "no error");
}

TEST_CASE("the presets have the sizes of the networks that they are named after") {
  const auto parameters = [](const char* name, Extent image) {
    for (const CnnPreset& preset : cnn_presets) {
      if (preset.name == std::string(name)) {
        return CnnNetwork(parse_cnn_layers(preset.layers), image, 10).parameters();
      }
    }
    return std::size_t{0};
  };
  // 9 * 32 + 32, 9 * 32 * 64 + 64, 12 * 12 * 64 * 128 + 128, 1280 + 10
  CHECK(parameters("zou_mnist", {28, 28, 1}) == 320 + 18496 + 1179776 + 1290);
  CHECK(parameters("zou_mnist", {28, 28, 1}) == 1199882);
  // 25 * 16 + 16 and 2 * 16, 25 * 16 * 32 + 32 and 2 * 32, 7 * 7 * 32 * 10 + 10
  CHECK(parameters("zou_fashion", {28, 28, 1}) == 416 + 32 + 12832 + 64 + 15690);
  CHECK(parameters("zou_fashion", {28, 28, 1}) == 29034);
  // stem 432 + 32; blocks (2304 + 32) * 2; 4608 + 64 + 9216 + 64 + 512 + 64;
  // 18432 + 128 + 36864 + 128 + 2048 + 128; dense 650
  CHECK(parameters("resnet8", {32, 32, 3}) == 464 + 4672 + 14528 + 57728 + 650);
  CHECK(parameters("resnet8", {32, 32, 3}) == 78042);
}

}  // namespace
}  // namespace starling::test_cnn_layers
