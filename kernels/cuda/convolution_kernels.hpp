// The products of a convolution on a device, for many models at once: a block per tile of one task, as in
// layer_kernels.hpp; kernels/dense_images.hpp defines every number. No input is framed or unfolded in memory: what a
// place of the kernel sees is looked up, or is the 0 of the border, when a tile is fetched.
#pragma once

#include "kernels/cuda/layer_kernels.hpp"

namespace starling::cuda {

/// A convolution of images with a border of zeros.
struct ConvolutionShape {
  std::uint32_t height, width, channels;  // of the input, without its border
  std::uint32_t border_height, border_width;
  std::uint32_t kernel_height, kernel_width, stride;
  std::uint32_t out_height, out_width, outputs;

  STARLING_DEVICE std::uint32_t pixels() const { return height * width; }
  STARLING_DEVICE std::uint32_t out_pixels() const { return out_height * out_width; }
  STARLING_DEVICE std::uint32_t places() const { return kernel_height * kernel_width; }
  /// Terms of one sum.
  STARLING_DEVICE std::uint32_t inputs() const { return places() * channels; }
};

struct ConvolutionArguments {
  const StepTask* tasks;
  ConvolutionShape shape;
  std::uint32_t rows;  // room for samples of a task
  std::uint32_t weights, bias;
  std::uint32_t is_biased;
  const float* input;  // (tasks, rows, height, width, channels)
  float* output;  // (tasks, rows, out_height, out_width, outputs): written, or its gradient, read
  float* slope;   // gradient of the input, written
  std::uint32_t adds;  // to what is in slope
};

/// Input k of the sum for output pixel p, counted over all images.
STARLING_DEVICE float seen_by(const ConvolutionShape& s, const float* images, std::uint32_t k,
                              std::uint32_t p) {
  const std::uint32_t place = k / s.channels, pixel = p % s.out_pixels();
  // Above or left of the image a coordinate wraps around and is too large, too.
  const std::uint32_t y = pixel / s.out_width * s.stride + place / s.kernel_width - s.border_height;
  const std::uint32_t x = pixel % s.out_width * s.stride + place % s.kernel_width - s.border_width;
  if (y >= s.height || x >= s.width) return 0.0F;
  const std::uint64_t image = p / s.out_pixels();
  return images[((image * s.height + y) * s.width + x) * s.channels + k % s.channels];
}

/// y = the sum over the inputs of every pixel, from the bias on.
template <std::uint32_t width>
struct ConvolveOf {
  static constexpr unsigned threads = tile_threads;
  static constexpr std::uint32_t shared_bytes = sizeof(TileMemory<width>);
  using Arguments = ConvolutionArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.rows * a.shape.out_pixels(), tile_rows), pieces_of(a.shape.outputs, width)};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const ConvolutionShape& s = a.shape;
    const Tile tile = Tile::of(block, tiles(a), width);
    const std::uint32_t t = tile.t, pixel = tile.row, column = tile.column;
    const StepTask task = a.tasks[t];
    const std::uint32_t pixels = task.rows * s.out_pixels();
    if (pixel >= pixels) return;
    const std::uint64_t first_image = std::uint64_t{t} * a.rows;
    const float* images = a.input + first_image * s.pixels() * s.channels;
    float* y = a.output + (first_image * s.out_pixels() + pixel) * s.outputs + column;
    const float* weights = task.x + a.weights;
    const float* bias = task.x + a.bias + column;
    tile_product<width, Runs::along_inner, Runs::across>(
        block, s.inputs(), pixels - pixel, s.outputs - column,
        [&](std::uint32_t k, std::uint32_t m) { return seen_by(s, images, k, pixel + m); },
        [&](std::uint32_t k, std::uint32_t n) {
          return weights[weight_at(s.inputs(), s.outputs, k, column + n)];
        },
        [&](std::uint32_t, std::uint32_t n) { return a.is_biased != 0 ? bias[n] : 0.0F; },
        [&](std::uint32_t m, std::uint32_t n, float sum) {
          y[std::uint64_t{m} * s.outputs + n] = sum;
        });
  }
};
using ConvolveKernel = ConvolveOf<64>;
using NarrowConvolveKernel = ConvolveOf<16>;

