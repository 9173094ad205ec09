// A layer of many models at once, for models that do not fit into a block's shared memory: each kernel does one pass of
// one layer for all tasks, a block per tile of one task. Between kernels activations wait in device memory: row `row` of
// task t at (t * rows + row) * stride. Layers of few outputs have kernels of their own (narrow_kernels.hpp).
#pragma once

#include "kernels/cuda/mlp_task.hpp"
#include "kernels/cuda/softmax.hpp"
#include "kernels/cuda/tensor_product.hpp"
#include "kernels/cuda/wide_product.hpp"

namespace starling::cuda {

/// Rows of numbers that are only read, `stride` floats apart.
struct Rows {
  const float* at;
  std::uint32_t stride;
};
struct Activations {
  float* at;
  std::uint32_t stride;

  STARLING_DEVICE operator Rows() const { return {at, stride}; }
};

struct LayerArguments {
  const StepTask* tasks;
  LayerShape layer;
  std::uint32_t rows;      // room of a task in activations
  std::uint32_t is_first;  // reads samples
  std::uint32_t is_last;   // no ReLU after it
  std::uint32_t
      is_free;  // the gradient of its input passes everywhere, not only where the input is positive
  Rows input;   // activations, or all samples
  Activations output;  // forward: written; backward: the gradient of it, read
  Activations slope;   // gradient of the input, written
};

/// Which rows of a layer's input are a task's: a mini-batch is looked up, others follow each other. (Numbers of 32 bits: there
/// is no memory for more rows of all tasks.)
struct RowNumbers {
  const std::int32_t* lookup;
  std::uint32_t first;

  STARLING_DEVICE static RowNumbers of(const LayerArguments& a, std::uint32_t t,
                                       const StepTask& task) {
    if (a.is_first == 0) return {nullptr, t * a.rows};
    return {task.samples, task.first};
  }
  STARLING_DEVICE std::uint32_t operator[](std::uint32_t row) const {
    return lookup == nullptr ? first + row : static_cast<std::uint32_t>(lookup[row]);
  }
};

STARLING_DEVICE const float* row_of(const Rows& rows, std::uint32_t number) {
  return rows_on(rows.at, number, rows.stride);
}

/// Whether rows begin at multiples of 16 bytes.
STARLING_DEVICE bool has_even_rows(const Rows& rows) {
  return is_even(rows.at) && rows.stride % 4 == 0;
}
/// Whether groups of 4 neighbors among the layer's weights do.
STARLING_DEVICE bool has_even_weights(const LayerShape& layer, const float* weights) {
  return is_even(weights) && layer.outputs % 4 == 0;
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

  STARLING_DEVICE static Tile of(const Block& block, const Tiles& tiles, std::uint32_t width,
                                 std::uint32_t height) {
    const std::uint32_t tile = block.index % tiles.count();
    return {block.index / tiles.count(), tile % tiles.down * height, tile / tiles.down * width};
  }
};

/// What kernels of wide tiles share: as many of a multiprocessor's 65,536 registers as 12 warps have, 168 a thread. With four
/// warps more the addresses of the next piece are worked out anew in the midst of the products.
template <class Product>
struct WideKernel {
  using Shape = typename Product::Tile;
  static constexpr unsigned threads = Shape::threads;
  static constexpr unsigned resident = Product::warps * 32 / threads;
  using Arguments = LayerArguments;

