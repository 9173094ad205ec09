// The products of a convolution on a device, for many models at once: a block per tile of one task, as in
// layer_kernels.hpp; kernels/dense/images.hpp defines every number. No input is framed or unfolded in memory: what a
// place of the kernel sees is looked up, or is the 0 of the border, when a piece of a tile is fetched. That happens while the
// piece before is multiplied.
#pragma once

#include "kernels/cuda/image_kernels.hpp"
#include "kernels/cuda/layer_kernels.hpp"

namespace starling::cuda {

/// A convolution of images with a border of zeros, and with zeros between their pixels: rows and columns are `spread` apart.
struct ConvolutionShape {
  std::uint32_t height, width, channels;  // of the input, without zeros
  std::uint32_t spread;
  std::uint32_t border_height, border_width;
  std::uint32_t kernel_height, kernel_width, stride;
  std::uint32_t out_height, out_width, outputs;

  STARLING_DEVICE std::uint32_t pixels() const { return height * width; }
  STARLING_DEVICE std::uint32_t out_pixels() const { return out_height * out_width; }
  STARLING_DEVICE std::uint32_t places() const { return kernel_height * kernel_width; }
  /// Terms of one sum.
  STARLING_DEVICE std::uint32_t inputs() const { return places() * channels; }

  /// The convolution that takes the gradient of the output to that of the input, with the kernel turned by half a turn.
  ConvolutionShape back() const {
    return {.height = out_height,
            .width = out_width,
            .channels = outputs,
            .spread = stride,
            .border_height = kernel_height - 1 - border_height,
            .border_width = kernel_width - 1 - border_width,
            .kernel_height = kernel_height,
            .kernel_width = kernel_width,
            .stride = 1,
            .out_height = height,
            .out_width = width,
            .outputs = channels};
  }
};

struct ConvolutionArguments {
  const StepTask* tasks;
  ConvolutionShape shape;
  std::uint32_t rows;  // room for samples of a task
  std::uint32_t weights, bias;
  std::uint32_t is_biased;
  std::uint32_t adds;    // to what is in output
  const float* flipped;  // (tasks, weights), in place of the model's; or null
  const float* input;    // (tasks, rows, height, width, channels)
  float* output;  // (tasks, rows, out_height, out_width, outputs): written, or its gradient, read
};

/// Where the kernel is for an output pixel: its upper left corner in the image. Above or left of the image a coordinate
/// wraps around and is too large, too.
struct Corner {
  const float* image;
  std::uint32_t y, x;

  /// Of output pixel p, counted over all images, if it is less than `pixels`; else one that sees nothing.
  STARLING_DEVICE static Corner of(const ConvolutionShape& s, const float* images, std::uint32_t p,
                                   std::uint32_t pixels) {
    constexpr std::uint32_t nowhere = 0x8000'0000U;
    if (p >= pixels) return {images, nowhere, nowhere};
    const std::uint32_t image = p / s.out_pixels(), pixel = p % s.out_pixels();
    return {images + std::uint64_t{image} * s.pixels() * s.channels,
            pixel / s.out_width * s.stride - s.border_height,
            pixel % s.out_width * s.stride - s.border_width};
  }
};

/// An input of a sum: channel `channel` at a place of the kernel.
struct KernelInput {
  std::uint32_t y, x, channel;

