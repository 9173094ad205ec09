// Layers of few outputs (classes, as a rule), for which tiles of 64 columns would be mostly empty, and which are bound by
// the memory through which their inputs come. Forward, inputs come to shared memory by asynchronous copies, two pieces ahead
// of the products. Backward, a thread per input has a row of weights and the gradient of it in registers, so that inputs are
// read once for both gradients.
#pragma once

#include <type_traits>

#include "kernels/cuda/layer_kernels.hpp"

namespace starling::cuda {

inline constexpr std::uint32_t few_outputs = 16;

/// f(n), where 4 n outputs are as many as there are, or up to 3 more: n is known to the compiler.
template <class F>
STARLING_DEVICE void with_quarter(std::uint32_t outputs, const F& f) {
  switch ((outputs + 3) / 4) {
    case 1:
      return f(std::integral_constant<std::uint32_t, 1>{});
    case 2:
      return f(std::integral_constant<std::uint32_t, 2>{});
    case 3:
      return f(std::integral_constant<std::uint32_t, 3>{});
    default:
      return f(std::integral_constant<std::uint32_t, 4>{});
  }
}

/// x W + bias of as many rows as threads, by 4 rows x `own` outputs a thread.
template <std::uint32_t warps>
struct NarrowProduct {
  static constexpr unsigned threads = 32 * warps;
  static constexpr std::uint32_t rows = 32 * warps;
  static constexpr std::uint32_t depth = 32;  // inputs of a piece
  static constexpr std::uint32_t apart =
      depth + 4;  // lines that are read together begin at different banks

  struct Piece {
    float x[rows][apart], weights[few_outputs][apart];
  };
  struct Memory {
    Piece pieces[3];
  };