  STARLING_DEVICE static Tiles tiles_of(std::uint32_t rows, std::uint32_t columns) {
    return {pieces_of(rows, Shape::rows), pieces_of(columns, Shape::columns)};
  }
  STARLING_DEVICE static Tile tile_of(const Block& block, const Tiles& tiles) {
    return Tile::of(block, tiles, Shape::columns, Shape::rows);
  }
};

/// y = x W + bias, then ReLU unless it is the last layer.
template <class Product>
struct ForwardOf : WideKernel<Product> {
  using Arguments = LayerArguments;
  static constexpr std::uint32_t shared_bytes = sizeof(typename Product::Memory);

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return ForwardOf::tiles_of(a.rows, a.layer.outputs);
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const Tile tile = ForwardOf::tile_of(block, tiles(a));
    const std::uint32_t t = tile.t, row = tile.row, column = tile.column;
    const StepTask task = a.tasks[t];
    if (row >= task.rows) return;
    const float* weights = task.x + a.layer.weights;
    const float* bias = task.x + a.layer.bias + column;
    const std::uint32_t rows = task.rows - row, columns = a.layer.outputs - column;
    typename Product::Sums sums;
    const RowNumbers numbers = RowNumbers::of(a, t, task);
    run_product<Product>(
        block, a.layer.inputs, rows, columns, has_even_rows(a.input),
        [&](std::uint32_t k, std::uint32_t m) { return row_of(a.input, numbers[row + m]) + k; },
        has_even_weights(a.layer, weights),
        [&](std::uint32_t k, std::uint32_t n) {
          const Column there = column_of(a.layer.inputs, a.layer.outputs, column + n);
          return rows_on(weights + there.first, k, there.stride);
        },
        sums,
        [&](unsigned thread) {
          const auto lane = Product::lane_of(thread);
          STARLING_UNROLL
          for (std::uint32_t j = 0; j < 8; ++j) {
            const std::uint32_t n = Product::column_of(lane, j);
            const float start = n < columns ? bias[n] : 0.0F;
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < 8; ++i) sums[thread].at[i][j] = start;
          }
        });
    float* y = a.output.at + (std::uint64_t{t} * a.rows + row) * a.output.stride + column;
    const bool are_quads = has_even_rows(a.output);
    block.each([&](unsigned thread) {
      const auto lane = Product::lane_of(thread);
      const auto out = [&](float sum) { return a.is_last == 0 && sum < 0 ? 0.0F : sum; };
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint32_t m = Product::row_of(lane, i);
        STARLING_UNROLL
        for (std::uint32_t j = 0; j < 8; j += 4) {
          const std::uint32_t n = Product::column_of(lane, j);
          const float(&four)[8] = sums[thread].at[i];
          float* to = y + std::uint64_t{m} * a.output.stride + n;
          if (m < rows && are_quads && n + 4 <= columns) {
            store_quad(to, {out(four[j]), out(four[j + 1]), out(four[j + 2]), out(four[j + 3])});
          } else {
            STARLING_UNROLL
            for (std::uint32_t l = 0; l < 4; ++l) {
              if (m < rows && n + l < columns) to[l] = out(four[j + l]);
            }
          }
        }
      }
    });
  }
};
using ForwardKernel = ForwardOf<WideProduct<2, Runs::along_inner, Runs::across>>;
using FlatForwardKernel =
    ForwardOf<WideProduct<1, Runs::along_inner, Runs::across>>;  // for 32 rows and less
using FastForwardKernel = ForwardOf<TensorProduct<Runs::along_inner, Runs::across>>;

/// dbias = sum of dy over the rows, of up to `width` columns from `column` on.
STARLING_DEVICE void bias_gradient(const Block& block, const LayerArguments& a,
                                   const StepTask& task, const float* dy, std::uint32_t column,
                                   std::uint32_t width) {
  block.each([&](unsigned thread) {
    const std::uint32_t o = column + thread;
    if (thread >= width || o >= a.layer.outputs) return;
    float sum = 0;
    for (std::uint32_t b = 0; b < task.rows; ++b) sum += dy[std::uint64_t{b} * a.output.stride + o];
    store_gradient(task, a.layer.bias + o, sum);
  });
}

