// A whole step of a small model in one block: fetch the model and its mini-batch into shared memory, forward, loss,
// backward, gradient out. Device memory is read once and written once.
//
// Weights keep their panels, but rows are an odd number of floats apart: reading down a column (the input gradient) and
// along a row (everything else) both meet every bank once. Rows of activations are whole octets of floats, so that one
// load serves four inputs. A thread does several rows (or inputs) of two columns: shared memory gives 128 bytes in a cycle,
// in which a multiprocessor does 128 multiply-adds.
#pragma once

#include "kernels/cuda/mlp_task.hpp"
#include "kernels/cuda/softmax.hpp"

namespace starling::cuda {

/// Where things are in shared memory, in floats.
struct StepLayout {
  std::uint32_t weights[most_layers];  // first panel
  std::uint32_t bias[most_layers];
  std::uint32_t input[most_layers + 1];  // (rows, stride); the last are the logits
  std::uint32_t stride[most_layers + 1];
  std::uint32_t slope[2];
  std::uint32_t losses;  // (rows) doubles
  std::uint32_t total;
};

/// With few threads, so that many small models share a multiprocessor, or with many, where memory has room for few.
template <unsigned thread_count>
struct StepOf {
  static constexpr unsigned threads = thread_count;
  static constexpr unsigned resident = 1024 / threads;  // 64 registers a thread
  static constexpr std::uint32_t row_group = 4;         // samples that a thread does together
  static constexpr std::uint32_t input_group = 8;       // inputs, in the gradient
  struct Arguments {
    const StepTask* tasks;
    Samples data;
    double* losses;  // (tasks)
    std::uint32_t layer_count;
    LayerShape layers[most_layers];
    StepLayout at;
  };

  /// Shared memory for these layers and rows.
  static StepLayout layout(const LayerShape* layers, std::uint32_t count, std::uint32_t rows) {
    const auto up = [](std::uint32_t n, std::uint32_t to) { return (n + to - 1) / to * to; };
    StepLayout l{};
    std::uint32_t next = 0, widest = 0;
    const std::uint32_t padded = up(rows, row_group);
    for (std::uint32_t i = 0; i <= count; ++i) {
      l.stride[i] = up(i < count ? layers[i].inputs : layers[count - 1].outputs, input_group);
      l.input[i] = next;
      next += padded * l.stride[i];
      if (i > 0) widest = l.stride[i] > widest ? l.stride[i] : widest;
    }
    for (std::uint32_t& slope : l.slope) {
      slope = next;
      next += count > 1 ? padded * widest : 0;
    }
    l.losses = next;  // even: all before it are multiples of 8
    next += 2 * rows;
    for (std::uint32_t i = 0; i < count; ++i) {
      l.weights[i] = next;
      for (std::uint32_t p = 0; p < layers[i].outputs; p += panel_columns)
        next += layers[i].inputs * odd(panel_width(layers[i], p));
      l.bias[i] = next;
      next += layers[i].outputs;
    }
    l.total = next;
    return l;
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const StepTask task = a.tasks[block.index];
    auto* shared = reinterpret_cast<float*>(block.shared_memory);
    fetch(block, a, task, shared);
    for (std::uint32_t l = 0; l < a.layer_count; ++l) forward(block, a, task, shared, l);
    loss(block, a, task, shared);
    const float* dy = shared + a.at.input[a.layer_count];
    for (std::uint32_t l = a.layer_count; l-- > 0;) {
      parameter_gradient(block, a, task, shared, l, dy);
      if (l == 0) break;
      float* dx = shared + a.at.slope[l % 2];
      input_gradient(block, a, task, shared, l, dy, dx);
      dy = dx;
    }
  }

 private:
#if defined(__CUDACC__)
  __host__ __device__
#endif
      static constexpr std::uint32_t
      odd(std::uint32_t n) {
    return n | 1;
  }
#if defined(__CUDACC__)
  __host__ __device__
#endif
      static constexpr std::uint32_t
      panel_width(const LayerShape& layer, std::uint32_t panel) {
    const std::uint32_t left = layer.outputs - panel;
    return left < panel_columns ? left : panel_columns;
  }
  /// Where a panel begins, after the layer's first: the panels before it are whole, their rows padded.
  STARLING_DEVICE static std::uint32_t panel_at(const LayerShape& layer, std::uint32_t panel) {
    return panel / panel_columns * layer.inputs * odd(panel_columns);
  }