  STARLING_DEVICE static KernelInput of(const ConvolutionShape& s, std::uint32_t k) {
    const std::uint32_t place = k / s.channels;
    return {place / s.kernel_width, place % s.kernel_width, k % s.channels};
  }
};

/// Queues a copy of `unit` neighboring floats, or of zeros where nothing is there.
template <unsigned unit>
STARLING_DEVICE void copy_ahead(float* to, const float* from, bool is_there) {
  if constexpr (unit == 4) {
    copy_quad_or_zeros_ahead(to, from, is_there);
  } else {
    copy_float_or_zero_ahead(to, from, is_there);
  }
}

/// to = `unit` inputs from `input` on as the kernel sees them at `corner`.
template <unsigned unit>
STARLING_DEVICE void copy_seen(const ConvolutionShape& s, const Corner& corner,
                               const KernelInput& input, float* to) {
  std::uint32_t y = corner.y + input.y, x = corner.x + input.x;
  bool is_there = true;
  if (s.spread != 1) {
    is_there = y % s.spread == 0 && x % s.spread == 0;
    y /= s.spread;
    x /= s.spread;
  }
  is_there = is_there && y < s.height && x < s.width;
  const std::uint32_t at = (y * s.width + x) * s.channels + input.channel;
  copy_ahead<unit>(to, corner.image + (is_there ? at : 0), is_there);
}

/// y = the sum over the inputs of every pixel, from the bias on, or from what is in y. Each thread has 8 x 8 numbers, a warp
/// `columns` of them in a row. In each half of a warp neighboring threads, or every other one, load the same from shared
/// memory, which counts once.
template <std::uint32_t columns>
struct ConvolveOf {
  static constexpr std::uint32_t across = columns / 8, down = 32 / across, warps = 2;
  static constexpr std::uint32_t rows = warps * 8 * down, depth = 16, apart = depth + 4;
  static constexpr unsigned threads = 32 * warps;
  static constexpr unsigned resident = columns == 16 ? 4 : 6;
  using Arguments = ConvolutionArguments;
  struct Memory {  // two pieces of either matrix, of which one is on its way
    float seen[2][rows * apart];
    float weights[2][depth * columns];
    Corner corners[rows];
  };
  static constexpr std::uint32_t shared_bytes = sizeof(Memory);

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.rows * a.shape.out_pixels(), rows), pieces_of(a.shape.outputs, columns)};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const ConvolutionShape& s = a.shape;
    const Tile tile = Tile::of(block, tiles(a), columns, rows);
    const std::uint32_t t = tile.t, column = tile.column;
    const StepTask task = a.tasks[t];
    const std::uint32_t pixels = task.rows * s.out_pixels();
    if (tile.row >= pixels) return;
    const float* images = a.input + std::uint64_t{t} * a.rows * s.pixels() * s.channels;
    const float* weights = a.flipped != nullptr
                               ? a.flipped + std::uint64_t{t} * s.inputs() * s.outputs
                               : task.x + a.weights;
    float* y = a.output + (std::uint64_t{t} * a.rows * s.out_pixels() + tile.row) * s.outputs;
    auto& memory = *reinterpret_cast<Memory*>(block.shared_memory);
    Local<WideSums, threads> sums;
    block.each([&](unsigned thread) {
      for (std::uint32_t row = thread; row < rows; row += threads)
        memory.corners[row] = Corner::of(s, images, tile.row + row, pixels);
      begin(a, task, Lane::of(thread), column, y, pixels - tile.row, sums[thread]);
    });
    const bool has_input_quads = has_even_rows({images, s.channels});
    const bool has_weight_quads = has_even_rows({weights, s.outputs});
    piece_by_piece<depth>(
        block, s.inputs(), [](unsigned) {},
        [&](unsigned thread, std::uint32_t first, std::uint32_t half) {
          if (has_input_quads) {
            fetch_seen<4>(s, memory.corners, thread, first, memory.seen[half]);
          } else {
            fetch_seen<1>(s, memory.corners, thread, first, memory.seen[half]);
          }
          if (has_weight_quads) {
            fetch_weights<4>(s, weights, column, thread, first, memory.weights[half]);
          } else {
            fetch_weights<1>(s, weights, column, thread, first, memory.weights[half]);
          }
        },
        [&](unsigned thread, std::uint32_t first, std::uint32_t half) {
          add(Lane::of(anew(thread)), lesser(depth, s.inputs() - first), memory.seen[half],
              memory.weights[half], sums[thread]);
        });
    block.each([&](unsigned thread) {
      end(Lane::of(thread), s.outputs, column, y, pixels - tile.row, sums[thread]);
    });
  }

 private:
  struct Lane {
    std::uint32_t row, column;  // of the warps' threads

    STARLING_DEVICE static Lane of(unsigned thread) {
      const unsigned lane = thread % 32;
      return {thread / 32 * 8 * down + ((lane & 1) | lane / (2 * across) << 1), lane / 2 % across};
    }
    /// Rows are as many apart as there are threads, columns in two groups of 4 neighbors.
    STARLING_DEVICE std::uint32_t row_of(std::uint32_t i) const { return row + down * i; }
    STARLING_DEVICE std::uint32_t column_of(std::uint32_t j) const {
      return j / 4 * 4 * across + 4 * column + j % 4;
    }
  };

  STARLING_DEVICE static void begin(const Arguments& a, const StepTask& task, const Lane& lane,
                                    std::uint32_t column, const float* y, std::uint32_t there,
                                    WideSums& sums) {
    STARLING_UNROLL
    for (std::uint32_t j = 0; j < 8; ++j) {
      const std::uint32_t n = column + lane.column_of(j);
      const bool is_column = n < a.shape.outputs;
      const float start = a.is_biased != 0 && is_column ? task.x[a.bias + n] : 0.0F;
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint32_t m = lane.row_of(i);
        sums.at[i][j] = a.adds != 0 && is_column && m < there
                            ? y[std::uint64_t{m} * a.shape.outputs + n]
                            : start;
      }
    }
  }

  STARLING_DEVICE static void end(const Lane& lane, std::uint32_t outputs, std::uint32_t column,
                                  float* y, std::uint32_t there, const WideSums& sums) {
    const bool are_quads = has_even_rows({y, outputs});
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t m = lane.row_of(i);
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < 8; j += 4) {
        const std::uint32_t n = column + lane.column_of(j);
        const float(&own)[8] = sums.at[i];
        float* to = y + std::uint64_t{m} * outputs + n;
        if (m < there && are_quads && n < outputs) {
          store_quad(to, {own[j], own[j + 1], own[j + 2], own[j + 3]});
        } else {
          STARLING_UNROLL
          for (std::uint32_t l = 0; l < 4; ++l) {
            if (m < there && n + l < outputs) to[l] = own[j + l];
          }
        }
      }
    }
  }

  /// A thread copies the same inputs for some pixels.
  template <unsigned unit>
  STARLING_DEVICE static void fetch_seen(const ConvolutionShape& s, const Corner* corners,
                                         unsigned thread, std::uint32_t first, float* to) {
    constexpr unsigned units = depth / unit, step = threads / units;
    const std::uint32_t place = thread % units * unit;
    if (first + place >= s.inputs()) return;
    const KernelInput input = KernelInput::of(s, first + place);
    STARLING_UNROLL_BY(8)
    for (std::uint32_t row = thread / units; row < rows; row += step)
      copy_seen<unit>(s, corners[row], input, to + row * apart + place);
  }

  template <unsigned unit>
  STARLING_DEVICE static void fetch_weights(const ConvolutionShape& s, const float* weights,
                                            std::uint32_t column, unsigned thread,
                                            std::uint32_t first, float* to) {
    constexpr unsigned units = columns / unit, step = threads / units;
    const std::uint32_t n = thread % units * unit;
    if (column + n >= s.outputs) return;
    const Column from = column_of(s.inputs(), s.outputs, column + n);
    STARLING_UNROLL_BY(4)
    for (std::uint32_t k = thread / units; k < depth; k += step)
      copy_ahead<unit>(to + k * columns + n, rows_on(weights + from.first, first + k, from.stride),
                       first + k < s.inputs());
  }

  /// No term of zeros is added at the end: it could turn -0 into 0.
  STARLING_DEVICE static void add(const Lane& lane, std::uint32_t here, const float* seen,
                                  const float* weights, WideSums& sums) {
    const float* left = seen + lane.row * apart;
    const float* right = weights + 4 * lane.column;
    std::uint32_t k = 0;
    STARLING_UNROLL_BY(1)
    for (; k + 4 <= here; k += 4) {
      Eight rows_of[4];
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 8; ++i) {
        const Quad four = *reinterpret_cast<const Quad*>(left + down * apart * i + k);
        rows_of[0].at[i] = four.x;
        rows_of[1].at[i] = four.y;
        rows_of[2].at[i] = four.z;
        rows_of[3].at[i] = four.w;
      }
      STARLING_UNROLL
      for (std::uint32_t l = 0; l < 4; ++l)
        add_outer(rows_of[l], two_quads(right + (k + l) * columns, 4 * across), sums);
    }
    STARLING_UNROLL_BY(1)
    for (; k < here; ++k) {
      Eight row;
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 8; ++i) row.at[i] = left[down * apart * i + k];
      add_outer(row, two_quads(right + k * columns, 4 * across), sums);
    }
  }
};
using ConvolveKernel = ConvolveOf<64>;
using MiddleConvolveKernel = ConvolveOf<32>;
using NarrowConvolveKernel = ConvolveOf<16>;