/// dW = x^T dy and dbias.
template <class Product>
struct ParameterGradientOf : WideKernel<Product> {
  using Arguments = LayerArguments;
  static constexpr std::uint32_t shared_bytes = sizeof(typename Product::Memory);

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return ParameterGradientOf::tiles_of(a.layer.inputs, a.layer.outputs);
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const Tile tile = ParameterGradientOf::tile_of(block, tiles(a));
    const std::uint32_t t = tile.t, input = tile.row, column = tile.column;
    const StepTask task = a.tasks[t];
    const float* dy = a.output.at + std::uint64_t{t} * a.rows * a.output.stride;
    const std::uint32_t rows = a.layer.inputs - input, columns = a.layer.outputs - column;
    typename Product::Sums sums;
    const RowNumbers numbers = RowNumbers::of(a, t, task);
    run_product<Product>(
        block, task.rows, rows, columns, has_even_rows(a.input),
        [&](std::uint32_t b, std::uint32_t m) { return row_of(a.input, numbers[b]) + input + m; },
        has_even_rows(a.output),
        [&](std::uint32_t b, std::uint32_t n) {
          return rows_on(dy + column + n, b, a.output.stride);
        },
        sums,
        [&](unsigned thread) {
          sums[thread] = {};
          if (task.sum_count > 0) read_model_soon(a, task, tile, thread);
        });
    const bool are_quads =
        a.layer.weights % 4 == 0 && a.layer.outputs % 4 == 0 && takes_quads(task);
    block.each([&](unsigned thread) {
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 8; i += 4)
        store_four_rows(a, task, tile, thread, i, are_quads, sums[thread]);
    });
    if (input == 0) bias_gradient(block, a, task, dy, column, Product::Tile::columns);
  }

 private:
  /// The tile's weights, of which sums are made at the end: a row of a panel is a line, or part of one.
  STARLING_DEVICE static void read_model_soon(const Arguments& a, const StepTask& task,
                                              const Tile& tile, unsigned thread) {
    const std::uint32_t m = tile.row + thread;
    if (m >= a.layer.inputs) return;
    STARLING_UNROLL
    for (std::uint32_t p = 0; p < Product::Tile::columns; p += panel_columns) {
      const std::uint32_t n = tile.column + p;
      if (n < a.layer.outputs)
        read_soon(task.x + a.layer.weights + weight_at(a.layer.inputs, a.layer.outputs, m, n));
    }
  }

  STARLING_DEVICE static Quad quad_of(const WideSums& sums, std::uint32_t i, std::uint32_t j) {
    return {sums.at[i][j], sums.at[i][j + 1], sums.at[i][j + 2], sums.at[i][j + 3]};
  }

  /// Rows i .. i + 3 of a thread, which lie side by side, as its columns do four by four.
  STARLING_DEVICE static void store_four_rows(const Arguments& a, const StepTask& task,
                                              const Tile& tile, unsigned thread, std::uint32_t i,
                                              bool are_quads, const WideSums& sums) {
    const auto lane = Product::lane_of(thread);
    const std::uint32_t m = tile.row + Product::row_of(lane, i);
    const std::uint32_t n = tile.column + Product::column_of(lane, 0);
    if (m >= a.layer.inputs) return;
    are_quads = are_quads && m + 4 <= a.layer.inputs;
    if (are_quads &&
        tile.column + Product::Tile::columns <= a.layer.outputs) {  // of two whole panels
      const std::uint64_t first =
          a.layer.weights + weight_at(a.layer.inputs, a.layer.outputs, m, n);
      const std::uint64_t second =
          a.layer.weights +
          weight_at(a.layer.inputs, a.layer.outputs, m, tile.column + Product::column_of(lane, 4));
      Quad quads[8];
      STARLING_UNROLL
      for (std::uint32_t q = 0; q < 8; ++q) quads[q] = quad_of(sums, i + q / 2, q % 2 * 4);
      store_gradients(
          task, quads,
          [&](std::uint32_t q) { return (q % 2 == 0 ? first : second) + q / 2 * panel_columns; },
          All{});
      return;
    }
    STARLING_UNROLL
    for (std::uint32_t j = 0; j < 8; j += 4)
      store_block(a, task, m, tile.column + Product::column_of(lane, j), i, j, are_quads, sums);
  }

  /// Of four rows, those of four columns that there are.
  STARLING_DEVICE static void store_block(const Arguments& a, const StepTask& task, std::uint32_t m,
                                          std::uint32_t n, std::uint32_t i, std::uint32_t j,
                                          bool are_quads, const WideSums& sums) {
    if (n >= a.layer.outputs) return;
    const Column column = column_of(a.layer.inputs, a.layer.outputs, n);
    const std::uint64_t first = a.layer.weights + column.first + std::uint64_t{m} * column.stride;
    if (are_quads) {
      Quad quads[4];
      STARLING_UNROLL
      for (std::uint32_t q = 0; q < 4; ++q) quads[q] = quad_of(sums, i + q, j);
      store_gradients(
          task, quads, [&](std::uint32_t q) { return first + q * column.stride; }, All{});
      return;
    }
    float numbers[16];
    STARLING_UNROLL
    for (std::uint32_t e = 0; e < 16; ++e) numbers[e] = sums.at[i + e / 4][j + e % 4];
    store_gradients(
        task, numbers, [&](std::uint32_t e) { return first + e / 4 * column.stride + e % 4; },
        [&](std::uint32_t e) { return m + e / 4 < a.layer.inputs && n + e % 4 < a.layer.outputs; });
  }
};
using ParameterGradientKernel = ParameterGradientOf<WideProduct<2, Runs::across, Runs::across>>;
using FastParameterGradientKernel = ParameterGradientOf<TensorProduct<Runs::across, Runs::across>>;