/// dW = the sum over all pixels, image by image, of what an input saw times dy; the bias, if there is one, is an input
/// that saw 1 everywhere.
template <std::uint32_t width>
struct ConvolutionGradientOf {
  static constexpr unsigned threads = tile_threads;
  static constexpr std::uint32_t shared_bytes = sizeof(TileMemory<width>);
  using Arguments = ConvolutionArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.shape.inputs() + a.is_biased, tile_rows),
            pieces_of(a.shape.outputs, width)};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const ConvolutionShape& s = a.shape;
    const Tile tile = Tile::of(block, tiles(a), width);
    const std::uint32_t t = tile.t, input = tile.row, column = tile.column;
    const StepTask task = a.tasks[t];
    const std::uint64_t first_image = std::uint64_t{t} * a.rows;
    const float* images = a.input + first_image * s.pixels() * s.channels;
    const float* dy = a.output + first_image * s.out_pixels() * s.outputs + column;
    tile_product<width, Runs::across, Runs::across>(
        block, task.rows * s.out_pixels(), s.inputs() + a.is_biased - input, s.outputs - column,
        [&](std::uint32_t p, std::uint32_t m) {
          return input + m == s.inputs() ? 1.0F : seen_by(s, images, input + m, p);
        },
        [&](std::uint32_t p, std::uint32_t n) { return dy[std::uint64_t{p} * s.outputs + n]; },
        [](std::uint32_t, std::uint32_t) { return 0.0F; },
        [&](std::uint32_t m, std::uint32_t n, float sum) {
          const std::uint64_t at =
              input + m == s.inputs()
                  ? a.bias + column + n
                  : a.weights + weight_at(s.inputs(), s.outputs, input + m, column + n);
          store_gradient(task, at, sum);
        });
  }
};
using ConvolutionGradientKernel = ConvolutionGradientOf<64>;
using NarrowConvolutionGradientKernel = ConvolutionGradientOf<16>;

/// dx = the convolution of dy, `stride` apart and framed with zeros, with the kernel turned by half a turn: of every
/// pixel the sum over places and outputs, in order, zeros included.
template <std::uint32_t width>
struct ConvolutionInputOf {
  static constexpr unsigned threads = tile_threads;
  static constexpr std::uint32_t shared_bytes = sizeof(TileMemory<width>);
  using Arguments = ConvolutionArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.rows * a.shape.pixels(), tile_rows), pieces_of(a.shape.channels, width)};
  }

  /// Term k of the sum for input pixel p, counted over all images.
  STARLING_DEVICE static float slope_at(const ConvolutionShape& s, const float* dy, std::uint32_t k,
                                        std::uint32_t p) {
    const std::uint32_t place = k / s.outputs, pixel = p % s.pixels();
    const std::uint32_t y =
        pixel / s.width + place / s.kernel_width - (s.kernel_height - 1 - s.border_height);
    const std::uint32_t x =
        pixel % s.width + place % s.kernel_width - (s.kernel_width - 1 - s.border_width);
    if (y % s.stride != 0 || x % s.stride != 0) return 0.0F;
    if (y / s.stride >= s.out_height || x / s.stride >= s.out_width) return 0.0F;
    const std::uint64_t image = p / s.pixels();
    const std::uint64_t from = (image * s.out_height + y / s.stride) * s.out_width + x / s.stride;
    return dy[from * s.outputs + k % s.outputs];
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const ConvolutionShape& s = a.shape;
    const Tile tile = Tile::of(block, tiles(a), width);
    const std::uint32_t t = tile.t, pixel = tile.row, channel = tile.column;
    const StepTask task = a.tasks[t];
    const std::uint64_t first_image = std::uint64_t{t} * a.rows;
    const float* dy = a.output + first_image * s.out_pixels() * s.outputs;
    const float* weights = task.x + a.weights;
    float* dx = a.slope + (first_image * s.pixels() + pixel) * s.channels + channel;
    tile_product<width, Runs::along_inner, Runs::along_inner>(
        block, s.places() * s.outputs, task.rows * s.pixels() - pixel, s.channels - channel,
        [&](std::uint32_t k, std::uint32_t m) { return slope_at(s, dy, k, pixel + m); },
        [&](std::uint32_t k, std::uint32_t n) {
          const std::uint32_t place = s.places() - 1 - k / s.outputs;
          return weights[weight_at(s.inputs(), s.outputs, place * s.channels + channel + n,
                                   k % s.outputs)];
        },
        [&](std::uint32_t m, std::uint32_t n) {
          return a.adds != 0 ? dx[std::uint64_t{m} * s.channels + n] : 0.0F;
        },
        [&](std::uint32_t m, std::uint32_t n, float sum) {
          dx[std::uint64_t{m} * s.channels + n] = sum;
        });
  }
};
using ConvolutionInputKernel = ConvolutionInputOf<64>;
using NarrowConvolutionInputKernel = ConvolutionInputOf<16>;

}  // namespace starling::cuda
