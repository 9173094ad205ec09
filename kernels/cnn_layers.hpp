// The words that spell a convolutional network in a scenario:
//
//   layers = conv 32 3x3, relu, conv 64 3x3, relu, pool 2, dropout 0.25, dense 128, relu
//
//   conv C HxW [same] [/S] [unbiased]
//                           C channels out, kernel H x W, every S-th pixel; `same` frames the image
//                           with zeros so that, without /S, its size stays
//   relu                    max(x, 0)
//   pool N                  maximum of every N x N square
//   average                 mean over all pixels
//   batchnorm               normalized per channel over the mini-batch, then scaled and shifted
//   groupnorm G             the same per sample, over pixels and each of G groups of channels
//   dropout P               each number is dropped with probability P, the others grow by 1 / (1 - P)
//   dense N                 fully connected
//   residual C G [/S]       relu(f(x) + h(x)) with C channels out and f two unbiased convolutions
//                           3x3, each followed by groupnorm G, with relu between; h(x) = x, or, if
//                           channels or size change, an unbiased convolution 1x1 and groupnorm G
//
// The last layer, dense to the classes, is not written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

/// One word group between commas. What a kind does not use stays 0.
struct CnnLayer {
  enum class Kind { conv, relu, pool, average, batchnorm, groupnorm, dropout, dense, residual };
  Kind kind;
  std::size_t count = 0;  // C or N
  std::size_t kernel_height = 0, kernel_width = 0;
  std::size_t stride = 1;
  bool same = false, unbiased = false;
  std::size_t groups = 0;  // G
  double rate = 0;         // P
  std::string text{};      // as written, for messages
};

/// Throws std::invalid_argument: "must be ..., got ...".
std::vector<CnnLayer> parse_cnn_layers(std::string_view text);

/// Well-known networks by name.
struct CnnPreset {
  const char* name;
  const char* layers;
};

/// zou_mnist: the network of PyTorch's MNIST example, 1,199,882 parameters on 28x28 in 10 classes;
/// zou_fashion: two convolutions 5x5 with batch normalization, 29,034 parameters on the same.
/// Parameters and data are those of Zou, "Bidirectional top-K sparsification" (thesis, Waterloo,
/// 2022); the layers are what gives these numbers.
/// resnet8: 78,042 parameters on 32x32x3 in 10 classes. He et al., "Deep Residual Learning for Image
/// Recognition", CVPR 2016, section 4.2, with n = 1, 1x1 shortcuts and, in place of batch
/// normalization, Wu and He, "Group Normalization", ECCV 2018.
inline constexpr CnnPreset cnn_presets[] = {
    {"zou_mnist",
     "conv 32 3x3, relu, conv 64 3x3, relu, pool 2, dropout 0.25, dense 128, relu, dropout 0.5"},
    {"zou_fashion",
     "conv 16 5x5 same, batchnorm, relu, pool 2, conv 32 5x5 same, batchnorm, relu, pool 2"},
    {"resnet8",
     "conv 16 3x3 same unbiased, groupnorm 8, relu, residual 16 8, residual 32 8 /2, "
     "residual 64 8 /2, average"},
};

}  // namespace starling
