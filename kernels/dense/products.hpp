// The vectorized products of a layer: forward, and the gradients of its parameters and of its
// input.
//
// All run through one register tile: up to tile_rows x 2 vectors of accumulators, or twice the rows
// of one vector, k sequential, one fused multiply-add per term, so each element is the plain loop's
// number. Partial sums between blocks of k are stored as floats, which is exact. Blocks of 192 k keep
// the right operand in the first-level cache. One file, for the three products are that tile with other operands.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "kernels/dense/dense.hpp"
#include "kernels/dense/elementwise.hpp"
#include "kernels/dense/lanes.hpp"

namespace starling::dense {
namespace {

constexpr std::size_t tile_rows = Lanes::tile_rows;
constexpr std::size_t tile_columns = 2 * width;
constexpr std::size_t line_floats = 16;
constexpr std::size_t k_block = 192;  // a multiple of panel_columns

constexpr std::size_t at_least_one(std::size_t count) { return count > 0 ? count : 1; }

/// c (rows x columns) = sum over k of left(row, k) * right(k, column), continued from c or from a
/// start row.
struct Tile {
  std::size_t terms = 0;  // k is runs x terms: `terms` in a row, then left skips, `runs` times
  std::size_t runs = 1;
  const float* left = nullptr;  // (rows, terms), or (terms, rows) if transposed
  std::size_t left_stride = 0;
  std::ptrdiff_t left_skip = 0;  // floats
  const float* right = nullptr;  // (runs x terms, columns)
  std::size_t right_stride = 0;
  float* c = nullptr;
  std::size_t c_stride = 0;
  std::size_t last_lanes = 0;    // columns in the last vector
  bool resume = false;           // sums begin with what is in c
  const float* start = nullptr;  // else with this row, or with 0 if null
  bool relu = false;             // negative results become 0
  /// Results become 0 where this (stride c_stride) is not positive; or null.
  const float* positive = nullptr;
  /// Not null: results are not stored in c. They are floats `at` .. (stride c_stride) of a gradient,
  /// and those of its sums are stored.
  const Folding* folding = nullptr;
  std::size_t at = 0;
  bool streams = false;  // the sums go past the cache
  // Fetched along the way, `ahead_step` floats further for each k: what is needed next. Never past
  // the end of a model: lines beyond may belong to another thread, which is writing them.
  const float* ahead = nullptr;
  std::size_t ahead_step = 0;
};

/// The sums of a tile whose gradient is in registers, so many rows at once that their sums are, too.
template <int rows, int vectors, bool masked>
STARLING_INLINE void store_sums(const Tile& t, const Vector (&gradient)[rows][vectors], Mask mask) {
  constexpr int last = vectors - 1;
  constexpr int at_once = static_cast<int>(at_most(Lanes::sum_vectors / vectors, rows));
  const std::size_t stride = t.c_stride;
  const bool streams = t.streams && !masked;
  const LinearJob* const jobs_end = t.folding->sums + t.folding->sum_count;
#pragma GCC unroll 16
  for (int first = 0; first < rows; first += at_once) {
    const std::size_t at = t.at + static_cast<std::size_t>(first) * stride;
    for (const LinearJob* job = t.folding->sums; job != jobs_end; ++job) {
      Vector sum[at_once][vectors];
      /// Every vector of the sum, its number, and its place in a flat model.
      const auto each = [&](auto* model, auto task) STARLING_INLINED {
        auto* row = model + at;
#pragma GCC unroll 16
        for (int r = 0; r < at_once; ++r, row += stride) {
#pragma GCC unroll 2
          for (int v = 0; v < vectors; ++v) {
            if (first + r < rows) task(sum[r][v], first + r, v, row + width * v);
          }
        }
      };
      // A product added to -0 stays as it is.
      const Vector start = Lanes::all(job->terms == 0 ? 0.0f : -0.0f);
      each(job->out, [&](Vector& y, int, int, const float*) STARLING_INLINED { y = start; });
      const LinearTerm* term = t.folding->terms + job->first_term;
      for (const LinearTerm* const end = term + job->terms; term != end; ++term) {
        const Vector factor = Lanes::all(term->factor);
        if (term->values == nullptr) {
          each(job->out, [&](Vector& y, int r, int v, const float*)
                             STARLING_INLINED { y = Lanes::fma(factor, gradient[r][v], y); });
        } else {
          each(term->values, [&](Vector& y, int, int v, const float* x) STARLING_INLINED {
            y = Lanes::fma(factor, masked && v == last ? Lanes::load(x, mask) : Lanes::load(x), y);
          });
        }
      }
      if (streams) {
        each(job->out,
             [&](Vector& y, int, int, float* to) STARLING_INLINED { Lanes::stream(to, y); });
      } else {
        each(job->out, [&](Vector& y, int, int v, float* to) STARLING_INLINED {
          if (masked && v == last) {
            Lanes::store(to, y, mask);
          } else {
            Lanes::store(to, y);
          }
        });
      }
    }
  }
}

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