  STARLING_DEVICE static void fetch(const Block& block, const Arguments& a, const StepTask& task,
                                    float* shared) {
    const bool are_quads = is_even(a.data.x) && a.data.features % 4 == 0;
    block.each([&](unsigned thread) {
      const unsigned lane = thread % 32;
      for (std::uint32_t row = thread / 32; row < task.rows; row += threads / 32) {
        const float* from = a.data.x + std::uint64_t{sample_of(task, row)} * a.data.features;
        float* to = shared + a.at.input[0] + row * a.at.stride[0];
        if (are_quads) {
          STARLING_UNROLL_BY(1)
          for (std::uint32_t k = 4 * lane; k < a.data.features; k += 4 * 32)
            copy_quad_ahead(to + k, from + k);
        } else {
          STARLING_UNROLL_BY(1)
          for (std::uint32_t k = lane; k < a.data.features; k += 32)
            copy_float_ahead(to + k, from + k);
        }
      }
      for (std::uint32_t l = 0; l < a.layer_count; ++l) {
        const LayerShape& layer = a.layers[l];
        for (std::uint32_t panel = 0; panel < layer.outputs; panel += panel_columns) {
          const std::uint32_t columns = panel_width(layer, panel);
          const float* from = task.x + layer.weights + panel * layer.inputs;
          float* to = shared + a.at.weights[l] + panel_at(layer, panel);
          if (columns == panel_columns) {
            fetch_panel(thread, to, from, layer.inputs);
          } else {
            STARLING_UNROLL_BY(1)
            for (std::uint32_t i = thread; i < columns * layer.inputs; i += threads)
              copy_float_ahead(to + i / columns * odd(columns) + i % columns, from + i);
          }
        }
        STARLING_UNROLL_BY(1)
        for (std::uint32_t o = thread; o < layer.outputs; o += threads)
          copy_float_ahead(shared + a.at.bias[l] + o, task.x + layer.bias + o);
      }
      end_copies_ahead();
      end_copies_ahead();  // of nothing, so that there is a last group that need not be awaited
      await_copies_but_last();
    });
  }

  /// A whole panel of weights: a warp takes a row, four times if there are as many.
  STARLING_DEVICE static void fetch_panel(unsigned thread, float* to, const float* from,
                                          std::uint32_t rows) {
    static_assert(panel_columns == 32 && threads % 32 == 0);
    constexpr std::uint32_t apart = odd(panel_columns), step = threads / 32;
    std::uint32_t row = thread / 32;
    to += row * apart + thread % 32;
    from += thread;
    for (; row + 3 * step < rows; row += 4 * step) {
      STARLING_UNROLL
      for (std::uint32_t n = 0; n < 4; ++n)
        copy_float_ahead(to + n * step * apart, from + n * threads);
      to += 4 * step * apart;
      from += 4 * threads;
    }
    STARLING_UNROLL_BY(1)
    for (; row < rows; row += step) {
      copy_float_ahead(to, from);
      to += step * apart;
      from += threads;
    }
  }

  /// A thread takes two columns of a layer, half of its outputs apart: what it loads of rows serves both.
  struct Columns {
    std::uint32_t o[2];
    bool has_second;  // else it is the first again, and in vain

    STARLING_DEVICE static std::uint32_t pairs(const LayerShape& layer) {
      return (layer.outputs + 1) / 2;
    }
    STARLING_DEVICE static Columns of(const LayerShape& layer, std::uint32_t pair) {
      const std::uint32_t second = pair + pairs(layer);
      const bool has_second = second < layer.outputs;
      return {{pair, has_second ? second : pair}, has_second};
    }
  };