/// The weights of the convolution back, in panels as all weights: the kernel turned by half a turn, inputs and outputs exchanged.
struct FlipKernel {
  static constexpr unsigned threads = image_threads;
  struct Arguments {
    const StepTask* tasks;
    std::uint64_t count;  // weights of all tasks
    std::uint32_t places, channels, outputs;
    std::uint32_t weights;
    float* flipped;  // (tasks, weights)
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const std::uint32_t size = a.places * a.channels * a.outputs;
    each_number(block, a.count, [&](std::uint64_t i) {
      const Place to =
          place_of(a.places * a.outputs, a.channels, static_cast<std::uint32_t>(i % size));
      const std::uint32_t place = a.places - 1 - to.input / a.outputs;
      a.flipped[i] =
          a.tasks[i / size]
              .x[a.weights + weight_at(a.places * a.channels, a.outputs,
                                       place * a.channels + to.output, to.input % a.outputs)];
    });
  }
};

/// dW = the sum over all pixels, image by image, of what an input saw times dy; the bias, if there is one, is an input
/// that saw 1 everywhere. `rows` inputs x `columns` outputs a block, own_rows x own_columns of them a thread; pieces of
/// `depth` pixels.
template <std::uint32_t rows, std::uint32_t columns, std::uint32_t own_rows,
          std::uint32_t own_columns, std::uint32_t depth>