  if (!transposed && t.relu) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sum[r][v] = Lanes::greater(Lanes::zero(), sum[r][v]);  // keeps NaN and -0
      }
    }
  }
  const std::size_t stride = t.c_stride;
  if (!transposed && t.positive != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sum[r][v] = Lanes::where_positive(load(t.positive + r * stride, v), sum[r][v]);
      }
    }
  }
  if constexpr (transposed) {
    if (t.folding != nullptr) {
      store_sums<rows, vectors, masked>(t, sum, mask);
      return;
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

/// Rows of a tile that is so many vectors wide: as many accumulators in any case.
constexpr std::size_t tile_rows_of(std::size_t vectors) { return 2 / vectors * tile_rows; }

/// Vectors of a row of so many columns, at most two.
constexpr std::size_t vectors_of(std::size_t columns) { return columns > width ? 2 : 1; }

/// Tiles that cover so many rows.
constexpr std::size_t tiles_for(std::size_t rows, std::size_t columns) {
  const std::size_t most = tile_rows_of(vectors_of(columns));
  return (rows + most - 1) / most;
}

/// run_tile for 1, 2, .. rows.
template <int vectors, bool transposed, bool masked, std::size_t... rows>
constexpr std::array<TileFunction, sizeof...(rows)> list_tiles(std::index_sequence<rows...>) {
  return {run_tile<static_cast<int>(rows) + 1, vectors, transposed, masked>...};
}
template <int vectors, bool transposed, bool masked>
constexpr auto tiles_by_rows =
    list_tiles<vectors, transposed, masked>(std::make_index_sequence<tile_rows_of(vectors)>());

template <bool transposed>
STARLING_INLINE const TileFunction* tiles_of(std::size_t vectors, bool masked) {
  if (vectors == 2) {
    return (masked ? tiles_by_rows<2, transposed, true> : tiles_by_rows<2, transposed, false>)
        .data();
  }
  return (masked ? tiles_by_rows<1, transposed, true> : tiles_by_rows<1, transposed, false>).data();
}

/// Rows of so many floats that so many tiles can fetch, a line for each term.
constexpr std::size_t fitting_rows(std::size_t tiles, std::size_t terms, std::size_t floats) {
  return floats == 0 ? 0 : tiles * terms * line_floats / floats;
}

/// The first rows of a list, as many as fit, at least one and at most one per tile. They leave it.
STARLING_INLINE Ahead take_rows(Ahead& from, std::size_t tiles, std::size_t terms) {
  const std::size_t fitting = at_most(fitting_rows(tiles, terms, from.floats), tiles);
  const Ahead taken{
      .rows = at_most(at_least_one(fitting), from.rows), .row = from.row, .floats = from.floats};
  from.rows -= taken.rows;
  from.row += taken.rows;
  return taken;
}

/// Runs tile `t`, whose pointers stand for row 0, over all `rows`, in tiles of nearly equal height,
/// which fetch equal shares of what is ahead.
template <bool transposed>
STARLING_INLINE void run_rows(Tile t, std::size_t rows, std::size_t columns, std::size_t left_step,
                              const Ahead& ahead) {
  const std::size_t vectors = vectors_of(columns), tiles = tiles_for(rows, columns);
  t.last_lanes = columns - (vectors - 1) * width;
  const bool masked = t.last_lanes < width;
  const TileFunction* const run = tiles_of<transposed>(vectors, masked);
  const Tile origin = t;
  const std::size_t terms = t.runs * t.terms;
  t.ahead = t.right;
  const std::size_t sharing = at_least_one(tiles / at_least_one(ahead.rows));  // tiles of a row
  t.ahead_step = (ahead.floats + sharing * terms - 1) / (sharing * terms);
  if (t.ahead_step * terms > ahead.floats) t.ahead_step = ahead.floats / terms;
  const std::size_t ahead_tile = t.ahead_step * terms;
  for (std::size_t i = 0, row = 0; i < tiles; ++i) {
    const std::size_t height = (rows - row + (tiles - i) - 1) / (tiles - i);
    t.left = origin.left + row * left_step;
    if (origin.c != nullptr) t.c = origin.c + row * t.c_stride;
    t.at = origin.at + row * t.c_stride;
    if (origin.positive != nullptr) t.positive = origin.positive + row * t.c_stride;
    row += height;
    if (i / sharing < ahead.rows) {  // else as before
      const std::size_t begin = i % sharing * ahead.floats / sharing;
      t.ahead = ahead.row[i / sharing] + at_most(begin, ahead.floats - ahead_tile);
    }
    run[height - 1](t);
  }
}

void forward(Shape shape, const float* x, std::size_t x_stride, const float* weights,
             const float* bias, bool relu, float* y, std::size_t y_stride, Ahead* ahead) {
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
        const std::size_t columns = at_most(tile_columns, panel_width - column);
        const bool takes_rows = next_floats == 0 && ahead != nullptr && ahead->rows > 0;
        run_rows<false>({.terms = terms,
                         .left = x + k,
                         .left_stride = x_stride,
                         .right = w + k * panel_width + column,
                         .right_stride = panel_width,
                         .c = y + panel + column,
                         .c_stride = y_stride,
                         .resume = k > 0,
                         .start = bias + panel + column,
                         .relu = relu && k + terms == shape.inputs},
                        shape.batch, columns, x_stride,
                        takes_rows ? take_rows(*ahead, tiles_for(shape.batch, columns), terms)
                                   : Ahead{.rows = 1, .row = &next, .floats = next_floats});
      }
    }
  }
}

