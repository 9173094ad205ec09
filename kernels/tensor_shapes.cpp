#include "kernels/tensor_shapes.hpp"

#include <cmath>
#include <numeric>

#include "sim/base/error.hpp"

namespace starling {
namespace {

using Shapes = std::vector<TensorShape>;

void add_all(Shapes& shapes, std::initializer_list<TensorShape> more) {
  shapes.insert(shapes.end(), more);
}

/// A convolution of side x side without bias, then a normalization with a scale and an offset per channel.
void convolution(Shapes& shapes, std::size_t side, std::size_t in, std::size_t out) {
  add_all(shapes, {{side * side * in, out}, {out}, {out}});
}

void dense(Shapes& shapes, std::size_t in, std::size_t out) { add_all(shapes, {{in, out}, {out}}); }

/// Scale and offset of a layer normalization.
void normalization(Shapes& shapes, std::size_t d) { add_all(shapes, {{d}, {d}}); }

/// Projections to queries, keys, values and back, without bias, and a layer normalization.
void attention(Shapes& shapes, std::size_t d) {
  add_all(shapes, {{d, d}, {d, d}, {d, d}, {d, d}});
  normalization(shapes, d);
}

/// Two dense layers with bias, and their layer normalization.
void feed_forward(Shapes& shapes, std::size_t d, std::size_t inner) {
  dense(shapes, d, inner);
  dense(shapes, inner, d);
  normalization(shapes, d);
}

/// Of so many blocks in each of four stages, whose first one has a shortcut, on images.
Shapes resnet_of_bottlenecks(std::span<const std::size_t> blocks, std::size_t classes) {
  Shapes shapes;
  convolution(shapes, 7, 3, 64);
  std::size_t in = 64;
  std::size_t width = 64;
  for (const std::size_t count : blocks) {
    for (std::size_t block = 0; block < count; ++block) {
      if (block == 0) convolution(shapes, 1, in, 4 * width);  // the shortcut
      convolution(shapes, 1, in, width);
      convolution(shapes, 3, width, width);
      convolution(shapes, 1, width, 4 * width);
      in = 4 * width;
    }
    width *= 2;
  }
  dense(shapes, in, classes);
  return shapes;
}

/// Two blocks of two convolutions of each width.
void add_basic_blocks(Shapes& shapes, std::size_t in, std::span<const std::size_t> widths) {
  for (const std::size_t width : widths) {
    for (int block = 0; block < 2; ++block) {
      convolution(shapes, 3, in, width);
      convolution(shapes, 3, width, width);
      if (in != width) convolution(shapes, 1, in, width);  // the shortcut
      in = width;
    }
  }
}

Shapes resnet50() {
  constexpr std::size_t blocks[] = {3, 4, 6, 3};
  return resnet_of_bottlenecks(blocks, 1001);
}

Shapes resnet101() {
  constexpr std::size_t blocks[] = {3, 4, 23, 3};
  return resnet_of_bottlenecks(blocks, 1000);
}

Shapes resnet18() {
  constexpr std::size_t widths[] = {64, 128, 256, 512};
  Shapes shapes;
  convolution(shapes, 3, 3, 64);
  add_basic_blocks(shapes, 64, widths);
  dense(shapes, 512, 10);
  return shapes;
}

Shapes vgg16() {
  Shapes shapes;
  std::size_t in = 3;
  for (const std::size_t out : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    dense(shapes, 3 * 3 * in, out);  // a convolution with bias
    in = out;
  }
  dense(shapes, 7 * 7 * in, 4096);
  dense(shapes, 4096, 4096);
  dense(shapes, 4096, 1000);
  return shapes;
}

Shapes transformer_base() {
  constexpr std::size_t d = 512;
  constexpr std::size_t inner = 2048;
  Shapes shapes{{33'708, d}};
  for (const int attentions : {1, 2}) {  // encoder, decoder
    for (int layer = 0; layer < 6; ++layer) {
      for (int a = 0; a < attentions; ++a) attention(shapes, d);
      feed_forward(shapes, d, inner);
    }
    normalization(shapes, d);  // the stack's own
  }
  return shapes;
}

Shapes bert_large() {
  constexpr std::size_t d = 1024;
  Shapes shapes{{30'522, d}, {512, d}, {2, d}};  // words, positions, segments
  normalization(shapes, d);
  for (int layer = 0; layer < 24; ++layer) {
    for (int projection = 0; projection < 4; ++projection) dense(shapes, d, d);
    normalization(shapes, d);
    feed_forward(shapes, d, 4 * d);
  }
  dense(shapes, d, d);  // pooling
  return shapes;
}

/// Four gates, two biases.
void lstm(Shapes& shapes, std::size_t inputs, std::size_t hidden) {
  add_all(shapes, {{inputs, 4 * hidden}, {hidden, 4 * hidden}, {4 * hidden}, {4 * hidden}});
}

Shapes lstm_wikitext2() {
  constexpr std::size_t words = 28'869;
  constexpr std::size_t hidden = 650;
  Shapes shapes{{words, hidden}};  // of input and output
  for (int layer = 0; layer < 3; ++layer) lstm(shapes, hidden, hidden);
  shapes.push_back({words});
  return shapes;
}

Shapes resnet18_lstm() {
  constexpr std::size_t widths[] = {32, 64, 128, 256};
  constexpr std::size_t hidden = 512;
  Shapes shapes;
  convolution(shapes, 7, 1, 32);
  add_basic_blocks(shapes, 32, widths);
  convolution(shapes, 3, 256, 128);           // compression to 128 x 4 x 4 = 2048 numbers
  dense(shapes, 2048, hidden);                // visual features
  add_all(shapes, {{3, 32}, {32}, {5, 32}});  // goal; the action before, of 4 and "none"
  lstm(shapes, hidden + 32 + 32, hidden);
  lstm(shapes, hidden, hidden);
  dense(shapes, hidden, 4);  // action
  dense(shapes, hidden, 1);  // value
  return shapes;
}

Shapes inception_lstm() {
  constexpr std::size_t features = 2048;  // of a frame, by Inception v3, which is not trained
  constexpr std::size_t hidden = 2048;
  Shapes shapes{{features, 4 * hidden}, {hidden, 4 * hidden}, {4 * hidden}};  // LSTM, one bias
  dense(shapes, hidden, 512);
  dense(shapes, 512, 101);
  return shapes;
}

constexpr KnownModel models[] = {
    {"resnet50", resnet50},
    {"resnet18", resnet18},
    {"resnet101", resnet101},
    {"vgg16", vgg16},
    {"transformer_base", transformer_base},
    {"bert_large", bert_large},
    {"lstm_wikitext2", lstm_wikitext2},
    {"resnet18_lstm", resnet18_lstm},
    {"inception_lstm", inception_lstm},
};

}  // namespace

std::span<const KnownModel> known_models() { return models; }

std::vector<std::size_t> sizes_of(std::span<const TensorShape> shapes) {
  std::vector<std::size_t> sizes;
  for (const TensorShape& shape : shapes) sizes.push_back(shape.size());
  return sizes;
}

std::size_t size_of(std::span<const TensorShape> shapes) {
  const std::vector<std::size_t> sizes = sizes_of(shapes);
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

std::vector<std::size_t> scaled_tensors(const std::vector<std::size_t>& sizes,
                                        std::size_t parameters) {
  ensure(parameters >= sizes.size(), "more tensors than parameters");
  const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  const double factor = static_cast<double>(parameters - sizes.size()) / static_cast<double>(all);
  std::vector<std::size_t> scaled;
  std::size_t seen = 0;
  std::size_t begin = 0;
  for (const std::size_t size :
       sizes) {  // rounds the ends, so that the sum is right; one float each comes on top
    seen += size;
    const auto end = static_cast<std::size_t>(std::floor(factor * static_cast<double>(seen) + 0.5));
    scaled.push_back(end - begin + 1);
    begin = end;
  }
  scaled.back() += parameters - sizes.size() - begin;
  return scaled;
}

}  // namespace starling