  /// done(m, o, y) for output o of the tile's row m, after all threads have read shared memory.
  template <std::uint32_t own, class Done>
  STARLING_DEVICE static void run(const Block& block, const LayerArguments& a, const StepTask& task,
                                  const RowNumbers& numbers, std::uint32_t row, const Done& done) {
    auto& memory = *reinterpret_cast<Memory*>(block.shared_memory);
    const std::uint32_t there = task.rows - row, outputs = a.layer.outputs;
    const bool are_quads = has_even_rows(a.input);
    const float* bias = task.x + a.layer.bias;
    Local<State<own>, threads> states;
    const auto fetch = [&](unsigned thread, std::uint32_t begin) {
      if (begin < a.layer.inputs) {
        Piece& to = memory.pieces[begin / depth % 3];
        fetch_rows(thread, states[thread].from, begin, a.layer.inputs, are_quads, to);
        fetch_weights(thread, task.x + a.layer.weights, begin, a.layer, to);
      }
      end_copies_ahead();  // of nothing, at the end
    };
    block.each([&](unsigned thread) {
      State<own>& state = states[thread];
      STARLING_UNROLL
      for (std::uint32_t n = 0; n < lines; ++n) {  // no row twice but the last one
        const std::uint32_t line = lesser(thread / quads + n * (threads / quads), there - 1);
        state.from[n] = row_of(a.input, numbers[row + line]) + thread % quads * 4;
      }
      fetch(thread, 0);
      fetch(thread, depth);
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < own; ++j) {
        const float start = bias[output_of(thread, j, outputs)];
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) state.sums[i][j] = start;
      }
      await_copies_but_last();
    });
    for (std::uint32_t begin = 0; begin < a.layer.inputs; begin += depth) {
      block.each([&](unsigned thread) {
        fetch(thread, begin + 2 * depth);
        add<own>(thread, memory.pieces[begin / depth % 3], lesser(depth, a.layer.inputs - begin),
                 outputs, states[thread].sums);
        await_copies_but_last();
      });
    }
    block.each([&](unsigned thread) {
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        STARLING_UNROLL
        for (std::uint32_t j = 0; j < own; ++j) {
          const std::uint32_t m = row_of_thread(thread, i), o = thread % 4 + 4 * j;
          if (m < there && o < outputs) done(m, o, states[thread].sums[i][j]);
        }
      }
    });
  }

 private:
  static constexpr std::uint32_t quads = depth / 4, lines = rows / (threads / quads);

  template <std::uint32_t own>
  struct State {
    const float* from[lines];
    float sums[4][own];
  };

  STARLING_DEVICE static std::uint32_t row_of_thread(unsigned thread, std::uint32_t i) {
    return thread / 32 * 32 + thread % 32 / 4 + 8 * i;
  }
  /// A thread that has fewer outputs computes its last one again.
  STARLING_DEVICE static std::uint32_t output_of(unsigned thread, std::uint32_t j,
                                                 std::uint32_t outputs) {
    return lesser(thread % 4 + 4 * j, outputs - 1);
  }

  STARLING_DEVICE static void fetch_rows(unsigned thread, const float* const (&from)[lines],
                                         std::uint32_t begin, std::uint32_t inputs, bool are_quads,
                                         Piece& to) {
    const std::uint32_t place = thread % quads * 4, first = thread / quads;
    if (are_quads && begin + place + 4 <= inputs) {
      STARLING_UNROLL
      for (std::uint32_t n = 0; n < lines; ++n)
        copy_quad_ahead(&to.x[first + n * (threads / quads)][place], from[n] + begin);
      return;
    }
    for (std::uint32_t i = 0; i < 4 && begin + place + i < inputs; ++i) {
      STARLING_UNROLL
      for (std::uint32_t n = 0; n < lines; ++n)
        copy_float_ahead(&to.x[first + n * (threads / quads)][place + i], from[n] + begin + i);
    }
  }

  /// Transposed.
  STARLING_DEVICE static void fetch_weights(unsigned thread, const float* weights,
                                            std::uint32_t begin, const LayerShape& layer,
                                            Piece& to) {
    constexpr std::uint32_t step = threads / few_outputs;
    const std::uint32_t o = thread % few_outputs, first = thread / few_outputs;
    if (o >= layer.outputs) return;
    const float* from = weights + std::uint64_t{begin + first} * layer.outputs + o;
    STARLING_UNROLL
    for (std::uint32_t k = 0; k < depth; k += step) {
      if (begin + first + k < layer.inputs)
        copy_float_ahead(&to.weights[o][first + k], from + k * layer.outputs);
    }
  }

  /// The terms of a piece. No term of zeros is added: it could turn -0 into 0.
  template <std::uint32_t own>
  STARLING_DEVICE static void add(unsigned thread, const Piece& piece, std::uint32_t inner,
                                  std::uint32_t outputs, float (&sums)[4][own]) {
    const float* x = &piece.x[row_of_thread(thread, 0)][0];
    const float* weights[own];
    STARLING_UNROLL
    for (std::uint32_t j = 0; j < own; ++j)
      weights[j] = &piece.weights[output_of(thread, j, outputs)][0];
    STARLING_UNROLL_BY(4)
    for (std::uint32_t k = 0; k < inner / 4 * 4; k += 4) {
      Quad left[4], right[own];
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i)
        left[i] = *reinterpret_cast<const Quad*>(x + 8 * i * apart + k);
      STARLING_UNROLL
      for (std::uint32_t j = 0; j < own; ++j)
        right[j] = *reinterpret_cast<const Quad*>(weights[j] + k);
      const auto add_terms = [&](float Quad::*part) {
        STARLING_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) {
          STARLING_UNROLL
          for (std::uint32_t j = 0; j < own; ++j)
            sums[i][j] = fmaf(left[i].*part, right[j].*part, sums[i][j]);
        }
      };
      add_terms(&Quad::x);
      add_terms(&Quad::y);
      add_terms(&Quad::z);
      add_terms(&Quad::w);
    }
    for (std::uint32_t k = inner / 4 * 4; k < inner; ++k) {
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        STARLING_UNROLL
        for (std::uint32_t j = 0; j < own; ++j)
          sums[i][j] = fmaf(x[8 * i * apart + k], weights[j][k], sums[i][j]);
      }
    }
  }
};