/// c (rows x columns) = left (rows x terms, or transposed) * right (terms x columns).
template <bool transposed>
void multiply(std::size_t rows, std::size_t terms, std::size_t columns, const float* left,
              std::size_t left_stride, const float* right, std::size_t right_stride, float* c,
              std::size_t c_stride) {
  for (std::size_t column = 0; column < columns; column += tile_columns) {
    run_rows<transposed>({.terms = terms,
                          .left = left,
                          .left_stride = left_stride,
                          .right = right + column,
                          .right_stride = right_stride,
                          .c = c + column,
                          .c_stride = c_stride},
                         rows, at_most(tile_columns, columns - column),
                         transposed ? 1 : left_stride, {});
  }
}

/// (0 + rows_0) + rows_1 + ..
STARLING_INLINE Vector sum_of_rows(std::size_t rows, const float* from, std::size_t stride,
                                   Mask mask) {
  Vector sum = Lanes::zero();
  for (std::size_t b = 0; b < rows; ++b)
    sum = Lanes::add(sum, Lanes::load(from + b * stride, mask));
  return sum;
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
                        .left = x + k * x_stride,
                        .left_stride = x_stride,
                        .right = dy + k * dy_stride + panel + column,
                        .right_stride = dy_stride,
                        .c = w + column,
                        .c_stride = panel_width,
                        .resume = k > 0},
                       shape.inputs, at_most(tile_columns, panel_width - column), 1,
                       {.rows = 1, .row = &ahead, .floats = ahead_floats});
      }
    }
  }
  for (std::size_t o = 0; bias_gradient != nullptr && o < shape.outputs; o += width) {
    const Mask mask = Lanes::first(at_most(width, shape.outputs - o));
    Lanes::store(bias_gradient + o, sum_of_rows(shape.batch, dy + o, dy_stride, mask), mask);
  }
}

