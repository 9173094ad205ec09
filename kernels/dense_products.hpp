// The vectorized products of a layer: forward, and the gradients of its parameters and of its
// input.
//
// All run through one register tile: up to tile_rows x 2 vectors of accumulators, k sequential, one
// fused multiply-add per term, so each element is the plain loop's number. Partial sums between
// blocks of k are stored as floats, which is exact. Blocks of 192 k keep the right operand in the
// first-level cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dense.hpp"
#include "kernels/dense_elementwise.hpp"
#include "kernels/dense_lanes.hpp"

namespace starling::dense {
namespace {

constexpr std::size_t tile_rows = Lanes::tile_rows;
constexpr std::size_t tile_columns = 2 * width;
constexpr int seven_rows = tile_rows < 7 ? tile_rows : 7;
constexpr std::size_t line_floats = 16;
constexpr std::size_t k_block = 192;  // a multiple of panel_columns

/// c (rows x columns) = sum over k of left(row, k) * right(k, column), continued from c or from a
/// start row.
struct Tile {
  std::size_t terms;  // k is runs x terms: `terms` in a row, then left skips, `runs` times
  std::size_t runs;
  const float* left;  // (rows, terms), or (terms, rows) if transposed
  std::size_t left_stride;
  std::ptrdiff_t left_skip;  // floats
  const float* right;        // (runs x terms, columns)
  std::size_t right_stride;
  float* c;
  std::size_t c_stride;
  std::size_t last_lanes;  // columns in the last vector
  bool resume;             // sums begin with what is in c
  const float* start;      // else with this row, or with 0 if null
  bool relu;               // negative results become 0
  const float* positive;   // results become 0 where this (stride c_stride) is not positive; or null
  // Fetched along the way, `ahead_step` floats further for each k: what is needed next. Never past
  // the end of a model: lines beyond may belong to another thread, which is writing them.
  const float* ahead;
  std::size_t ahead_step;
};

/// The inner loop. Loops over accumulators must unroll fully, or GCC keeps them in memory.
template <int rows, int vectors, bool transposed, bool masked>
void run_tile(const Tile& t) {
  constexpr int last = vectors - 1;
  const Mask mask = Lanes::first(masked ? t.last_lanes : width);
  const auto load = [mask](const float* p, int v) STARLING_INLINED {
    return masked && v == last ? Lanes::load(p + width * last, mask) : Lanes::load(p + width * v);
  };

  Vector sum[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      if (t.resume) {
        sum[r][v] = load(t.c + r * t.c_stride, v);
      } else {
        sum[r][v] = t.start != nullptr ? load(t.start, v) : Lanes::zero();
      }
    }
  }

  const float* left = t.left;
  const float* right = t.right;
  const float* ahead = t.ahead;
  for (std::size_t run = 0; run < t.runs; ++run) {
    for (std::size_t k = 0; k < t.terms; ++k) {
      Vector b[vectors];
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      ahead += t.ahead_step;
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) b[v] = load(right, v);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        const Vector a = Lanes::all(transposed ? left[r] : left[r * t.left_stride]);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sum[r][v] = Lanes::fma(a, b[v], sum[r][v]);
      }
      left += transposed ? t.left_stride : 1;
      right += t.right_stride;
    }
    left += t.left_skip;
  }

  if (t.relu) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sum[r][v] = Lanes::greater(Lanes::zero(), sum[r][v]);  // keeps NaN and -0
      }
    }
  }
  const std::size_t stride = t.c_stride;
  if (t.positive != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sum[r][v] = Lanes::where_positive(load(t.positive + r * stride, v), sum[r][v]);
      }
    }
  }
  float* const c = t.c;
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* to = c + r * stride + width * v;
      if (masked && v == last) {
        Lanes::store(to, sum[r][v], mask);
      } else {
        Lanes::store(to, sum[r][v]);
      }
    }
  }
}

using TileFunction = void (*)(const Tile&);

template <bool transposed, int rows>
constexpr TileFunction tile_of(std::size_t vectors, bool masked) {
  if (vectors == 2) {
    return masked ? run_tile<rows, 2, transposed, true> : run_tile<rows, 2, transposed, false>;
  }
  return masked ? run_tile<rows, 1, transposed, true> : run_tile<rows, 1, transposed, false>;
}

/// What is fetched into the second-level cache while a product runs: so many floats of each row.
struct Ahead {
  std::size_t rows = 0;
  const float* const* row = nullptr;
  std::size_t floats = 0;
};