/// y = x W + bias, then ReLU unless it is the last layer.
template <std::uint32_t warps>
struct NarrowForwardOf {
  using Product = NarrowProduct<warps>;
  static constexpr unsigned threads = Product::threads;
  static constexpr unsigned resident = 12 / warps;
  static constexpr std::uint32_t shared_bytes = sizeof(typename Product::Memory);
  using Arguments = LayerArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.rows, Product::rows), 1};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const Tile tile = Tile::of(block, tiles(a), few_outputs, Product::rows);
    const StepTask task = a.tasks[tile.t];
    if (tile.row >= task.rows) return;
    const RowNumbers numbers = RowNumbers::of(a, tile.t, task);
    float* y = a.output.at + (std::uint64_t{tile.t} * a.rows + tile.row) * a.output.stride;
    with_quarter(a.layer.outputs, [&](auto quarter) {
      Product::template run<decltype(quarter)::value>(
          block, a, task, numbers, tile.row, [&](std::uint32_t m, std::uint32_t o, float sum) {
            y[std::uint64_t{m} * a.output.stride + o] = a.is_last == 0 && sum < 0 ? 0.0F : sum;
          });
    });
  }
};
using NarrowForwardKernel = NarrowForwardOf<2>;
using FlatNarrowForwardKernel = NarrowForwardOf<1>;  // for 32 rows and less

struct NarrowLossArguments {
  LayerArguments layer;
  Samples data;
  double* losses;        // (tasks)
  std::uint32_t* right;  // (tasks), for evaluations
};

/// The last layer and what LossKernel makes of its logits, where a block has all rows of a task.
template <std::uint32_t warps>
struct NarrowLossOf {
  using Product = NarrowProduct<warps>;
  static constexpr unsigned threads = Product::threads;
  static constexpr unsigned resident = 12 / warps;
  static constexpr std::uint32_t rows = Product::rows;
  struct Memory {
    typename Product::Memory product;
    double losses[rows];
    float logits[rows][few_outputs + 1];  // rows begin at different banks
    std::uint32_t right;
  };
  static constexpr std::uint32_t shared_bytes = sizeof(Memory);
  using Arguments = NarrowLossArguments;

  STARLING_DEVICE static Tiles tiles(const Arguments&) { return {1, 1}; }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const std::uint32_t t = block.index;
    const StepTask task = a.layer.tasks[t];
    auto& memory = *reinterpret_cast<Memory*>(block.shared_memory);
    Local<std::int32_t, threads> labels;
    block.each([&](unsigned thread) {
      if (thread < task.rows) labels[thread] = a.data.y[sample_of(task, thread)];
      if (thread == 0) memory.right = 0;
    });
    const RowNumbers numbers = RowNumbers::of(a.layer, t, task);
    with_quarter(a.layer.layer.outputs, [&](auto quarter) {
      Product::template run<decltype(quarter)::value>(
          block, a.layer, task, numbers, 0,
          [&](std::uint32_t m, std::uint32_t o, float sum) { memory.logits[m][o] = sum; });
    });
    block.each([&](unsigned thread) {
      if (thread < task.rows) score(a, t, task, thread, labels[thread], memory);
    });
    block.each([&](unsigned thread) {
      if (thread == 0) tell_losses(task, memory.losses, memory.right, &a.losses[t], &a.right[t]);
    });
  }

 private:
  STARLING_DEVICE static void score(const Arguments& a, std::uint32_t t, const StepTask& task,
                                    std::uint32_t row, std::int32_t label, Memory& memory) {
    const std::uint32_t classes = a.layer.layer.outputs;
    float* z = memory.logits[row];
    memory.losses[row] = score_row(task, z, classes, label, memory.right);
    if (task.samples == nullptr) return;
    const Activations& y = a.layer.output;
    float* out = y.at + (std::uint64_t{t} * a.layer.rows + row) * y.stride;
    for (std::uint32_t o = 0; o < classes; ++o) out[o] = z[o];
  }
};
using NarrowLossKernel = NarrowLossOf<2>;
using FlatNarrowLossKernel = NarrowLossOf<1>;  // for 32 rows and less