/// Whether the result goes past the cache: nobody reads it soon, and nothing of it is there.
STARLING_INLINE bool streams_results(const Folding& folding) {
  if (!folding.is_far || folding.sum_count != 1) return false;
  const LinearJob& job = folding.sums[0];
  return is_aligned(job.out) && is_apart(job.out, folding.terms + job.first_term, job.terms);
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

/// The sums of a bias, whose gradient is the sum of all rows of dy.
STARLING_INLINE void sum_bias(Shape shape, const float* dy, std::size_t dy_stride,
                              const Folding& folding) {
  for (std::size_t o = 0; o < shape.outputs; o += width) {
    const Mask mask = Lanes::first(at_most(width, shape.outputs - o));
    const Vector gradient[1][1] = {{sum_of_rows(shape.batch, dy + o, dy_stride, mask)}};
    store_sums<1, 1, true>({.folding = &folding, .at = folding.bias + o}, gradient, mask);
  }
}

/// Floats of a row of sums that one run of tiles takes; those of the next are fetched meanwhile.
constexpr std::size_t piece_floats = 1024;

void parameter_sums(Shape shape, const float* x, std::size_t x_stride, const float* dy,
                    std::size_t dy_stride, const Folding& folding) {
  const bool streams = streams_results(folding);
  const std::size_t weights_end = folding.weights + shape.inputs * shape.outputs;
  for (std::size_t panel = 0; panel < shape.outputs; panel += panel_columns) {
    const std::size_t panel_width = at_most(panel_columns, shape.outputs - panel);
    const std::size_t height = piece_floats / panel_width / tile_rows * tile_rows;
    for (std::size_t row = 0; row < shape.inputs; row += height) {
      const std::size_t rows = at_most(height, shape.inputs - row);
      const std::size_t at = folding.weights + panel * shape.inputs + row * panel_width;
      const std::size_t next = at + rows * panel_width;
      const std::size_t count = at_most(rows * panel_width, weights_end - next);
      const float* others[most_fetched];
      const std::size_t fitting = fitting_rows(tiles_for(rows, panel_width), shape.batch, count);
      const Ahead ahead{.rows = list_others(folding, streams, next, fitting, others),
                        .row = others,
                        .floats = count};
      for (std::size_t column = 0; column < panel_width; column += tile_columns) {
        run_rows<true>(
            {.terms = shape.batch,
             .left = x + row,
             .left_stride = x_stride,
             .right = dy + panel + column,
             .right_stride = dy_stride,
             .c_stride = panel_width,
             .folding = &folding,
             .at = at + column,
             .streams = streams && (at + column) % width == 0 && panel_width % width == 0},
            rows, at_most(tile_columns, panel_width - column), 1, ahead);
      }
    }
  }
  sum_bias(shape, dy, dy_stride, folding);
  if (streams) Lanes::fence();
}

/// Transposes the weights of so many inputs, from `input` on, and outputs, from `output` on: to (outputs, 32 inputs).
STARLING_INLINE void transpose_weights(Shape shape, const float* weights, std::size_t input,
                                       std::size_t inputs, std::size_t output, std::size_t outputs,
                                       float* to) {
  for (std::size_t panel = 0; panel < outputs; panel += panel_columns) {
    const std::size_t panel_width = at_most(panel_columns, shape.outputs - output - panel);
    const float* w = weights + weight_index(shape.inputs, shape.outputs, input, output + panel);
    for (std::size_t o = 0; o < panel_width; o += width) {
      const std::size_t block_outputs = at_most(width, panel_width - o);
      for (std::size_t i = 0; i < inputs; i += width) {
        Vector block[width];
        load_transposed(w + i * panel_width + o, panel_width, inputs - i, block_outputs, block);
        float* row = to + (panel + o) * panel_columns + i;
#pragma GCC unroll 16
        for (std::size_t r = 0; r < width; ++r) {
          if (r < block_outputs) Lanes::store(row + r * panel_columns, block[r]);
        }
      }
    }
  }
}

void input_gradient(Shape shape, Range inputs, const float* dy, std::size_t dy_stride,
                    const float* weights, const float* x, std::size_t x_stride, float* dx) {
  alignas(64) float right[k_block * panel_columns];  // weights, transposed
  for (std::size_t input = inputs.begin; input < inputs.end; input += panel_columns) {
    const std::size_t columns = at_most(panel_columns, inputs.end - input);
    for (std::size_t k = 0; k < shape.outputs; k += k_block) {
      const std::size_t terms = at_most(k_block, shape.outputs - k);
      const bool is_last = k + terms == shape.outputs;
      transpose_weights(shape, weights, input, columns, k, terms, right);

      // Fetched meanwhile: what is transposed next, a piece of each of its whole panels.
      const std::size_t next_input = is_last ? input + panel_columns : input;
      const std::size_t next_k = is_last ? 0 : k + terms;
      const std::size_t next_columns =
          next_input < inputs.end ? at_most(panel_columns, inputs.end - next_input) : 0;
      const float* next[k_block / panel_columns];
      const std::size_t panels =
          next_columns == 0 ? 0 : at_most(k_block, shape.outputs - next_k) / panel_columns;
      for (std::size_t p = 0; p < panels; ++p) {
        next[p] = weights +
                  weight_index(shape.inputs, shape.outputs, next_input, next_k + p * panel_columns);
      }

      for (std::size_t column = 0; column < columns; column += tile_columns) {
        run_rows<false>({.terms = terms,
                         .left = dy + k,
                         .left_stride = dy_stride,
                         .right = right + column,
                         .right_stride = panel_columns,
                         .c = dx + input + column,
                         .c_stride = x_stride,
                         .resume = k > 0,
                         .positive = x != nullptr && is_last ? x + input + column : nullptr},
                        shape.batch, at_most(tile_columns, columns - column), dy_stride,
                        {.rows = panels, .row = next, .floats = next_columns * panel_columns});
      }
    }
  }
}

}  // namespace
}  // namespace starling::dense
