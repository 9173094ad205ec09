// Shapes of the tensors of well-known models, derived from their architectures: what is exchanged tensor by tensor, or as products
// of thin matrices.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace starling {

/// A weight matrix, with a row for each input of a sum, or a vector, of one column. A convolution's has side^2 * channels rows.
struct TensorShape {
  std::size_t rows;
  std::size_t columns = 1;

  std::size_t size() const { return rows * columns; }
  friend bool operator==(const TensorShape&, const TensorShape&) = default;
};

struct KnownModel {
  std::string_view name;
  /// Input side first.
  std::vector<TensorShape> (*shapes)();
};

/// Models by name, each with the number of floats that is published:
///   resnet50          ResNet-50 v1 (He et al., CVPR 2016) with 1001 classes: 161 tensors, 25,559,081 floats. A convolution has one
///                     tensor, its batch normalization two, the last layer two
///   resnet18          for CIFAR-10, as PowerSGD has it (Vogels et al., NeurIPS 2019): 11,173,962
///   resnet101         1000 classes: 44,549,160
///   vgg16             Simonyan, Zisserman, ICLR 2015: 138,357,544
///   transformer_base  Vaswani et al., NeurIPS 2017: d = 512, inner layer 2048, six layers each side, one embedding of 33,708 words
///                     for input and output: 61,362,176
///   bert_large        Devlin et al., NAACL 2019, uncased, with the pooling layer: 335,141,888
///   lstm_wikitext2    PowerSGD's language model: three layers of 650 units, 28,869 words: 28,949,319
///   resnet18_lstm     the DD-PPO navigation policy (Wijmans et al., ICLR 2020): ResNet-18 of half width with group normalization on
///                     depth images, two LSTM layers of 512: 8,476,421
///   inception_lstm    what eager-SGD (Li et al., PPoPP 2020, Table 1) trains on UCF101: an LSTM of 2048 units over the 2048 features
///                     that Inception v3 finds in a frame, a dense layer of 512, one of 101 classes: 34,663,525
std::span<const KnownModel> known_models();

/// Floats of each tensor, and of all.
std::vector<std::size_t> sizes_of(std::span<const TensorShape> shapes);
std::size_t size_of(std::span<const TensorShape> shapes);

/// The same proportions for a model of `parameters` floats: every tensor scaled and rounded, none empty.
std::vector<std::size_t> scaled_tensors(const std::vector<std::size_t>& sizes,
                                        std::size_t parameters);

}  // namespace starling