/// dx = dy W^T where x, the output of a ReLU, is positive, else 0, or everywhere (see is_free), unless nobody asks for it;
/// dW = x^T dy and dbias. Of 64 inputs a block.
struct NarrowGradientKernel {
  static constexpr unsigned threads = 64;
  static constexpr unsigned resident = 9;
  using Arguments = LayerArguments;
  static constexpr std::uint32_t rows = 64;  // that are in shared memory at a time
  struct Memory {
    float x[rows][threads];
    float dy[rows * few_outputs];          // rows of whole quads
    float weights[threads * few_outputs];  // as they lie in the model; then their gradient
  };
  static constexpr std::uint32_t shared_bytes = sizeof(Memory);

  STARLING_DEVICE static Tiles tiles(const Arguments& a) {
    return {pieces_of(a.layer.inputs, threads), 1};
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    with_quarter(a.layer.outputs,
                 [&](auto quarter) { run_with<decltype(quarter)::value>(block, a); });
  }

 private:
  template <std::uint32_t quads>
  struct State {
    float gradient[4 * quads], weights[4 * quads];
  };

  template <std::uint32_t quads>
  STARLING_DEVICE static void run_with(const Block& block, const Arguments& a) {
    constexpr std::uint32_t stride = 4 * quads;
    auto& memory = *reinterpret_cast<Memory*>(block.shared_memory);
    const Tile tile = Tile::of(block, tiles(a), few_outputs, threads);
    const StepTask task = a.tasks[tile.t];
    const std::uint32_t outputs = a.layer.outputs, input = tile.row;
    const std::uint32_t there = lesser(threads, a.layer.inputs - input);
    const std::uint64_t first = a.layer.weights + std::uint64_t{input} * outputs;
    const float* dy = a.output.at + std::uint64_t{tile.t} * a.rows * a.output.stride;
    float* dx = a.slope.at == nullptr
                    ? nullptr
                    : a.slope.at + std::uint64_t{tile.t} * a.rows * a.slope.stride + input;
    const RowNumbers numbers = RowNumbers::of(a, tile.t, task);
    Local<State<quads>, threads> states;
    Local<float, threads> bias;
    const bool is_x_even = has_even_rows(a.input);
    const auto fetch = [&](unsigned thread, std::uint32_t begin) {
      constexpr std::uint32_t in_row = threads / 4, step = threads / in_row;
      const std::uint32_t place = thread % in_row * 4;
      const std::uint32_t line = thread / in_row, here = lesser(rows, task.rows - begin);
      STARLING_UNROLL_BY(8)
      for (std::uint32_t b = line; b < here; b += step) {
        const float* from = row_of(a.input, numbers[begin + b]) + input + place;
        if (is_x_even && place + 4 <= there) {
          copy_quad_ahead(&memory.x[b][place], from);
        } else {
          for (std::uint32_t i = 0; i < 4 && place + i < there; ++i)
            copy_float_ahead(&memory.x[b][place + i], from + i);
        }
      }
      end_copies_ahead();
    };
    const auto read_slopes = [&](unsigned thread, std::uint32_t begin, float(&slopes)[stride]) {
      read(thread, slopes, [&](std::uint32_t e) {
        const std::uint32_t b = begin + e / stride, o = e % stride;
        return b < task.rows && o < outputs ? dy[std::uint64_t{b} * a.output.stride + o] : 0.0F;
      });
    };
    block.each([&](unsigned thread) {
      float weights[stride], slopes[stride];
      fetch(thread, 0);
      read(thread, weights,
           [&](std::uint32_t e) { return e < there * outputs ? task.x[first + e] : 0.0F; });
      read_slopes(thread, 0, slopes);
      write(thread, weights, memory.weights);
      write(thread, slopes, memory.dy);
      await_copies();
    });
    block.each([&](unsigned thread) {
      State<quads>& state = states[thread];
      bias[thread] = 0;
      STARLING_UNROLL
      for (std::uint32_t o = 0; o < stride; ++o) {
        state.gradient[o] = 0;
        // Of outputs that there are not, +0 times -0 is added, which changes nothing, not even -0.
        state.weights[o] =
            thread < there && o < outputs ? memory.weights[thread * outputs + o] : -0.0F;
      }
    });
    for (std::uint32_t begin = 0; begin < task.rows; begin += rows) {
      const std::uint32_t here = lesser(rows, task.rows - begin);
      if (begin > 0) {
        block.each([&](unsigned thread) {
          float slopes[stride];
          fetch(thread, begin);
          read_slopes(thread, begin, slopes);
          write(thread, slopes, memory.dy);
          await_copies();
        });
      }
      block.each([&](unsigned thread) {
        State<quads>& state = states[thread];
        if (thread < there) {
          float* to = dx == nullptr ? nullptr : dx + std::uint64_t{begin} * a.slope.stride + thread;
          STARLING_UNROLL_BY(8)
          for (std::uint32_t b = 0; b < here; ++b) {
            const float x = memory.x[b][thread];
            const float slope = add_row<quads>(memory.dy + b * stride, x, state);
            if (to != nullptr)
              to[std::uint64_t{b} * a.slope.stride] = a.is_free != 0 || x > 0 ? slope : 0.0F;
          }
        }
        if (input == 0 && thread < outputs) {
          for (std::uint32_t b = 0; b < here; ++b) bias[thread] += memory.dy[b * stride + thread];
        }
      });
    }
    block.each([&](unsigned thread) {
      STARLING_UNROLL
      for (std::uint32_t o = 0; o < stride; ++o) {
        if (thread < there && o < outputs)
          memory.weights[thread * outputs + o] = states[thread].gradient[o];
      }
      if (input == 0 && thread < outputs) store_gradient(task, a.layer.bias + thread, bias[thread]);
    });
    const bool are_quads = a.layer.weights % 4 == 0 && takes_quads(task);
    block.each([&](unsigned thread) {
      store<quads>(task, thread, first, there * outputs, are_quads, memory.weights);
    });
  }