struct ConvolutionGradientOf {
  static constexpr std::uint32_t across = columns / own_columns, down = rows / own_rows;
  static constexpr unsigned threads = across * down;
  static constexpr unsigned resident = 512 / threads;
  static_assert(depth <= threads);
  using Arguments = ConvolutionArguments;
  struct Memory {
    float seen[2][depth * rows];
    float slopes[2][depth * columns];
    Corner corners[2][depth];
  };
  static constexpr std::uint32_t shared_bytes = sizeof(Memory);

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.shape.inputs() + a.is_biased, rows), pieces_of(a.shape.outputs, columns)};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const ConvolutionShape& s = a.shape;
    const Tile tile = Tile::of(block, tiles(a), columns, rows);
    const StepTask task = a.tasks[tile.t];
    const std::uint64_t first_image = std::uint64_t{tile.t} * a.rows;
    const float* images = a.input + first_image * s.pixels() * s.channels;
    const float* dy = a.output + first_image * s.out_pixels() * s.outputs;
    const std::uint32_t pixels = task.rows * s.out_pixels();
    auto& memory = *reinterpret_cast<Memory*>(block.shared_memory);
    const auto find_corners = [&](unsigned thread, std::uint32_t first) {
      if (thread < depth && first < pixels)
        memory.corners[first / depth % 2][thread] = Corner::of(s, images, first + thread, pixels);
    };
    const bool has_input_quads = has_even_rows({images, s.channels});
    const bool has_slope_quads = has_even_rows({dy, s.outputs});
    Local<Sums, threads> sums;
    Local<KernelInput, threads> inputs;  // what a thread copies
    block.each([&](unsigned thread) {
      sums[thread] = {};
      inputs[thread] =
          KernelInput::of(s, tile.row + (has_input_quads ? thread * 4 % rows : thread % rows));
      find_corners(thread, 0);
      find_corners(thread, depth);
    });
    piece_by_piece<depth, true>(
        block, pixels, [](unsigned) {},
        [&](unsigned thread, std::uint32_t first, std::uint32_t half) {
          if (has_input_quads) {
            fetch_seen<4>(s, tile.row, memory.corners[half], thread, inputs[thread],
                          memory.seen[half]);
          } else {
            fetch_seen<1>(s, tile.row, memory.corners[half], thread, inputs[thread],
                          memory.seen[half]);
          }
          const float* from = dy + std::uint64_t{first} * s.outputs;
          if (has_slope_quads) {
            fetch_slopes<4>(from, tile.column, s.outputs, pixels - first, thread,
                            memory.slopes[half]);
          } else {
            fetch_slopes<1>(from, tile.column, s.outputs, pixels - first, thread,
                            memory.slopes[half]);
          }
        },
        [&](unsigned thread, std::uint32_t first, std::uint32_t half) {
          add(thread, lesser(depth, pixels - first), memory.seen[half], memory.slopes[half],
              sums[thread]);
          find_corners(thread, first + 2 * depth);
        });
    block.each([&](unsigned thread) { store(a, task, tile, thread, sums[thread]); });
  }

 private:
  struct Sums {
    float at[own_rows][own_columns];
  };

  template <unsigned unit>
  STARLING_DEVICE static void fetch_seen(const ConvolutionShape& s, std::uint32_t row,
                                         const Corner* corners, unsigned thread,
                                         const KernelInput& input, float* to) {
    constexpr unsigned units = rows / unit, step = threads / units;
    static_assert(threads % units == 0);
    const std::uint32_t m = thread % units * unit;
    if (row + m > s.inputs()) return;
    if (row + m == s.inputs()) {  // of the bias
      for (std::uint32_t p = thread / units; p < depth; p += step) to[p * rows + m] = 1.0F;
      return;
    }
    STARLING_UNROLL_BY(8)
    for (std::uint32_t p = thread / units; p < depth; p += step)
      copy_seen<unit>(s, corners[p], input, to + p * rows + m);
  }

  template <unsigned unit>
  STARLING_DEVICE static void fetch_slopes(const float* dy, std::uint32_t column,
                                           std::uint32_t outputs, std::uint32_t pixels,
                                           unsigned thread, float* to) {
    constexpr unsigned units = columns / unit, step = threads / units;
    static_assert(threads % units == 0);
    const std::uint32_t n = thread % units * unit;
    if (column + n >= outputs) return;
    STARLING_UNROLL_BY(4)
    for (std::uint32_t p = thread / units; p < depth; p += step) {
      copy_ahead<unit>(to + p * columns + n, rows_on(dy + column + n, p, outputs), p < pixels);
    }
  }

  /// The thread's inputs or outputs: in groups of neighbors, of 4 if it has so many.
  template <std::uint32_t own, std::uint32_t threads_side_by_side>
  struct Own {
    static constexpr std::uint32_t group = own < 4 ? own : 4;
    STARLING_DEVICE static std::uint32_t of(std::uint32_t lane, std::uint32_t i) {
      return i / group * group * threads_side_by_side + group * lane + i % group;
    }
    STARLING_DEVICE static void load(const float* line, std::uint32_t lane, float (&to)[own]) {
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < own; i += group) {
        const float* from = line + of(lane, i);
        if constexpr (group == 4) {
          const Quad four = *reinterpret_cast<const Quad*>(from);
          to[i] = four.x;
          to[i + 1] = four.y;
          to[i + 2] = four.z;
          to[i + 3] = four.w;
        } else if constexpr (group == 1) {
          to[i] = *from;
        } else {
          static_assert(group == 2);
          const Pair two = *reinterpret_cast<const Pair*>(from);
          to[i] = two.x;
          to[i + 1] = two.y;
        }
      }
    }
  };
  using OwnRows = Own<own_rows, down>;
  using OwnColumns = Own<own_columns, across>;

  STARLING_DEVICE static void add(unsigned thread, std::uint32_t here, const float* seen,
                                  const float* slopes, Sums& sums) {
    const auto add_one = [&](std::uint32_t p) {
      float left[own_rows], right[own_columns];
      OwnRows::load(seen + p * rows, thread / across, left);
      OwnColumns::load(slopes + p * columns, thread % across, right);
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < own_rows; ++i) {
        STARLING_UNROLL
        for (std::uint32_t j = 0; j < own_columns; ++j)
          sums.at[i][j] = fmaf(left[i], right[j], sums.at[i][j]);
      }
    };
    if (here == depth) {
      STARLING_UNROLL_BY(8)
      for (std::uint32_t p = 0; p < depth; ++p) add_one(p);
    } else {
      STARLING_UNROLL_BY(1)
      for (std::uint32_t p = 0; p < here; ++p) add_one(p);
    }
  }

  STARLING_DEVICE static void store(const Arguments& a, const StepTask& task, const Tile& tile,
                                    unsigned thread, const Sums& sums) {
    const ConvolutionShape& s = a.shape;
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < own_rows; ++i) {
      const std::uint32_t m = tile.row + OwnRows::of(thread / across, i);
      if (m >= s.inputs() + a.is_biased) continue;
      const auto n = [&](std::uint32_t j) {
        return tile.column + OwnColumns::of(thread % across, j);
      };
      store_gradients(
          task, sums.at[i],
          [&](std::uint32_t j) {
            return m == s.inputs() ? a.bias + std::uint64_t{n(j)}
                                   : a.weights + weight_at(s.inputs(), s.outputs, m, n(j));
          },
          [&](std::uint32_t j) { return n(j) < s.outputs; });
    }
  }
};
using ConvolutionGradientKernel = ConvolutionGradientOf<64, 32, 8, 4, 32>;
using NarrowConvolutionGradientKernel = ConvolutionGradientOf<32, 16, 2, 1, 128>;

}  // namespace starling::cuda
