#include "kernels/tensor_sizes.hpp"

#include <cmath>
#include <numeric>

#include "sim/base/error.hpp"

namespace starling {
namespace {

using Sizes = std::vector<std::size_t>;

void add_all(Sizes& sizes, std::initializer_list<std::size_t> more) {
  sizes.insert(sizes.end(), more);
}

/// A convolution of side x side without bias, then a normalization with a scale and an offset per channel.
void convolution(Sizes& sizes, std::size_t side, std::size_t in, std::size_t out) {
  add_all(sizes, {side * side * in * out, out, out});
}

/// Projections to queries, keys, values and back, without bias; then scale and offset of a layer normalization.
void attention(Sizes& sizes, std::size_t d) { add_all(sizes, {d * d, d * d, d * d, d * d, d, d}); }

/// Two dense layers with bias, and their layer normalization.
void feed_forward(Sizes& sizes, std::size_t d, std::size_t inner) {
  add_all(sizes, {d * inner, inner, inner * d, d, d, d});
}

}  // namespace

std::vector<std::size_t> resnet50_tensors() {
  Sizes sizes;
  convolution(sizes, 7, 3, 64);
  constexpr std::size_t blocks[] = {3, 4, 6, 3};
  std::size_t in = 64;
  std::size_t width = 64;
  for (const std::size_t count : blocks) {
    for (std::size_t block = 0; block < count; ++block) {
      if (block == 0) convolution(sizes, 1, in, 4 * width);  // the shortcut
      convolution(sizes, 1, in, width);
      convolution(sizes, 3, width, width);
      convolution(sizes, 1, width, 4 * width);
      in = 4 * width;
    }
    width *= 2;
  }
  add_all(sizes, {in * 1001, 1001});
  return sizes;
}

std::vector<std::size_t> transformer_base_tensors() {
  constexpr std::size_t d = 512;
  constexpr std::size_t inner = 2048;
  Sizes sizes{33'708 * d};
  for (const std::size_t attentions : {1, 2}) {  // encoder, decoder
    for (int layer = 0; layer < 6; ++layer) {
      for (std::size_t a = 0; a < attentions; ++a) attention(sizes, d);
      feed_forward(sizes, d, inner);
    }
    add_all(sizes, {d, d});  // the stack's own normalization
  }
  return sizes;
}

std::vector<std::size_t> resnet18_lstm_tensors() {
  Sizes sizes;
  convolution(sizes, 7, 1, 32);
  std::size_t in = 32;
  for (const std::size_t width : {32, 64, 128, 256}) {
    for (int block = 0; block < 2; ++block) {
      convolution(sizes, 3, in, width);
      convolution(sizes, 3, width, width);
      if (in != width) convolution(sizes, 1, in, width);  // the shortcut
      in = width;
    }
  }
  convolution(sizes, 3, in, 128);        // compression to 128 x 4 x 4 = 2048 numbers
  add_all(sizes, {2048 * 512, 512});     // visual features
  add_all(sizes, {3 * 32, 32, 5 * 32});  // goal; the action before, of 4 and "none"
  constexpr std::size_t hidden = 512;
  for (const std::size_t inputs : {hidden + 32 + 32, hidden}) {  // LSTM: four gates, two biases
    add_all(sizes, {4 * hidden * inputs, 4 * hidden * hidden, 4 * hidden, 4 * hidden});
  }
  add_all(sizes, {hidden * 4, 4, hidden, 1});  // action, value
  return sizes;
}

std::vector<std::size_t> inception_lstm_tensors() {
  constexpr std::size_t features = 2048;  // of a frame, by Inception v3, which is not trained
  constexpr std::size_t hidden = 2048;
  constexpr std::size_t dense = 512;
  constexpr std::size_t classes = 101;
  return {features * 4 * hidden,
          hidden * 4 * hidden,
          4 * hidden,  // LSTM: four gates, one bias
          hidden * dense,
          dense,
          dense * classes,
          classes};
}

std::vector<std::size_t> scaled_tensors(const std::vector<std::size_t>& sizes,
                                        std::size_t parameters) {
  ensure(parameters >= sizes.size(), "more tensors than parameters");
  const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  const double factor = static_cast<double>(parameters - sizes.size()) / static_cast<double>(all);
  Sizes scaled;
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