/// Runs tile `t`, whose pointers stand for row 0, over all `rows`, in tiles of nearly equal height,
/// which fetch equal shares of what is ahead.
template <bool transposed>
STARLING_INLINE void run_rows(Tile t, std::size_t rows, std::size_t columns, std::size_t left_step,
                              const Ahead& ahead) {
  const std::size_t vectors = columns > width ? 2 : 1;
  t.last_lanes = columns - (vectors - 1) * width;
  const bool masked = t.last_lanes < width;
  const std::size_t tiles = (rows + tile_rows - 1) / tile_rows;
  const Tile origin = t;
  const std::size_t terms = t.runs * t.terms;
  t.ahead = t.right;
  t.ahead_step = ahead.rows == 0 ? 0 : ahead.rows * ahead.floats / (tiles * terms);
  const std::size_t ahead_tile = t.ahead_step * terms;
  std::size_t ahead_row = 0, fetched = 0;
  for (std::size_t i = 0, row = 0; i < tiles; ++i) {
    const std::size_t height = (rows - row + (tiles - i) - 1) / (tiles - i);
    t.left = origin.left + row * left_step;
    t.c = origin.c + row * t.c_stride;
    if (origin.positive != nullptr) t.positive = origin.positive + row * t.c_stride;
    row += height;
    if (fetched + ahead_tile > ahead.floats) {
      ++ahead_row;
      fetched = 0;
    }
    if (ahead_row < ahead.rows) t.ahead = ahead.row[ahead_row] + fetched;  // else as before
    fetched += ahead_tile;
    switch (height) {
      case 1:
        tile_of<transposed, 1>(vectors, masked)(t);
        break;
      case 2:
        tile_of<transposed, 2>(vectors, masked)(t);
        break;
      case 3:
        tile_of<transposed, 3>(vectors, masked)(t);
        break;
      case 4:
        tile_of<transposed, 4>(vectors, masked)(t);
        break;
      case 5:
        tile_of<transposed, 5>(vectors, masked)(t);
        break;
      case 6:
        tile_of<transposed, 6>(vectors, masked)(t);
        break;
      case 7:
        tile_of<transposed, seven_rows>(vectors, masked)(t);
        break;
      default:
        tile_of<transposed, tile_rows>(vectors, masked)(t);
        break;
    }
  }
}

void forward(Shape shape, const float* x, std::size_t x_stride, const float* weights,
             const float* bias, bool relu, float* y, std::size_t y_stride) {
  for (std::size_t panel = 0; panel < shape.outputs; panel += panel_columns) {
    const std::size_t panel_width = at_most(panel_columns, shape.outputs - panel);
    const float* w = weights + panel * shape.inputs;
    for (std::size_t k = 0; k < shape.inputs; k += k_block) {
      const std::size_t terms = at_most(k_block, shape.inputs - k);
      // Weights lie in the order in which they are used, panel after panel.
      const float* next = w + (k + terms) * panel_width;
      const std::size_t left =
          static_cast<std::size_t>(weights + shape.inputs * shape.outputs - next);
      const std::size_t next_floats = at_most(left, k_block * panel_columns);
      for (std::size_t column = 0; column < panel_width; column += tile_columns) {
        run_rows<false>({.terms = terms,
                         .runs = 1,
                         .left = x + k,
                         .left_stride = x_stride,
                         .left_skip = 0,
                         .right = w + k * panel_width + column,
                         .right_stride = panel_width,
                         .c = y + panel + column,
                         .c_stride = y_stride,
                         .last_lanes = 0,
                         .resume = k > 0,
                         .start = bias + panel + column,
                         .relu = relu && k + terms == shape.inputs,
                         .positive = nullptr,
                         .ahead = nullptr,
                         .ahead_step = 0},
                        shape.batch, at_most(tile_columns, panel_width - column), x_stride,
                        {.rows = 1, .row = &next, .floats = next_floats});
      }
    }
  }
}