  STARLING_DEVICE static void forward(const Block& block, const Arguments& a, const StepTask& task,
                                      float* shared, std::uint32_t l) {
    const LayerShape& layer = a.layers[l];
    const std::uint32_t stride = a.at.stride[l];
    const std::uint32_t groups = (task.rows + row_group - 1) / row_group;
    const std::uint32_t pairs = Columns::pairs(layer);
    block.each([&](unsigned thread) {
      for (std::uint32_t item = thread; item < groups * pairs; item += threads) {
        const Columns columns = Columns::of(layer, item % pairs);
        const std::uint32_t row = item / pairs * row_group;
        const float* x = shared + a.at.input[l] + row * stride;
        const float* w[2];
        std::uint32_t step[2];
        float sums[2][row_group];
        STARLING_UNROLL
        for (std::uint32_t c = 0; c < 2; ++c) {
          const std::uint32_t o = columns.o[c], panel = o / panel_columns * panel_columns;
          step[c] = odd(panel_width(layer, panel));
          w[c] = shared + a.at.weights[l] + panel_at(layer, panel) + (o - panel);
          STARLING_UNROLL
          for (std::uint32_t r = 0; r < row_group; ++r) sums[c][r] = shared[a.at.bias[l] + o];
        }
        std::uint32_t k = 0;
        for (; k + 4 <= layer.inputs; k += 4) {
          Quad v[row_group];
          STARLING_UNROLL
          for (std::uint32_t r = 0; r < row_group; ++r)
            v[r] = *reinterpret_cast<const Quad*>(x + r * stride + k);
          STARLING_UNROLL
          for (std::uint32_t c = 0; c < 2; ++c) {
            const float w0 = w[c][k * step[c]], w1 = w[c][(k + 1) * step[c]],
                        w2 = w[c][(k + 2) * step[c]], w3 = w[c][(k + 3) * step[c]];
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < row_group; ++r) {
              const float low = fmaf(v[r].y, w1, fmaf(v[r].x, w0, sums[c][r]));
              sums[c][r] = fmaf(v[r].w, w3, fmaf(v[r].z, w2, low));
            }
          }
        }
        for (; k < layer.inputs; ++k) {
          STARLING_UNROLL
          for (std::uint32_t c = 0; c < 2; ++c) {
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < row_group; ++r)
              sums[c][r] = fmaf(x[r * stride + k], w[c][k * step[c]], sums[c][r]);
          }
        }
        const bool is_last = l + 1 == a.layer_count;
        float* y = shared + a.at.input[l + 1] + row * a.at.stride[l + 1];
        STARLING_UNROLL
        for (std::uint32_t c = 0; c < 2; ++c) {
          STARLING_UNROLL
          for (std::uint32_t r = 0; r < row_group; ++r) {
            if (row + r < task.rows && (c == 0 || columns.has_second)) {
              y[r * a.at.stride[l + 1] + columns.o[c]] =
                  !is_last && sums[c][r] < 0 ? 0.0F : sums[c][r];
            }
          }
        }
      }
    });
  }

  STARLING_DEVICE static void loss(const Block& block, const Arguments& a, const StepTask& task,
                                   float* shared) {
    const std::uint32_t last = a.layer_count, classes = a.layers[last - 1].outputs;
    double* losses = reinterpret_cast<double*>(shared + a.at.losses);
    block.each([&](unsigned thread) {
      const float share = 1.0F / static_cast<float>(task.rows);
      for (std::uint32_t row = thread; row < task.rows; row += threads) {
        losses[row] = softmax_cross_entropy(shared + a.at.input[last] + row * a.at.stride[last],
                                            classes, a.data.y[sample_of(task, row)], share);
      }
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      double sum = 0;
      for (std::uint32_t row = 0; row < task.rows; ++row) sum += losses[row];
      a.losses[block.index] = sum / static_cast<double>(task.rows);
    });
  }

  STARLING_DEVICE static void parameter_gradient(const Block& block, const Arguments& a,
                                                 const StepTask& task, const float* shared,
                                                 std::uint32_t l, const float* dy) {
    const LayerShape& layer = a.layers[l];
    const std::uint32_t x_stride = a.at.stride[l], dy_stride = a.at.stride[l + 1];
    const std::uint32_t groups = (layer.inputs + input_group - 1) / input_group;
    const std::uint32_t pairs = Columns::pairs(layer);
    block.each([&](unsigned thread) {
      for (std::uint32_t item = thread; item < groups * pairs; item += threads) {
        const Columns columns = Columns::of(layer, item % pairs);
        const std::uint32_t k = item / pairs * input_group;
        const float* x = shared + a.at.input[l] + k;
        float sums[2][input_group] = {};
        for (std::uint32_t b = 0; b < task.rows; ++b) {
          const float slope[] = {dy[b * dy_stride + columns.o[0]],
                                 dy[b * dy_stride + columns.o[1]]};
          const Quad low = *reinterpret_cast<const Quad*>(x + b * x_stride);
          const Quad high = *reinterpret_cast<const Quad*>(x + b * x_stride + 4);
          const float eight[input_group] = {low.x,  low.y,  low.z,  low.w,
                                            high.x, high.y, high.z, high.w};
          STARLING_UNROLL
          for (std::uint32_t c = 0; c < 2; ++c) {
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < input_group; ++i)
              sums[c][i] = fmaf(eight[i], slope[c], sums[c][i]);
          }
        }
        const std::uint32_t used = lesser(input_group, layer.inputs - k);
        STARLING_UNROLL
        for (std::uint32_t c = 0; c < 2; ++c) {
          const std::uint32_t o = columns.o[c];
          const std::uint64_t first = layer.weights + weight_at(layer.inputs, layer.outputs, k, o);
          const std::uint32_t apart = panel_width(layer, o / panel_columns * panel_columns);
          if (c == 1 && !columns.has_second) continue;
          if (apart == panel_columns && used == input_group) {
            store_gradients(
                task, sums[c], [&](std::uint32_t i) { return first + i * panel_columns; }, All{});
          } else {
            store_gradients(
                task, sums[c], [&](std::uint32_t i) { return first + i * apart; },
                [&](std::uint32_t i) { return i < used; });
          }
        }
      }
      for (std::uint32_t o = thread; o < layer.outputs; o += threads) {
        float sum = 0;
        for (std::uint32_t b = 0; b < task.rows; ++b) sum += dy[b * dy_stride + o];
        store_gradient(task, layer.bias + o, sum);
      }
    });
  }

  STARLING_DEVICE static void input_gradient(const Block& block, const Arguments& a,
                                             const StepTask& task, const float* shared,
                                             std::uint32_t l, const float* dy, float* dx) {
    const LayerShape& layer = a.layers[l];
    const std::uint32_t stride = a.at.stride[l], dy_stride = a.at.stride[l + 1];
    const std::uint32_t groups = (task.rows + row_group - 1) / row_group;
    block.each([&](unsigned thread) {
      for (std::uint32_t item = thread; item < groups * layer.inputs; item += threads) {
        const std::uint32_t k = item % layer.inputs, row = item / layer.inputs * row_group;
        float sums[row_group] = {};
        for (std::uint32_t panel = 0; panel < layer.outputs; panel += panel_columns) {
          const std::uint32_t columns = panel_width(layer, panel);
          const float* w = shared + a.at.weights[l] + panel_at(layer, panel) + k * odd(columns);
          const float* slope = dy + row * dy_stride + panel;
          for (std::uint32_t c = 0; c < columns; ++c) {
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < row_group; ++r)
              sums[r] = fmaf(slope[r * dy_stride + c], w[c], sums[r]);
          }
        }
        const float* x = shared + a.at.input[l] + row * stride + k;
        STARLING_UNROLL
        for (std::uint32_t r = 0; r < row_group; ++r) {
          if (row + r < task.rows) dx[(row + r) * stride + k] = x[r * stride] > 0 ? sums[r] : 0.0F;
        }
      }
    });
  }
};
using StepKernel = StepOf<128>;
using WideStepKernel = StepOf<256>;

}  // namespace starling::cuda
