// A layer of many models at once, for models that do not fit into a block's shared memory: each kernel does one pass of
// one layer for all tasks, a block per tile of one task. Between kernels activations wait in device memory: row `row` of
// task t at (t * rows + row) * stride.
#pragma once

#include "kernels/cuda/mlp_task.hpp"
#include "kernels/cuda/softmax.hpp"
#include "kernels/cuda/tile_product.hpp"

namespace starling::cuda {

struct Activations {
  float* at;
  std::uint32_t stride;
};

struct LayerArguments {
  const StepTask* tasks;
  Samples data;  // what the first layer reads
  LayerShape layer;
  std::uint32_t rows;  // room of a task in activations
  std::uint32_t is_first;
  std::uint32_t is_last;  // no ReLU after it
  std::uint32_t
      is_free;  // the gradient of its input passes everywhere, not only where the input is positive
  Activations input;   // of the layer; unused by the first
  Activations output;  // forward: written; backward: the gradient of it, read
  Activations slope;   // gradient of the input, written
};

/// Row `row` of the layer's input.
STARLING_DEVICE const float* input_row(const LayerArguments& a, std::uint32_t t,
                                       const StepTask& task, std::uint32_t row) {
  if (a.is_first != 0) return a.data.x + std::uint64_t{sample_of(task, row)} * a.data.features;
  return a.input.at + (std::uint64_t{t} * a.rows + row) * a.input.stride;
}

/// How a task is cut into tiles; a task's blocks are neighbors.
struct Tiles {
  std::uint32_t down, across;
  STARLING_DEVICE std::uint32_t count() const { return down * across; }
};

STARLING_DEVICE std::uint32_t pieces_of(std::uint32_t size, std::uint32_t piece) {
  return (size + piece - 1) / piece;
}

/// What a block computes: of task t, from that row and column on.
struct Tile {
  std::uint32_t t, row, column;

  STARLING_DEVICE static Tile of(const Block& block, const Tiles& tiles, std::uint32_t width) {
    const std::uint32_t tile = block.index % tiles.count();
    return {block.index / tiles.count(), tile % tiles.down * tile_rows, tile / tiles.down * width};
  }
};

/// y = x W + bias, then ReLU unless it is the last layer.
template <std::uint32_t width>
struct ForwardOf {
  static constexpr unsigned threads = tile_threads;
  static constexpr std::uint32_t shared_bytes = sizeof(TileMemory<width>);
  using Arguments = LayerArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.rows, tile_rows), pieces_of(a.layer.outputs, width)};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const Tile tile = Tile::of(block, tiles(a), width);
    const std::uint32_t t = tile.t, row = tile.row, column = tile.column;
    const StepTask task = a.tasks[t];
    if (row >= task.rows) return;
    const float* weights = task.x + a.layer.weights;
    const float* bias = task.x + a.layer.bias;
    tile_product<width, Runs::along_inner, Runs::across>(
        block, a.layer.inputs, task.rows - row, a.layer.outputs - column,
        [&](std::uint32_t k, std::uint32_t m) { return input_row(a, t, task, row + m)[k]; },
        [&](std::uint32_t k, std::uint32_t n) {
          return weights[weight_at(a.layer.inputs, a.layer.outputs, k, column + n)];
        },
        [&](std::uint32_t, std::uint32_t n) { return bias[column + n]; },
        [&](std::uint32_t m, std::uint32_t n, float sum) {
          const std::uint64_t at = (std::uint64_t{t} * a.rows + row + m) * a.output.stride;
          a.output.at[at + column + n] = a.is_last == 0 && sum < 0 ? 0.0F : sum;
        });
  }
};
using ForwardKernel = ForwardOf<64>;
using NarrowForwardKernel = ForwardOf<16>;

