// A whole step of a small model in one block: draw the mini-batch, fetch it and the model into shared memory, forward, loss,
// backward, gradient out. Device memory is read once and written once. What the step is for, and what came of it, lies in
// the host's memory, which a block reads and writes as it comes to it: nobody copies tables.
//
// Everything in shared memory comes in quads. Rows are an odd number of quads apart, so that lanes that read down a column
// (samples of a batch, weights in the input gradient) meet every bank; but for weights of the first layer, which are read along
// rows only. A thread computes several rows of a quad of columns from quads of either factor.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/draw_kernel.hpp"
#include "kernels/cuda/mlp_task.hpp"
#include "kernels/cuda/softmax.hpp"

namespace starling::cuda {

/// Where things are in shared memory, in floats, and how much of a layer a thread does at a time.
struct StepLayout {
  std::uint32_t weights[most_layers];  // first panel
  std::uint32_t bias[most_layers];
  std::uint32_t input[most_layers + 1];  // (rows, stride); the last are the logits
  std::uint32_t stride[most_layers + 1];
  std::uint32_t forward_rows[most_layers];  // 4, 2 or 1
  std::uint32_t slope_rows[most_layers];    // of the input gradient: 4 or 2
  std::uint32_t input_quads[most_layers];   // of the parameter gradient: 2 or 1
  std::uint32_t loss_threads;               // of a row
  std::uint32_t samples;                    // (rows)
  std::uint32_t losses;                     // (rows) doubles
  std::uint32_t counters;                   // 2
  std::uint32_t total;                      // the task comes behind
};

/// The gradient that a block is to compute; sums (LinearTask) and their terms (TermOnDevice, counted from the task's first)
/// follow it.
struct BlockTask {
  const float* x;   // the model
  float* gradient;  // null: sums in its place
  std::int64_t draw;
  std::uint32_t node;
  std::uint32_t sums, terms;
  std::uint32_t are_sums_even;  // StepTask::are_sums_even

  static constexpr std::uint32_t words(std::size_t sums, std::size_t terms) {
    return static_cast<std::uint32_t>(
        (sizeof(BlockTask) + sums * sizeof(LinearTask) + terms * sizeof(TermOnDevice)) / 4);
  }
};
struct BlockResult {
  double loss;
  std::uint32_t strange;  // not 0 if an entry of the gradient is infinite or NaN
  std::uint32_t unused;
};

template <unsigned thread_count>
struct StepOf {
  static constexpr unsigned threads = thread_count;
  static constexpr unsigned resident = 512 / threads;  // 128 registers a thread
  struct Arguments {
    const std::uint32_t* tasks;  // (blocks, task_words)
    BlockResult* results;        // (blocks)
    std::uint32_t task_words;
    std::uint32_t rows;
    Samples data;
    Parts parts;
    std::uint32_t layer_count;
    LayerShape layers[most_layers];
    StepLayout at;
  };

