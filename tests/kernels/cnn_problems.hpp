// What the tests of convolutional networks share: small networks with one of each layer, on noise.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cnn.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/answers.hpp"

namespace starling::test {

inline Dataset noise(std::size_t samples, std::size_t features, int classes, std::uint64_t seed) {
  Random random(seed, "noise");
  Dataset data{.samples = samples, .features = features, .classes = classes};
  for (std::size_t i = 0; i < samples * features; ++i) {
    data.x.push_back(static_cast<float>(random.normal()));
  }
  for (std::size_t s = 0; s < samples; ++s) {
    data.y.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
  }
  return data;
}

/// Samples 0, nodes, 2 nodes, .. belong to node 0, and so on.
inline Cnn::Problem problem(const std::string& layers, Extent image, std::int64_t batch_size,
                            std::size_t nodes) {
  Cnn::Problem result;
  result.layers = parse_cnn_layers(layers);
  result.image = image;
  result.data.train = noise(31, image.size(), 4, 1);
  result.data.test = noise(40, image.size(), 4, 2);  // more than two blocks of 16
  result.data.description = "noise";
  result.batch_size = batch_size;
  result.parts.resize(nodes);
  for (std::int32_t s = 0; s < 31; ++s) {
    result.parts[static_cast<std::size_t>(s) % nodes].push_back(s);
  }
  result.seed = 5;
  return result;
}

/// One of each layer, in orders that meet each other's needs: pooling before relu and dropout, odd
/// sizes, strides, a projection and an identity as shortcut, normalization of the image itself.
inline const std::vector<std::pair<std::string, Extent>> networks = {
    {"conv 3 3x3, relu, pool 2, dense 5, relu", {7, 6, 1}},
    {"conv 4 3x2 /2, relu, conv 18 2x2 unbiased", {9, 8, 2}},
    {"conv 3 3x3 same /2, pool 2, relu, dropout 0.25, dense 6, dropout 0.5", {8, 9, 2}},
    {"conv 4 5x3 same, batchnorm, relu, pool 3, conv 3 1x1, batchnorm, relu", {6, 7, 1}},
    {"conv 4 3x3, groupnorm 2, relu, average", {5, 6, 3}},
    {"residual 4 2, residual 6 3 /2, average", {6, 5, 4}},
    {"relu, groupnorm 1, conv 2 3x3 same, dense 3, relu", {4, 4, 2}},
    {"conv 36 3x3 same, relu, residual 36 4 /3, pool 2", {5, 5, 1}},
    {"batchnorm, dense 7, batchnorm, relu", {3, 3, 2}},
};

/// Visits the tensors of the model in order: first(place in the model), count, input count, output
/// count (0 inputs if not a matrix), and whether it is a scale.
template <class Visit>
void for_each_tensor(const CnnNetwork& network, const Visit& visit) {
  for (const auto& place : network.operations()) {
    if (const auto* convolve = std::get_if<CnnNetwork::Convolve>(&place.operation)) {
      visit(convolve->weights, convolve->shape.inputs(), convolve->shape.outputs, false);
      if (convolve->is_biased) visit(convolve->bias, 0, convolve->shape.outputs, false);
    } else if (const auto* dense = std::get_if<CnnNetwork::Dense>(&place.operation)) {
      visit(dense->weights, dense->inputs, dense->outputs, false);
      visit(dense->bias, 0, dense->outputs, false);
    } else if (const auto* normalize = std::get_if<CnnNetwork::Normalize>(&place.operation)) {
      visit(normalize->scale, 0, place.from.channels, true);
      visit(normalize->shift, 0, place.from.channels, false);
    }
  }
}

/// Where number i of a tensor is in the model.
inline std::size_t place_of(std::size_t first, std::size_t inputs, std::size_t outputs,
                            std::size_t i) {
  return first + (inputs == 0 ? i : dense::weight_index(inputs, outputs, i / outputs, i % outputs));
}

}  // namespace starling::test