/// dW = x^T dy and dbias = sum of dy over the rows.
template <std::uint32_t width>
struct ParameterGradientOf {
  static constexpr unsigned threads = tile_threads;
  static constexpr std::uint32_t shared_bytes = sizeof(TileMemory<width>);
  using Arguments = LayerArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.layer.inputs, tile_rows), pieces_of(a.layer.outputs, width)};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const Tile tile = Tile::of(block, tiles(a), width);
    const std::uint32_t t = tile.t, input = tile.row, column = tile.column;
    const StepTask task = a.tasks[t];
    const float* dy = a.output.at + std::uint64_t{t} * a.rows * a.output.stride;
    tile_product<width, Runs::across, Runs::across>(
        block, task.rows, a.layer.inputs - input, a.layer.outputs - column,
        [&](std::uint32_t b, std::uint32_t m) { return input_row(a, t, task, b)[input + m]; },
        [&](std::uint32_t b, std::uint32_t n) {
          return dy[std::uint64_t{b} * a.output.stride + column + n];
        },
        [](std::uint32_t, std::uint32_t) { return 0.0F; },
        [&](std::uint32_t m, std::uint32_t n, float sum) {
          const std::uint64_t at =
              weight_at(a.layer.inputs, a.layer.outputs, input + m, column + n);
          store_gradient(task, a.layer.weights + at, sum);
        });
    if (input > 0) return;
    block.each([&](unsigned thread) {
      const std::uint32_t o = column + thread;
      if (thread >= width || o >= a.layer.outputs) return;
      float sum = 0;
      for (std::uint32_t b = 0; b < task.rows; ++b)
        sum += dy[std::uint64_t{b} * a.output.stride + o];
      store_gradient(task, a.layer.bias + o, sum);
    });
  }
};
using ParameterGradientKernel = ParameterGradientOf<64>;
using NarrowParameterGradientKernel = ParameterGradientOf<16>;

/// dx = dy W^T where x, the output of a ReLU, is positive, else 0; or everywhere, see is_free.
struct InputGradientKernel {
  static constexpr unsigned threads = tile_threads;
  static constexpr std::uint32_t width = 64;
  static constexpr std::uint32_t shared_bytes = sizeof(TileMemory<width>);
  using Arguments = LayerArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.rows, tile_rows), pieces_of(a.layer.inputs, width)};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const Tile tile = Tile::of(block, tiles(a), width);
    const std::uint32_t t = tile.t, row = tile.row, input = tile.column;
    const StepTask task = a.tasks[t];
    if (row >= task.rows) return;
    const float* weights = task.x + a.layer.weights;
    const std::uint64_t first_row = std::uint64_t{t} * a.rows + row;
    const float* dy = a.output.at + first_row * a.output.stride;
    tile_product<width, Runs::along_inner, Runs::along_inner>(
        block, a.layer.outputs, task.rows - row, a.layer.inputs - input,
        [&](std::uint32_t o, std::uint32_t m) {
          return dy[std::uint64_t{m} * a.output.stride + o];
        },
        [&](std::uint32_t o, std::uint32_t n) {
          return weights[weight_at(a.layer.inputs, a.layer.outputs, input + n, o)];
        },
        [](std::uint32_t, std::uint32_t) { return 0.0F; },
        [&](std::uint32_t m, std::uint32_t n, float sum) {
          const bool is_open = a.is_free != 0 || input_row(a, t, task, row + m)[input + n] > 0;
          a.slope.at[(first_row + m) * a.slope.stride + input + n] = is_open ? sum : 0.0F;
        });
  }
};

/// Logits to losses: of a gradient, the mean over the mini-batch, and the logits become its gradient; of an evaluation,
/// the sum, and how many largest logits (the first, if equal) are the label's. One block per task, a thread per sample.
struct LossKernel {
  static constexpr unsigned threads = 128;
  static constexpr std::uint32_t shared_bytes = sizeof(std::uint32_t);
  struct Arguments {
    const StepTask* tasks;
    Samples data;
    std::uint32_t rows, classes;
    Activations logits;
    double* losses;        // (tasks)
    double* row_losses;    // (tasks, rows)
    std::uint32_t* right;  // (tasks), for evaluations
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const StepTask task = a.tasks[block.index];
    auto* right = reinterpret_cast<std::uint32_t*>(block.shared_memory);
    double* losses = a.row_losses + std::uint64_t{block.index} * a.rows;
    const bool is_gradient = task.samples != nullptr;
    block.each([&](unsigned thread) {
      if (thread == 0) *right = 0;
    });
    block.each([&](unsigned thread) {
      const float share = 1.0F / static_cast<float>(task.rows);
      for (std::uint32_t row = thread; row < task.rows; row += threads) {
        float* z = a.logits.at + (std::uint64_t{block.index} * a.rows + row) * a.logits.stride;
        const std::int32_t label = a.data.y[sample_of(task, row)];
        if (!is_gradient && largest_of(z, a.classes) == label) add_atomically(*right, 1);
        losses[row] = softmax_cross_entropy(z, a.classes, label, share);
      }
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      double loss = 0;
      for (std::uint32_t row = 0; row < task.rows; ++row) loss += losses[row];
      a.losses[block.index] = is_gradient ? loss / static_cast<double>(task.rows) : loss;
      if (!is_gradient) a.right[block.index] = *right;
    });
  }
};

}  // namespace starling::cuda