/// c (rows x columns) = left (rows x terms, or transposed) * right (terms x columns).
template <bool transposed>
void multiply(std::size_t rows, std::size_t terms, std::size_t columns, const float* left,
              std::size_t left_stride, const float* right, std::size_t right_stride, float* c,
              std::size_t c_stride, const Ahead& ahead = {}) {
  for (std::size_t column = 0; column < columns; column += tile_columns) {
    run_rows<transposed>({.terms = terms,
                          .runs = 1,
                          .left = left,
                          .left_stride = left_stride,
                          .left_skip = 0,
                          .right = right + column,
                          .right_stride = right_stride,
                          .c = c + column,
                          .c_stride = c_stride,
                          .last_lanes = 0,
                          .resume = false,
                          .start = nullptr,
                          .relu = false,
                          .positive = nullptr,
                          .ahead = nullptr,
                          .ahead_step = 0},
                         rows, at_most(tile_columns, columns - column),
                         transposed ? 1 : left_stride, ahead);
  }
}

/// sums_o = (0 + rows_0o) + rows_1o + ..
STARLING_INLINE void sum_rows(std::size_t rows, std::size_t columns, const float* from,
                              std::size_t stride, float* sums) {
  for (std::size_t o = 0; o < columns; o += width) {
    const Mask mask = Lanes::first(at_most(width, columns - o));
    Vector sum = Lanes::zero();
    for (std::size_t b = 0; b < rows; ++b) {
      sum = Lanes::add(sum, Lanes::load(from + b * stride + o, mask));
    }
    Lanes::store(sums + o, sum, mask);
  }
}

void parameter_gradient(Shape shape, const float* x, std::size_t x_stride, const float* dy,
                        std::size_t dy_stride, float* weight_gradient, float* bias_gradient) {
  for (std::size_t panel = 0; panel < shape.outputs; panel += panel_columns) {
    const std::size_t panel_width = at_most(panel_columns, shape.outputs - panel);
    float* w = weight_gradient + panel * shape.inputs;
    const std::size_t behind = at_most(tile_rows, shape.inputs);  // the first tile
    const float* ahead = w + behind * panel_width;
    const std::size_t ahead_floats = (shape.inputs - behind) * panel_width;
    for (std::size_t k = 0; k < shape.batch; k += k_block) {
      for (std::size_t column = 0; column < panel_width; column += tile_columns) {
        run_rows<true>({.terms = at_most(k_block, shape.batch - k),
                        .runs = 1,
                        .left = x + k * x_stride,
                        .left_stride = x_stride,
                        .left_skip = 0,
                        .right = dy + k * dy_stride + panel + column,
                        .right_stride = dy_stride,
                        .c = w + column,
                        .c_stride = panel_width,
                        .last_lanes = 0,
                        .resume = k > 0,
                        .start = nullptr,
                        .relu = false,
                        .positive = nullptr,
                        .ahead = nullptr,
                        .ahead_step = 0},
                       shape.inputs, at_most(tile_columns, panel_width - column), 1,
                       {.rows = 1, .row = &ahead, .floats = ahead_floats});
      }
    }
  }
  sum_rows(shape.batch, shape.outputs, dy, dy_stride, bias_gradient);
}

/// Floats of a gradient that are known before the sums go on: a piece of the first-level cache.
constexpr std::size_t piece_floats = 2048;

/// Whether the result goes past the cache: nobody reads it soon, and nothing of it is there.
STARLING_INLINE bool streams_results(const Folding& folding) {
  if (!folding.is_far || folding.sum_count != 1) return false;
  const LinearJob& job = folding.sums[0];
  return job.terms <= most_at_once && is_apart(job.out, folding.terms + job.first_term, job.terms);
}

constexpr std::size_t most_fetched = 8;

/// The rows, from `at` on, that the sums use beside the gradient, at most so many; first those that
/// are least likely to be in the cache. Answers how many.
STARLING_INLINE std::size_t list_others(const Folding& folding, bool streams, std::size_t at,
                                        std::size_t most, const float* (&others)[most_fetched]) {
  most = at_most(most, most_fetched);
  std::size_t count = 0;
  for (std::size_t s = 0; s < folding.sum_count; ++s) {
    const LinearJob& job = folding.sums[s];
    for (std::size_t t = job.terms; t-- > 0;) {
      const float* values = folding.terms[job.first_term + t].values;
      if (values != nullptr && values != job.out && count < most) others[count++] = values + at;
    }
    if (count < most && !streams) others[count++] = job.out + at;
  }
  return count;
}

