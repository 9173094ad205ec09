// Sizes of the tensors of well-known models, derived from their architectures: what is exchanged tensor by tensor.
#pragma once

#include <cstddef>
#include <vector>

namespace starling {

/// Floats of every tensor of ResNet-50 v1 (He et al., CVPR 2016) with 1001 classes, input side first: 161 tensors,
/// 25,559,081 floats. A convolution has one tensor, its batch normalization two, the last layer two.
std::vector<std::size_t> resnet50_tensors();

/// The base Transformer (Vaswani et al., NeurIPS 2017): d = 512, inner layer 2048, six layers each side, and one
/// embedding of 33,708 words for input and output: 61,362,176 floats.
std::vector<std::size_t> transformer_base_tensors();

/// The DD-PPO navigation policy (Wijmans et al., ICLR 2020): ResNet-18 of half width with group normalization on depth
/// images, two LSTM layers of 512: 8,476,421 floats.
std::vector<std::size_t> resnet18_lstm_tensors();

/// What eager-SGD (Li et al., PPoPP 2020, Table 1) trains on UCF101: an LSTM of 2048 units over the 2048 features that
/// Inception v3 finds in a frame, a dense layer of 512, one of 101 classes: 34,663,525 floats, the sum that the paper gives.
std::vector<std::size_t> inception_lstm_tensors();

/// The same proportions for a model of `parameters` floats: every tensor scaled and rounded, none empty.
std::vector<std::size_t> scaled_tensors(const std::vector<std::size_t>& sizes,
                                        std::size_t parameters);

}  // namespace starling