  /// Shared memory for these layers and rows.
  static StepLayout layout(const LayerShape* layers, std::uint32_t count, std::uint32_t rows) {
    StepLayout l{};
    std::uint32_t next = 0;
    const auto take = [&](std::uint32_t floats) {
      const std::uint32_t at = next;
      next += 4 * quads(floats);
      return at;
    };
    for (std::uint32_t i = 0; i <= count; ++i) {
      l.stride[i] = apart(i < count ? layers[i].inputs : layers[count - 1].outputs);
      l.input[i] = take(4 * quads(rows) * l.stride[i]);
    }
    const std::uint32_t scratch = (4 * rows + 3 * few_samples) / 4;
    if (next < scratch) take(scratch - next);
    l.samples = take(rows);
    l.losses = take(2 * rows);
    l.counters = take(2);
    for (std::uint32_t i = 0; i < count; ++i) {
      l.weights[i] = next;
      for (std::uint32_t p = 0; p < layers[i].outputs; p += panel_columns)
        take(layers[i].inputs * row_of_panel(i, panel_width(layers[i], p)));
      l.bias[i] = take(layers[i].outputs);
      const std::uint32_t inputs = quads(layers[i].inputs), outputs = quads(layers[i].outputs);
      l.forward_rows[i] = cheapest({4, 2, 1}, rows, outputs);
      l.slope_rows[i] = cheapest({4, 2}, rows, inputs);
      l.input_quads[i] = cheapest({2, 1}, inputs, outputs);
    }
    l.loss_threads = std::min(threads / std::min(rows, threads), layers[count - 1].outputs);
    l.total = next;
    return l;
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    auto* shared = reinterpret_cast<float*>(block.shared_memory);
    auto* table = reinterpret_cast<std::uint32_t*>(shared + a.at.total);
    auto* counters = reinterpret_cast<std::uint32_t*>(shared + a.at.counters);
    fetch_task(block, a, table, counters);
    const BlockTask head = *reinterpret_cast<const BlockTask*>(table);
    const auto* sums =
        reinterpret_cast<const LinearTask*>(table + sizeof(BlockTask) / sizeof *table);
    const StepTask task{
        .x = head.x,
        .gradient = head.gradient,
        .samples = nullptr,
        .first = 0,
        .rows = a.rows,
        .sums = sums,
        .terms = reinterpret_cast<const TermOnDevice*>(sums + head.sums),
        .sum_count = head.sums,
        .are_sums_even = head.are_sums_even,
        .strange = nullptr,
    };
    const Step step{block, a, task, shared, stays(task) ? head.x : nullptr, takes_quads(task)};
    auto* samples = reinterpret_cast<std::int32_t*>(shared + a.at.samples);
    block.each([&](unsigned thread) { step.fetch_model(thread); });
    draw_samples<threads>(block, a.parts, head.node, head.draw, a.rows, samples,
                          block.shared_memory, counters[0]);
    block.each([&](unsigned thread) { step.fetch_samples(thread, samples); });
    for (std::uint32_t l = 0; l < a.layer_count; ++l) step.forward(l);
    step.loss(samples);
    Local<float, threads> zeros;
    block.each([&](unsigned thread) { zeros[thread] = 0; });
    for (std::uint32_t l = a.layer_count; l-- > 0;) {
      step.parameter_gradient(l, zeros);
      if (l > 0) step.input_gradient(l);
    }
    block.each([&](unsigned thread) {
      if (zeros[thread] != 0) add_atomically(counters[1], 1);
    });
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      const auto* losses = reinterpret_cast<const double*>(shared + a.at.losses);
      double sum = 0;
      for (std::uint32_t row = 0; row < a.rows; ++row) sum += losses[row];
      a.results[block.index] = {sum / static_cast<double>(a.rows), counters[1], 0};
    });
  }

 private:
#if defined(__CUDACC__)
#define STARLING_BOTH __host__ __device__ __forceinline__
#else
#define STARLING_BOTH inline
#endif
  STARLING_BOTH static constexpr std::uint32_t quads(std::uint32_t floats) {
    return (floats + 3) / 4;
  }
  STARLING_BOTH static constexpr std::uint32_t apart(std::uint32_t floats) {
    return 4 * (quads(floats) | 1);
  }
  STARLING_BOTH static constexpr std::uint32_t row_of_panel(std::uint32_t l, std::uint32_t width) {
    return l == 0 ? 4 * quads(width) : apart(width);
  }
  STARLING_BOTH static constexpr std::uint32_t panel_width(const LayerShape& layer,
                                                           std::uint32_t panel) {
    const std::uint32_t left = layer.outputs - panel;
    return left < panel_columns ? left : panel_columns;
  }