/// dx = dy W^T where x, the output of a ReLU, is positive, else 0; or everywhere, see is_free.
template <class Product>
struct InputGradientOf : WideKernel<Product> {
  using Arguments = LayerArguments;
  static constexpr std::uint32_t shared_bytes = sizeof(typename Product::Memory);

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return InputGradientOf::tiles_of(a.rows, a.layer.inputs);
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const Tile tile = InputGradientOf::tile_of(block, tiles(a));
    const std::uint32_t t = tile.t, row = tile.row, input = tile.column;
    const StepTask task = a.tasks[t];
    if (row >= task.rows) return;
    const float* weights = task.x + a.layer.weights;
    const std::uint64_t first_row = std::uint64_t{t} * a.rows + row;
    const float* dy = a.output.at + first_row * a.output.stride;
    const std::uint32_t rows = task.rows - row, columns = a.layer.inputs - input;
    const RowNumbers numbers = RowNumbers::of(a, t, task);
    typename Product::Sums sums;
    Local<std::uint64_t, Product::Tile::threads> passing;  // a bit for each of a thread's places
    run_product<Product>(
        block, a.layer.outputs, rows, columns, has_even_rows(a.output),
        [&](std::uint32_t o, std::uint32_t m) { return rows_on(dy + o, m, a.output.stride); },
        has_even_weights(a.layer, weights),
        [&](std::uint32_t o, std::uint32_t n) {
          const Column there = column_of(a.layer.inputs, a.layer.outputs, o);
          return rows_on(weights + there.first, input + n, there.stride);
        },
        sums,
        [&](unsigned thread) {
          sums[thread] = {};
          passing[thread] = a.is_free != 0
                                ? ~std::uint64_t{0}
                                : positive(a, numbers, row, rows, input, columns, thread);
        });
    block.each([&](unsigned thread) {
      const auto lane = Product::lane_of(thread);
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint32_t m = Product::row_of(lane, i);
        if (m >= rows) continue;
        float* dx = a.slope.at + (first_row + m) * a.slope.stride + input;
        STARLING_UNROLL
        for (std::uint32_t j = 0; j < 8; ++j) {
          const std::uint32_t n = Product::column_of(lane, j);
          const bool passes = (passing[thread] >> (8 * i + j) & 1) != 0;
          if (n < columns) dx[n] = passes ? sums[thread].at[i][j] : 0.0F;
        }
      }
    });
  }

 private:
  /// At which of a thread's places the input is positive, a bit each. All are loaded before the first is looked at.
  STARLING_DEVICE static std::uint64_t positive(const Arguments& a, const RowNumbers& numbers,
                                                std::uint32_t row, std::uint32_t rows,
                                                std::uint32_t input, std::uint32_t columns,
                                                unsigned thread) {
    const auto lane = Product::lane_of(thread);
    float x[8][8];
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t m = Product::row_of(lane, i);
      const float* line = row_of(a.input, numbers[row + lesser(m, rows - 1)]) + input;
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < 8; ++j)
        x[i][j] = line[lesser(Product::column_of(lane, j), columns - 1)];
    }
    std::uint64_t bits = 0;
    STARLING_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < 8; ++j) bits |= std::uint64_t{x[i][j] > 0} << (8 * i + j);
    }
    return bits;
  }
};
using InputGradientKernel = InputGradientOf<WideProduct<2, Runs::along_inner, Runs::along_inner>>;
using FlatInputGradientKernel =
    InputGradientOf<WideProduct<1, Runs::along_inner, Runs::along_inner>>;  // for 32 rows and less
using FastInputGradientKernel =
    InputGradientOf<TensorProduct<Runs::along_inner, Runs::along_inner>>;

/// The loss of a row with logits z, which become its gradient. Of an evaluation: counts the rows where the first of the largest
/// logits is the label's.
STARLING_DEVICE double score_row(const StepTask& task, float* z, std::uint32_t classes,
                                 std::int32_t label, std::uint32_t& right) {
  if (task.samples == nullptr && largest_of(z, classes) == label) add_atomically(right, 1);
  return softmax_cross_entropy(z, classes, label, 1.0F / static_cast<float>(task.rows));
}
/// What is told of a task's rows: of a gradient their mean loss, of an evaluation the sum, and how many are right.
STARLING_DEVICE void tell_losses(const StepTask& task, const double* losses, std::uint32_t right,
                                 double* told_loss, std::uint32_t* told_right) {
  double loss = 0;
  for (std::uint32_t row = 0; row < task.rows; ++row) loss += losses[row];
  const bool is_gradient = task.samples != nullptr;
  *told_loss = is_gradient ? loss / static_cast<double>(task.rows) : loss;
  if (!is_gradient) *told_right = right;
}

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
    block.each([&](unsigned thread) {
      if (thread == 0) *right = 0;
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t row = thread; row < task.rows; row += threads) {
        float* z = a.logits.at + (std::uint64_t{block.index} * a.rows + row) * a.logits.stride;
        losses[row] = score_row(task, z, a.classes, a.data.y[sample_of(task, row)], *right);
      }
    });
    block.each([&](unsigned thread) {
      if (thread == 0)
        tell_losses(task, losses, *right, &a.losses[block.index], &a.right[block.index]);
    });
  }
};

}  // namespace starling::cuda