  /// A thread's share of numbers that go to shared memory: all are read before one is written.
  template <std::uint32_t count, class From>
  STARLING_DEVICE static void read(unsigned thread, float (&numbers)[count], const From& from) {
    STARLING_UNROLL
    for (std::uint32_t n = 0; n < count; ++n) numbers[n] = from(thread + n * threads);
  }
  template <std::uint32_t count>
  STARLING_DEVICE static void write(unsigned thread, const float (&numbers)[count], float* to) {
    STARLING_UNROLL
    for (std::uint32_t n = 0; n < count; ++n) to[thread + n * threads] = numbers[n];
  }

  /// One row's terms of the gradient of the weights; answers with the gradient of the input.
  template <std::uint32_t quads>
  STARLING_DEVICE static float add_row(const float* dy, float x, State<quads>& state) {
    float slope = 0;
    STARLING_UNROLL
    for (std::uint32_t q = 0; q < quads; ++q) {
      const Quad four = *reinterpret_cast<const Quad*>(dy + 4 * q);
      const float numbers[4] = {four.x, four.y, four.z, four.w};
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        float& gradient = state.gradient[4 * q + i];
        gradient = fmaf(x, numbers[i], gradient);
        slope = fmaf(numbers[i], state.weights[4 * q + i], slope);
      }
    }
    return slope;
  }

  /// `count` entries that lie side by side from place `first` on.
  template <std::uint32_t quads>
  STARLING_DEVICE static void store(const StepTask& task, unsigned thread, std::uint64_t first,
                                    std::uint32_t count, bool are_quads, const float* from) {
    const auto place = [&](std::uint32_t n) { return thread + n * threads; };
    if (are_quads && count % 4 == 0) {
      Quad numbers[quads] = {};
      STARLING_UNROLL
      for (std::uint32_t n = 0; n < quads; ++n) {
        if (4 * place(n) < count) numbers[n] = *reinterpret_cast<const Quad*>(from + 4 * place(n));
      }
      store_gradients(
          task, numbers, [&](std::uint32_t n) { return first + 4 * place(n); },
          [&](std::uint32_t n) { return 4 * place(n) < count; });
      return;
    }
    float numbers[4 * quads] = {};
    STARLING_UNROLL
    for (std::uint32_t n = 0; n < 4 * quads; ++n) {
      if (place(n) < count) numbers[n] = from[place(n)];
    }
    store_gradients(
        task, numbers, [&](std::uint32_t n) { return first + place(n); },
        [&](std::uint32_t n) { return place(n) < count; });
  }
};

}  // namespace starling::cuda