#undef STARLING_BOTH

  /// Which of these parts of `rows`, beside so many columns, keep the threads busy for the fewest instructions: a thread
  /// multiplies 4 quads by 4 of columns, and fetches them.
  static std::uint32_t cheapest(std::initializer_list<std::uint32_t> parts, std::uint32_t rows,
                                std::uint32_t columns) {
    std::uint32_t best = 0, least = 0;
    for (const std::uint32_t part : parts) {
      const std::uint32_t items = (rows + part - 1) / part * columns;
      const std::uint32_t cost = (items + threads - 1) / threads * (16 * part + part + 4);
      if (best != 0 && cost >= least) continue;
      best = part;
      least = cost;
    }
    return best;
  }

  /// Whether the model stays as it is until the last sum takes its place.
  STARLING_DEVICE static bool stays(const StepTask& task) {
    for (std::uint32_t s = 0; s + 1 < task.sum_count; ++s) {
      if (task.sums[s].out == task.x) return false;
    }
    return true;
  }

  STARLING_DEVICE static void fetch_task(const Block& block, const Arguments& a,
                                         std::uint32_t* table, std::uint32_t* counters) {
    constexpr std::uint32_t at_once = 32;  // words, 128 bytes
    static_assert(at_once <= threads && sizeof(BlockTask) <= at_once * 4);
    const std::uint32_t* from = a.tasks + std::uint64_t{block.index} * a.task_words;
    block.each([&](unsigned thread) {
      if (thread < lesser(at_once, a.task_words)) table[thread] = from[thread];
      if (thread < 2) counters[thread] = 0;
    });
    if (a.task_words <= at_once) return;
    const auto* head = reinterpret_cast<const BlockTask*>(table);
    const std::uint32_t words =
        (sizeof(BlockTask) + head->sums * sizeof(LinearTask) + head->terms * sizeof(TermOnDevice)) /
        4;
    block.each([&](unsigned thread) {
      for (std::uint32_t i = at_once + thread; i < words; i += threads) table[i] = from[i];
    });
  }

  /// f(row, column) for every place of an array, which threads deal out one after the other.
  template <class F>
  STARLING_DEVICE static void each_place(unsigned thread, std::uint32_t rows, std::uint32_t columns,
                                         const F& f) {
    const std::uint32_t step_rows = threads / columns, step = threads - step_rows * columns;
    std::uint32_t row = thread / columns, column = thread - row * columns;
    if (step == 0) {  // the same column in every row
      STARLING_UNROLL_BY(4)
      for (; row < rows; row += step_rows) f(row, column);
      return;
    }
    STARLING_UNROLL_BY(1)
    while (row < rows) {
      f(row, column);
      row += step_rows;
      column += step;
      if (column >= columns) {
        column -= columns;
        ++row;
      }
    }
  }

  STARLING_DEVICE static Quad quad_at(const float* at) {
    return *reinterpret_cast<const Quad*>(at);
  }

  /// Everything that the parts of a step need.
  struct Step {
    const Block& block;
    const Arguments& a;
    const StepTask& task;
    float* shared;
    const float* model;  // task.x if shared memory has its numbers until the end, else null
    bool are_quads;      // all rows in device memory begin at multiples of 16 bytes

    /// Where a panel begins, after the layer's first: the panels before it are whole.
    STARLING_DEVICE std::uint32_t weights_at(std::uint32_t l, std::uint32_t panel) const {
      return a.at.weights[l] +
             panel * a.layers[l].inputs / panel_columns * row_of_panel(l, panel_columns);
    }
    STARLING_DEVICE std::uint32_t groups(std::uint32_t rows_each) const {
      return (a.rows + rows_each - 1) / rows_each;
    }

    STARLING_DEVICE void fetch_model(unsigned thread) const {
      const bool is_model_even = is_even(task.x);
      for (std::uint32_t l = 0; l < a.layer_count; ++l) {
        const LayerShape& layer = a.layers[l];
        for (std::uint32_t panel = 0; panel < layer.outputs; panel += panel_columns) {
          const std::uint32_t columns = panel_width(layer, panel);
          const std::uint32_t apart = row_of_panel(l, columns);
          const float* from = task.x + layer.weights + panel * layer.inputs;
          float* to = shared + weights_at(l, panel);
          if (columns % 4 == 0 && layer.weights % 4 == 0 && is_model_even) {
            each_place(thread, layer.inputs, columns / 4, [&](std::uint32_t k, std::uint32_t q) {
              copy_quad_ahead(to + k * apart + 4 * q, from + k * columns + 4 * q);
            });
          } else {
            each_place(thread, layer.inputs, columns, [&](std::uint32_t k, std::uint32_t o) {
              copy_float_ahead(to + k * apart + o, from + k * columns + o);
            });
          }
        }
        STARLING_UNROLL_BY(1)
        for (std::uint32_t o = thread; o < layer.outputs; o += threads)
          copy_float_ahead(shared + a.at.bias[l] + o, task.x + layer.bias + o);
      }
    }

    /// And waits for it and for the model.
    STARLING_DEVICE void fetch_samples(unsigned thread, const std::int32_t* samples) const {
      const std::uint32_t features = a.data.features;
      const auto row_of = [&](std::uint32_t row) {
        return a.data.x + std::uint64_t{static_cast<std::uint32_t>(samples[row])} * features;
      };
      float* to = shared + a.at.input[0];
      if (is_even(a.data.x) && features % 4 == 0) {
        each_place(thread, a.rows, features / 4, [&](std::uint32_t row, std::uint32_t q) {
          copy_quad_ahead(to + row * a.at.stride[0] + 4 * q, row_of(row) + 4 * q);
        });
      } else {
        each_place(thread, a.rows, features, [&](std::uint32_t row, std::uint32_t k) {
          copy_float_ahead(to + row * a.at.stride[0] + k, row_of(row) + k);
        });
      }
      end_copies_ahead();
      end_copies_ahead();  // of nothing, so that there is a last group that need not be awaited
      await_copies_but_last();
    }

    STARLING_DEVICE void forward(std::uint32_t l) const {
      switch (a.at.forward_rows[l]) {
        case 4:
          return forward_by<4>(l);
        case 2:
          return forward_by<2>(l);
        default:
          return forward_by<1>(l);
      }
    }
    /// A thread does rows g, g + groups, ..: lanes beside each other read rows beside each other.
    template <std::uint32_t count>
    STARLING_DEVICE void forward_by(std::uint32_t l) const {
      const LayerShape& layer = a.layers[l];
      const std::uint32_t stride = a.at.stride[l], columns = quads(layer.outputs);
      const std::uint32_t groups = this->groups(count);
      const bool is_last = l + 1 == a.layer_count;
      block.each([&](unsigned thread) {
        STARLING_UNROLL_BY(1)
        for (std::uint32_t item = thread; item < groups * columns; item += threads) {
          const std::uint32_t g = item / columns, o = 4 * (item - g * columns);
          const std::uint32_t panel = o / panel_columns * panel_columns;
          const std::uint32_t step = row_of_panel(l, panel_width(layer, panel));
          const float* w = shared + weights_at(l, panel) + (o - panel);
          const float* x = shared + a.at.input[l] + g * stride;
          Quad sums[count];
          STARLING_UNROLL
          for (std::uint32_t r = 0; r < count; ++r) sums[r] = quad_at(shared + a.at.bias[l] + o);
          std::uint32_t k = 0;
          STARLING_UNROLL_BY(2)
          for (; k + 4 <= layer.inputs; k += 4) {
            Quad v[count];
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < count; ++r) v[r] = quad_at(x + r * groups * stride + k);
            const Quad w0 = quad_at(w), w1 = quad_at(w + step), w2 = quad_at(w + 2 * step),
                       w3 = quad_at(w + 3 * step);
            w += 4 * step;
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < count; ++r) add_term(sums[r], v[r].x, w0);
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < count; ++r) add_term(sums[r], v[r].y, w1);
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < count; ++r) add_term(sums[r], v[r].z, w2);
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < count; ++r) add_term(sums[r], v[r].w, w3);
          }
          STARLING_UNROLL_BY(1)
          for (; k < layer.inputs; ++k) {
            const Quad here = quad_at(w);
            w += step;
            STARLING_UNROLL
            for (std::uint32_t r = 0; r < count; ++r)
              add_term(sums[r], x[r * groups * stride + k], here);
          }
          const std::uint32_t y_stride = a.at.stride[l + 1];
          float* y = shared + a.at.input[l + 1] + g * y_stride + o;
          STARLING_UNROLL
          for (std::uint32_t r = 0; r < count; ++r) {
            Quad& s = sums[r];
            if (!is_last)
              s = {s.x < 0 ? 0 : s.x, s.y < 0 ? 0 : s.y, s.z < 0 ? 0 : s.z, s.w < 0 ? 0 : s.w};
            *reinterpret_cast<Quad*>(y + r * groups * y_stride) = s;
          }
        }
      });
    }

    /// softmax_cross_entropy() of every row, by several threads each, which share its exponentials.
    STARLING_DEVICE void loss(const std::int32_t* samples) const {
      const std::uint32_t last = a.layer_count, classes = a.layers[last - 1].outputs;
      const std::uint32_t each = a.at.loss_threads, at_once = threads / each;
      auto* losses = reinterpret_cast<double*>(shared + a.at.losses);
      for (std::uint32_t begin = 0; begin < a.rows; begin += at_once) {
        Local<double, threads> margin;
        Local<float, threads> highest, sum;
        Local<std::uint32_t, threads> label;
        const auto row_of = [&](unsigned thread) { return begin + thread / each; };
        const auto z_of = [&](unsigned thread) {
          return shared + a.at.input[last] + row_of(thread) * a.at.stride[last];
        };
        const auto is_idle = [&](unsigned thread) {
          return thread / each >= at_once || row_of(thread) >= a.rows;
        };
        block.each([&](unsigned thread) {
          if (is_idle(thread)) return;
          const float* z = z_of(thread);
          label[thread] = static_cast<std::uint32_t>(a.data.y[samples[row_of(thread)]]);
          highest[thread] = highest_of(z, classes);
          margin[thread] =
              static_cast<double>(z[label[thread]]) - static_cast<double>(highest[thread]);
        });
        block.each([&](unsigned thread) {
          if (is_idle(thread)) return;
          float* z = z_of(thread);
          for (std::uint32_t o = thread % each; o < classes; o += each)
            z[o] = exponential_of(z[o] - highest[thread]);
        });
        block.each([&](unsigned thread) {
          if (is_idle(thread)) return;
          const float* z = z_of(thread);
          sum[thread] = 0;
          for (std::uint32_t o = 0; o < classes; ++o) sum[thread] += z[o];
          if (thread % each == 0)
            losses[row_of(thread)] =
                static_cast<double>(logarithm_of(sum[thread])) - margin[thread];
        });
        block.each([&](unsigned thread) {
          if (is_idle(thread)) return;
          const float share = 1.0F / static_cast<float>(a.rows), scale = share / sum[thread];
          float* z = z_of(thread);
          for (std::uint32_t o = thread % each; o < classes; o += each)
            z[o] = o == label[thread] ? fmaf(z[o], scale, -share) : z[o] * scale;
        });
      }
    }

    STARLING_DEVICE void parameter_gradient(std::uint32_t l, Local<float, threads>& zeros) const {
      if (a.at.input_quads[l] == 2) {
        parameter_gradient_by<2>(l, zeros);
      } else {
        parameter_gradient_by<1>(l, zeros);
      }
    }
    /// A thread does a quad of outputs for one or two quads of inputs, the second from the other half.
    template <std::uint32_t count>
    STARLING_DEVICE void parameter_gradient_by(std::uint32_t l,
                                               Local<float, threads>& zeros) const {
      const LayerShape& layer = a.layers[l];
      const std::uint32_t x_stride = a.at.stride[l], dy_stride = a.at.stride[l + 1];
      const std::uint32_t columns = quads(layer.outputs), inputs = quads(layer.inputs);
      const std::uint32_t half = (inputs + count - 1) / count;
      block.each([&](unsigned thread) {
        STARLING_UNROLL_BY(1)
        for (std::uint32_t item = thread; item < half * columns; item += threads) {
          const std::uint32_t first = item / columns, o = 4 * (item - first * columns);
          const float* dy = shared + a.at.input[l + 1] + o;
          const float* x[count];
          std::uint32_t k[count];
          STARLING_UNROLL
          for (std::uint32_t j = 0; j < count; ++j) {
            k[j] = 4 * (first + j * half);
            x[j] = shared + a.at.input[l] + (k[j] < layer.inputs ? k[j] : k[0]);
          }
          Quad sums[4 * count] = {};
          STARLING_UNROLL_BY(2)
          for (std::uint32_t b = 0; b < a.rows; ++b) {
            const Quad slope = quad_at(dy);
            dy += dy_stride;
            STARLING_UNROLL
            for (std::uint32_t j = 0; j < count; ++j) {
              const Quad v = quad_at(x[j]);
              x[j] += x_stride;
              add_term(sums[4 * j], v.x, slope);
              add_term(sums[4 * j + 1], v.y, slope);
              add_term(sums[4 * j + 2], v.z, slope);
              add_term(sums[4 * j + 3], v.w, slope);
            }
          }
          hand_over_weights(l, k, o, sums, zeros[thread]);
        }
        for (std::uint32_t o = thread; o < layer.outputs; o += threads) {
          const float* dy = shared + a.at.input[l + 1] + o;
          float sum[] = {0};
          for (std::uint32_t b = 0; b < a.rows; ++b) sum[0] += dy[b * dy_stride];
          add_zero_times(zeros[thread], sum[0]);
          hand_over(
              task, sum, [&](std::uint32_t) { return layer.bias + o; }, All{},
              [&](const float* row, float(&value)[1]) {
                if (row == model) {
                  value[0] = shared[a.at.bias[l] + o];
                } else {
                  value[0] = row[layer.bias + o];
                }
              });
        }
      });
    }

    /// Gradients of the weights of inputs k[j], .. k[j] + 3, as far as there are some, and a quad of outputs from o on.
    template <std::uint32_t count>
    STARLING_DEVICE void hand_over_weights(std::uint32_t l, const std::uint32_t (&k)[count],
                                           std::uint32_t o, const Quad (&sums)[4 * count],
                                           float& zeros) const {
      const LayerShape& layer = a.layers[l];
      const std::uint32_t panel = o / panel_columns * panel_columns;
      const std::uint32_t width = panel_width(layer, panel), apart = row_of_panel(l, width);
      const std::uint32_t first = layer.weights + panel * layer.inputs + (o - panel);
      const float* w = shared + weights_at(l, panel) + (o - panel);
      if (are_quads && layer.weights % 4 == 0 && width % 4 == 0 &&
          k[count - 1] + 4 <= layer.inputs) {
        STARLING_UNROLL
        for (const Quad& sum : sums) add_zero_times(zeros, sum);
        const auto at = [&](std::uint32_t i) { return first + (k[i / 4] + i % 4) * width; };
        hand_over(task, sums, at, All{}, [&](const float* row, Quad(&values)[4 * count]) {
          if (row == model) {
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < 4 * count; ++i)
              values[i] = quad_at(w + (k[i / 4] + i % 4) * apart);
          } else {
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < 4 * count; ++i) values[i] = quad_at(row + at(i));
          }
        });
        return;
      }
      const std::uint32_t outputs = layer.outputs - o;
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < count; ++j) {
        if (k[j] >= layer.inputs) continue;
        const std::uint32_t inputs = layer.inputs - k[j];
        float numbers[16];
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) {
          numbers[4 * i] = sums[4 * j + i].x;
          numbers[4 * i + 1] = sums[4 * j + i].y;
          numbers[4 * i + 2] = sums[4 * j + i].z;
          numbers[4 * i + 3] = sums[4 * j + i].w;
        }
        const auto at = [&](std::uint32_t i) { return first + (k[j] + i / 4) * width + i % 4; };
        const auto is_used = [&](std::uint32_t i) { return i / 4 < inputs && i % 4 < outputs; };
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < 16; ++i) {
          if (is_used(i)) add_zero_times(zeros, numbers[i]);
        }
        hand_over(task, numbers, at, is_used, [&](const float* row, float(&values)[16]) {
          if (row == model) {
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < 16; ++i) {
              if (is_used(i)) values[i] = w[(k[j] + i / 4) * apart + i % 4];
            }
          } else {
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < 16; ++i) {
              if (is_used(i)) values[i] = row[at(i)];
            }
          }
        });
      }
    }

    STARLING_DEVICE void input_gradient(std::uint32_t l) const {
      if (a.at.slope_rows[l] == 4) {
        input_gradient_by<4>(l);
      } else {
        input_gradient_by<2>(l);
      }
    }
    /// In the place of the layer's input, which was asked last whether it is above 0. A thread does inputs q, q + inputs,
    /// ..: lanes beside each other read rows of weights beside each other.
    template <std::uint32_t count>
    STARLING_DEVICE void input_gradient_by(std::uint32_t l) const {
      const LayerShape& layer = a.layers[l];
      const std::uint32_t stride = a.at.stride[l], dy_stride = a.at.stride[l + 1];
      const std::uint32_t inputs = quads(layer.inputs), groups = this->groups(count);
      block.each([&](unsigned thread) {
        STARLING_UNROLL_BY(1)
        for (std::uint32_t item = thread; item < groups * inputs; item += threads) {
          const std::uint32_t g = item / inputs, q = item - g * inputs;
          float sums[count][4] = {};
          STARLING_UNROLL_BY(1)
          for (std::uint32_t panel = 0; panel < layer.outputs; panel += panel_columns) {
            const std::uint32_t columns = panel_width(layer, panel);
            const float* dy = shared + a.at.input[l + 1] + g * dy_stride + panel;
            const float* w[4];
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) {
              w[i] = shared + weights_at(l, panel) +
                     lesser(q + i * inputs, layer.inputs - 1) * row_of_panel(l, columns);
            }
            std::uint32_t c = 0;
            STARLING_UNROLL_BY(1)
            for (; c + 4 <= columns; c += 4) {
              Quad slope[count], v[4];
              STARLING_UNROLL
              for (std::uint32_t r = 0; r < count; ++r)
                slope[r] = quad_at(dy + r * groups * dy_stride + c);
              STARLING_UNROLL
              for (std::uint32_t i = 0; i < 4; ++i) v[i] = quad_at(w[i] + c);
              STARLING_UNROLL
              for (std::uint32_t r = 0; r < count; ++r) {
                STARLING_UNROLL
                for (std::uint32_t i = 0; i < 4; ++i) {
                  const float low = fmaf(slope[r].y, v[i].y, fmaf(slope[r].x, v[i].x, sums[r][i]));
                  sums[r][i] = fmaf(slope[r].w, v[i].w, fmaf(slope[r].z, v[i].z, low));
                }
              }
            }
            STARLING_UNROLL_BY(1)
            for (; c < columns; ++c) {
              STARLING_UNROLL
              for (std::uint32_t r = 0; r < count; ++r) {
                const float slope = dy[r * groups * dy_stride + c];
                STARLING_UNROLL
                for (std::uint32_t i = 0; i < 4; ++i) sums[r][i] = fmaf(slope, w[i][c], sums[r][i]);
              }
            }
          }
          STARLING_UNROLL
          for (std::uint32_t r = 0; r < count; ++r) {
            STARLING_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) {
              const std::uint32_t row = g + r * groups, k = q + i * inputs;
              float& x = shared[a.at.input[l] + row * stride + k];
              if (row < a.rows && k < layer.inputs) x = x > 0 ? sums[r][i] : 0.0F;
            }
          }
        }
      });
    }
  };
};
using StepKernel = StepOf<32>;
using FlatStepKernel = StepOf<64>;
using BroadStepKernel = StepOf<128>;
using WideStepKernel = StepOf<256>;

}  // namespace starling::cuda
