// What a convolutional network does besides products and normalization, on a device, for all images of all models at
// once; kernels/dense/images.hpp defines every number. Images lie as there, without gaps.
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

/// `count` neighboring numbers that a thread moves as one: 4, which lie at a multiple of 16 bytes, or 1.
template <unsigned count>
struct Unit {
  float at[count];

  STARLING_DEVICE static Unit load(const float* from) {
    if constexpr (count == 4) {
      const Quad quad = load_as<Quad>(from);
      return {{quad.x, quad.y, quad.z, quad.w}};
    } else {
      return {{*from}};
    }
  }
  STARLING_DEVICE void store(float* to) const {
    if constexpr (count == 4) {
      store_quad(to, {at[0], at[1], at[2], at[3]});
    } else {
      *to = at[0];
    }
  }
};

/// Some pixels of an image, in one channel.
struct PixelRange {
  std::uint32_t first, end, step;
  std::uint64_t at;     // of the first one among all numbers
  std::uint64_t apart;  // numbers from one to the next

  /// f(where a pixel's number lies, which pixel that is)
  template <class F>
  STARLING_DEVICE void each(const F& f) const {
    std::uint64_t here = at;
    for (std::uint32_t p = first; p < end; p += step, here += apart) f(here, p);
  }
};

/// Blocks that an image is cut into by each_pixel().
STARLING_DEVICE std::uint32_t image_parts(std::uint32_t pixels, std::uint32_t channels) {
  const std::uint64_t numbers = std::uint64_t{pixels} * channels;
  return static_cast<std::uint32_t>((numbers + 4 * numbers_per_block - 1) /
                                    (4 * numbers_per_block));
}

/// f(Unit, image, channel, range) for the channels and pixels of an image: a thread has few channels (a unit of them, at
/// best just one such), and of these many pixels. Block b does part b % image_parts() of image b / image_parts().
template <class F>
STARLING_DEVICE void each_pixel(const Block& block, std::uint32_t pixels, std::uint32_t channels,
                                bool are_even, const F& f) {
  const std::uint32_t parts = image_parts(pixels, channels);
  const std::uint64_t image = block.index / parts;
  const std::uint32_t each = (pixels + parts - 1) / parts;
  const std::uint32_t begin = block.index % parts * each, end = lesser(begin + each, pixels);
  const auto go = [&]<unsigned unit>(Unit<unit> own, unsigned thread) {
    const std::uint32_t units = channels / unit, across = lesser(units, image_threads);
    const std::uint32_t step = image_threads / across, first = begin + thread / across;
    if (thread / across >= step || first >= end) return;
    for (std::uint32_t u = thread % across; u < units; u += across) {
      f(own, image, u * unit,
        PixelRange{first, end, step, (image * pixels + first) * channels + u * unit,
                   std::uint64_t{step} * channels});
    }
  };
  block.each([&](unsigned thread) {
    if (are_even && channels % 4 == 0) {
      go(Unit<4>{}, thread);
    } else {
      go(Unit<1>{}, thread);
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

/// Images are cut into squares of window x window pixels side by side.
struct PoolArguments {
  std::uint32_t height, width, channels, window;
  const float* x;   // (images, height, width, channels)
  float* y;         // forward: written
  const float* dy;  // backward: read
  float* dx;        // backward: written, but for pixels of no square

  /// Of an image.
  STARLING_DEVICE std::uint32_t squares() const { return (height / window) * (width / window); }
  /// Where channel c of a square begins in x.
  STARLING_DEVICE std::uint64_t corner(std::uint64_t image, std::uint32_t square,
                                       std::uint32_t c) const {
    const std::uint32_t row = square / (width / window), column = square % (width / window);
    const std::uint32_t pixel = (row * width + column) * window;
    return (image * height * width + pixel) * channels + c;
  }
  /// How far from its corner the places of a square lie, row by row: f(distance).
  template <class F>
  STARLING_DEVICE void each_place(const F& f) const {
    for (std::uint32_t row = 0; row < window; ++row) {
      for (std::uint32_t column = 0; column < window; ++column)
        f(std::uint64_t{row * width + column} * channels);
    }
  }
};

struct PoolKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = PoolArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_pixel(block, a.squares(), a.channels, is_even(a.x) && is_even(a.y),
               [&]<unsigned unit>(Unit<unit>, std::uint64_t image, std::uint32_t c,
                                  const PixelRange& squares) {
                 squares.each([&](std::uint64_t at, std::uint32_t square) {
                   const float* corner = a.x + a.corner(image, square, c);
                   auto y = Unit<unit>::load(corner);
                   a.each_place([&](std::uint64_t distance) {
                     const auto x = Unit<unit>::load(corner + distance);
                     STARLING_UNROLL
                     for (unsigned i = 0; i < unit; ++i)
                       y.at[i] = x.at[i] > y.at[i] || x.at[i] != x.at[i] ? x.at[i] : y.at[i];
                   });
                   y.store(a.y + at);
                 });
               });
  }
};

/// The gradient of a square goes to its first pixel, row by row, that has the maximum.
struct PoolGradientKernel {
  static constexpr unsigned threads = image_threads;
  static constexpr unsigned resident = 5;
  using Arguments = PoolArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_pixel(block, a.squares(), a.channels, is_even(a.x) && is_even(a.dy) && is_even(a.dx),
               [&]<unsigned unit>(Unit<unit>, std::uint64_t image, std::uint32_t c,
                                  const PixelRange& squares) {
                 squares.each([&](std::uint64_t at, std::uint32_t square) {
                   const std::uint64_t corner = a.corner(image, square, c);
                   auto highest = Unit<unit>::load(a.x + corner);
                   a.each_place([&](std::uint64_t distance) {
                     const auto x = Unit<unit>::load(a.x + corner + distance);
                     STARLING_UNROLL
                     for (unsigned i = 0; i < unit; ++i)
                       highest.at[i] = x.at[i] > highest.at[i] ? x.at[i] : highest.at[i];
                   });
                   auto rest = Unit<unit>::load(a.dy + at);  // until a pixel has taken it
                   a.each_place([&](std::uint64_t distance) {
                     const auto x = Unit<unit>::load(a.x + corner + distance);
                     Unit<unit> dx{};
                     STARLING_UNROLL
                     for (unsigned i = 0; i < unit; ++i) {
                       const bool is_highest = x.at[i] == highest.at[i];
                       dx.at[i] = is_highest ? rest.at[i] : 0.0F;
                       rest.at[i] = is_highest ? 0.0F : rest.at[i];
                     }
                     dx.store(a.dx + corner + distance);
                   });
                 });
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