/// Floats at .. at + count - 1 of the sums, where the gradient is `piece`.
STARLING_INLINE void sum_piece(const Folding& folding, bool streams, std::size_t at,
                               const float* piece, std::size_t count) {
  for (std::size_t s = 0; s < folding.sum_count; ++s) {
    const LinearJob& job = folding.sums[s];
    const LinearTerm* terms = folding.terms + job.first_term;
    LinearTerm here[most_folded_terms];
    for (std::size_t t = 0; t < job.terms; ++t) {
      here[t] = {terms[t].values == nullptr ? piece : terms[t].values + at, terms[t].factor};
    }
    float* out = job.out + at;
    if (streams && is_aligned(out)) {
      combine_few<false, true>(out, nullptr, here, job.terms, 0, count);
    } else {
      linear_columns<false>(out, here, job.terms, 0, count);
    }
  }
}

void parameter_sums(Shape shape, const float* x, std::size_t x_stride, const float* dy,
                    std::size_t dy_stride, const Folding& folding) {
  alignas(64) float piece[piece_floats];
  const bool streams = streams_results(folding);
  for (std::size_t panel = 0; panel < shape.outputs; panel += panel_columns) {
    const std::size_t panel_width = at_most(panel_columns, shape.outputs - panel);
    const std::size_t height = piece_floats / panel_width / tile_rows * tile_rows;
    for (std::size_t row = 0; row < shape.inputs; row += height) {
      const std::size_t rows = at_most(height, shape.inputs - row);
      const std::size_t at = folding.weights + panel * shape.inputs + row * panel_width;
      const std::size_t count = rows * panel_width;
      const float* others[most_fetched];
      const std::size_t slots = (rows + tile_rows - 1) / tile_rows * shape.batch;
      const std::size_t fitting = slots * line_floats / count;
      const Ahead ahead{.rows = list_others(folding, streams, at, fitting, others),
                        .row = others,
                        .floats = count};
      multiply<true>(rows, shape.batch, panel_width, x + row, x_stride, dy + panel, dy_stride,
                     piece, panel_width, ahead);
      sum_piece(folding, streams, at, piece, count);
    }
  }
  for (std::size_t o = 0; o < shape.outputs; o += piece_floats) {
    const std::size_t columns = at_most(piece_floats, shape.outputs - o);
    sum_rows(shape.batch, columns, dy + o, dy_stride, piece);
    sum_piece(folding, streams, folding.bias + o, piece, columns);
  }
  if (streams) Lanes::fence();
}

void input_gradient(Shape shape, const float* dy, std::size_t dy_stride, const float* weights,
                    const float* x, std::size_t x_stride, float* dx) {
  // W transposed: (outputs of this block of k, 32 inputs).
  alignas(64) float right[k_block * panel_columns];
  for (std::size_t input = 0; input < shape.inputs; input += panel_columns) {
    const std::size_t columns = at_most(panel_columns, shape.inputs - input);
    for (std::size_t k = 0; k < shape.outputs; k += k_block) {
      const std::size_t terms = at_most(k_block, shape.outputs - k);
      for (std::size_t panel = 0; panel < terms; panel += panel_columns) {
        const std::size_t panel_width = at_most(panel_columns, shape.outputs - k - panel);
        const float* w = weights + (k + panel) * shape.inputs + input * panel_width;
        for (std::size_t o = 0; o < panel_width; o += width) {
          const std::size_t block_outputs = at_most(width, panel_width - o);
          for (std::size_t i = 0; i < columns; i += width) {
            Vector block[width];
            load_transposed(w + i * panel_width + o, panel_width, columns - i, block_outputs,
                            block);
            float* to = right + (panel + o) * panel_columns + i;
#pragma GCC unroll 16
            for (std::size_t r = 0; r < width; ++r) {
              if (r < block_outputs) Lanes::store(to + r * panel_columns, block[r]);
            }
          }
        }
      }
      for (std::size_t column = 0; column < columns; column += tile_columns) {
        run_rows<false>(
            {.terms = terms,
             .runs = 1,
             .left = dy + k,
             .left_stride = dy_stride,
             .left_skip = 0,
             .right = right + column,
             .right_stride = panel_columns,
             .c = dx + input + column,
             .c_stride = x_stride,
             .last_lanes = 0,
             .resume = k > 0,
             .start = nullptr,
             .relu = false,
             .positive = x != nullptr && k + terms == shape.outputs ? x + input + column : nullptr,
             .ahead = nullptr,
             .ahead_step = 0},
            shape.batch, at_most(tile_columns, columns - column), dy_stride, {});
      }
    }
  }
}

}  // namespace
}  // namespace starling::dense
