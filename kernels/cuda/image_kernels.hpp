// What a convolutional network does besides products and normalization, on a device, for all images of all models at
// once; kernels/dense_images.hpp defines every number. Images lie as there, without gaps.
#pragma once

#include "kernels/cuda/mlp_task.hpp"
#include "kernels/cuda/philox.hpp"

namespace starling::cuda {

inline constexpr unsigned image_threads = 256;
inline constexpr std::uint32_t numbers_per_block = 8 * image_threads;

/// f(i) for i < count, in blocks of numbers_per_block.
template <class F>
STARLING_DEVICE void each_number(const Block& block, std::uint64_t count, const F& f) {
  block.each([&](unsigned thread) {
    const std::uint64_t begin = std::uint64_t{block.index} * numbers_per_block;
    for (std::uint32_t j = thread; j < numbers_per_block; j += image_threads) {
      if (begin + j < count) f(begin + j);
    }
  });
}

/// y from a and b, number by number; any of them may be the same.
struct ElementKernel {
  static constexpr unsigned threads = image_threads;
  enum class Operation : std::uint32_t {
    relu,           // y = a, or 0 if that is negative
    relu_gradient,  // y = a where b is positive, else 0
    add,            // y = a + b
    multiply,       // y = a b
    copy,           // y = a
    clear           // y = 0
  };
  struct Arguments {
    Operation operation;
    std::uint64_t count;
    const float* a;
    const float* b;
    float* y;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.count, [&](std::uint64_t i) {
      switch (a.operation) {
        case Operation::relu:
          a.y[i] = a.a[i] < 0 ? 0.0F : a.a[i];
          return;
        case Operation::relu_gradient:
          a.y[i] = a.b[i] > 0 ? a.a[i] : 0.0F;
          return;
        case Operation::add:
          a.y[i] = a.a[i] + a.b[i];
          return;
        case Operation::multiply:
          a.y[i] = a.a[i] * a.b[i];
          return;
        case Operation::copy:
          a.y[i] = a.a[i];
          return;
        case Operation::clear:
          a.y[i] = 0.0F;
          return;
      }
    });
  }
};

/// `images` images are cut into squares of window x window pixels side by side.
struct PoolArguments {
  std::uint64_t images;
  std::uint32_t height, width, channels, window;
  const float* x;
  float* y;         // forward: written
  const float* dy;  // backward: read
  float* dx;        // backward: written, but for pixels of no square

  /// One per square and channel.
  STARLING_DEVICE std::uint64_t count() const {
    return images * (height / window) * (width / window) * channels;
  }
  /// Where square and channel i begins in x.
  STARLING_DEVICE std::uint64_t corner(std::uint64_t i) const {
    const std::uint64_t square = i / channels;
    const std::uint64_t column = square % (width / window);
    const std::uint64_t row = square / (width / window) % (height / window);
    const std::uint64_t image = square / (width / window) / (height / window);
    return ((image * height + row * window) * width + column * window) * channels + i % channels;
  }
};

struct PoolKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = PoolArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.count(), [&](std::uint64_t i) {
      const float* x = a.x + a.corner(i);
      float y = x[0];
      for (std::uint32_t place = 1; place < a.window * a.window; ++place) {
        const float value =
            x[(place / a.window * std::uint64_t{a.width} + place % a.window) * a.channels];
        y = value > y || value != value ? value : y;
      }
      a.y[i] = y;
    });
  }
};

/// The gradient of a square goes to its first pixel, row by row, that has the maximum.
struct PoolGradientKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = PoolArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.count(), [&](std::uint64_t i) {
      const std::uint64_t corner = a.corner(i);
      const auto at = [&](std::uint32_t place) {
        return corner + (place / a.window * std::uint64_t{a.width} + place % a.window) * a.channels;
      };
      float highest = a.x[corner];
      for (std::uint32_t place = 0; place < a.window * a.window; ++place)
        highest = a.x[at(place)] > highest ? a.x[at(place)] : highest;
      float rest = a.dy[i];  // until a pixel has taken it
      for (std::uint32_t place = 0; place < a.window * a.window; ++place) {
        const bool is_highest = a.x[at(place)] == highest;
        a.dx[at(place)] = is_highest ? rest : 0.0F;
        rest = is_highest ? 0.0F : rest;
      }
    });
  }
};

struct AverageArguments {
  std::uint64_t images;
  std::uint32_t pixels, channels;
  const float* from;
  float* to;
};

/// Means over the pixels: from (images, pixels, channels) to (images, channels).
struct AverageKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = AverageArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.images * a.channels, [&](std::uint64_t i) {
      const float* x = a.from + i / a.channels * a.pixels * a.channels + i % a.channels;
      float sum = 0;
      for (std::uint32_t p = 0; p < a.pixels; ++p) sum += x[std::uint64_t{p} * a.channels];
      a.to[i] = sum / static_cast<float>(a.pixels);
    });
  }
};

/// The way back: from (images, channels) to (images, pixels, channels).
struct AverageGradientKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = AverageArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.images * a.pixels * a.channels, [&](std::uint64_t i) {
      const std::uint64_t image = i / a.channels / a.pixels;
      a.to[i] = a.from[image * a.channels + i % a.channels] / static_cast<float>(a.pixels);
    });
  }
};

/// Drops numbers of an image, 16 random bits each, and keeps what each was multiplied by. A block per image.
struct DropoutKernel {
  static constexpr unsigned threads = image_threads;
  struct Arguments {
    const Stream* streams;  // (images)
    std::uint32_t size;     // of an image
    std::uint32_t threshold;
    float grown;
    float* factors;
    float* y;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const std::uint64_t first = std::uint64_t{block.index} * a.size;
    block.each([&](unsigned thread) {
      const Stream stream = a.streams[block.index];
      for (std::uint32_t i = thread; i < a.size; i += threads) {
        const std::uint32_t word = word_of(stream, i / 2);
        const std::uint32_t bits = (i % 2 == 0 ? word : word >> 16) & 0xFFFFU;
        const float factor = bits < a.threshold ? 0.0F : a.grown;
        a.factors[first + i] = factor;
        a.y[first + i] *= factor;
      }
    });
  }
};

}  // namespace starling::cuda
