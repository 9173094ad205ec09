// What a transformer does besides its dense layers, on a device, for many models at once; kernels/dense/sequences.hpp and
// kernels/transformer_model.hpp define every number. The tokens of a task are the rows of its matrices, which lie without
// gaps: row r of task t is row t * rows + r. One file, for each kernel is short and reads what its neighbor wrote.
#pragma once

#include "kernels/cuda/image_kernels.hpp"
#include "kernels/cuda/lanes.hpp"
#include "kernels/cuda/layer_kernels.hpp"
#include "kernels/dense/sequences.hpp"

namespace starling::cuda {

/// h = token[w] + position[p] for every row.
struct EmbedKernel {
  static constexpr unsigned threads = image_threads;
  struct Arguments {
    const StepTask* tasks;
    std::uint32_t task_count, rows, width;
    std::uint32_t position_embedding;  // where it is in the model; that of tokens comes first
    const std::int32_t* tokens;        // (tasks, rows)
    const std::int32_t* positions;
    float* out;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, std::uint64_t{a.task_count} * a.rows * a.width, [&](std::uint64_t i) {
      const std::uint64_t row = i / a.width, o = i % a.width;
      const StepTask& task = a.tasks[row / a.rows];
      if (row % a.rows >= task.rows) return;
      a.out[i] =
          task.x[static_cast<std::uint64_t>(a.tokens[row]) * a.width + o] +
          task.x[a.position_embedding + static_cast<std::uint64_t>(a.positions[row]) * a.width + o];
    });
  }
};

/// Gradients of both embeddings: rows add up in order. A block per task and 128 columns.
struct EmbeddingGradientKernel {
  static constexpr unsigned threads = 128;
  struct Arguments {
    const StepTask* tasks;
    std::uint32_t rows, width;
    std::uint32_t vocabulary, context;
    const std::int32_t* tokens;
    const std::int32_t* positions;
    const float* slope;
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const std::uint32_t pieces = pieces_of(a.width, threads), t = block.index / pieces;
    const StepTask task = a.tasks[t];
    block.each([&](unsigned thread) {
      const std::uint32_t o = block.index % pieces * threads + thread;
      if (o >= a.width) return;
      float* token = task.gradient + o;
      float* position = token + std::uint64_t{a.vocabulary} * a.width;
      for (std::uint32_t e = 0; e < a.vocabulary + a.context; ++e)
        token[std::uint64_t{e} * a.width] = 0.0F;
      float zeros = 0;
      const auto add = [&](float& sum, float slope) {
        sum += slope;
        add_zero_times(zeros, sum);
      };
      for (std::uint32_t r = 0; r < task.rows; ++r) {
        const std::uint64_t row = std::uint64_t{t} * a.rows + r;
        const float slope = a.slope[row * a.width + o];
        add(token[static_cast<std::uint64_t>(a.tokens[row]) * a.width], slope);
        add(position[static_cast<std::uint64_t>(a.positions[row]) * a.width], slope);
      }
      note_strange(task, zeros);
    });
  }
};

// --- Layer normalization ---------------------------------------------------------------------------

inline constexpr std::uint32_t norm_rows = 8;  // of a block, a thread per lane

struct LayerNormArguments {
  const StepTask* tasks;
  std::uint32_t rows, columns;
  std::uint32_t gain;  // where it is in the model, the bias behind it
  const float* x;
  float* y;        // forward: written
  float* moments;  // (tasks, rows, 2): mean and scale; forward: written
  const float* dy;
  float* dx;  // backward: added to
};

struct RowLanes {
  float a[norm_rows][lane_count], b[norm_rows][lane_count];
};

/// Which row and lane of which task a thread has.
struct RowThread {
  std::uint32_t t, local, lane;
  std::uint64_t row;  // among all
  bool is_used;

  STARLING_DEVICE static RowThread of(const LayerNormArguments& a, unsigned block,
                                      unsigned thread) {
    const std::uint32_t pieces = pieces_of(a.rows, norm_rows), t = block / pieces;
    const std::uint32_t local = thread / lane_count;
    const std::uint32_t row = block % pieces * norm_rows + local;
    return {t, local, thread % lane_count, std::uint64_t{t} * a.rows + row, row < a.tasks[t].rows};
  }
};

/// f(me) by every thread of a block that has a row.
template <class F>
STARLING_DEVICE void each_lane(const Block& block, const LayerNormArguments& a, const F& f) {
  block.each([&](unsigned thread) {
    const RowThread me = RowThread::of(a, block.index, thread);
    if (me.is_used) f(me);
  });
}

/// y = (x - mean) scale gain + bias of every row.
struct LayerNormKernel {
  static constexpr unsigned threads = norm_rows * lane_count;
  static constexpr std::uint32_t shared_bytes = sizeof(RowLanes);
  using Arguments = LayerNormArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    auto& lanes = *reinterpret_cast<RowLanes*>(block.shared_memory);
    const float share = 1.0F / static_cast<float>(a.columns);
    each_lane(block, a, [&](const RowThread& me) {
      const float* x = a.x + me.row * a.columns;
      float sum = 0;
      for (std::uint32_t o = me.lane; o < a.columns; o += lane_count) sum += x[o];
      lanes.a[me.local][me.lane] = sum;
    });
    each_lane(block, a, [&](const RowThread& me) {
      const float* x = a.x + me.row * a.columns;
      const float mean = fold_lanes(lanes.a[me.local]) * share;
      float sum = 0;
      for (std::uint32_t o = me.lane; o < a.columns; o += lane_count) {
        const float d = x[o] - mean;
        sum = fmaf(d, d, sum);
      }
      lanes.b[me.local][me.lane] = sum;
    });
    each_lane(block, a, [&](const RowThread& me) {
      const float* x = a.x + me.row * a.columns;
      const float* gain = a.tasks[me.t].x + a.gain;
      const float mean = fold_lanes(lanes.a[me.local]) * share;
      const float variance = fold_lanes(lanes.b[me.local]) * share;
      const float scale = 1.0F / sqrt(variance + dense::norm_epsilon);
      for (std::uint32_t o = me.lane; o < a.columns; o += lane_count)
        a.y[me.row * a.columns + o] = fmaf((x[o] - mean) * scale, gain[o], gain[a.columns + o]);
      if (me.lane == 0) {
        a.moments[2 * me.row] = mean;
        a.moments[2 * me.row + 1] = scale;
      }
    });
  }
};

/// What the gradient of a row reads.
struct NormedRow {
  const float *x, *dy, *gain;
  float mean, scale;

  STARLING_DEVICE static NormedRow of(const LayerNormArguments& a, const RowThread& me) {
    return {a.x + me.row * a.columns, a.dy + me.row * a.columns, a.tasks[me.t].x + a.gain,
            a.moments[2 * me.row], a.moments[2 * me.row + 1]};
  }
};

/// dx += the gradient of the input.
struct LayerNormGradientKernel {
  static constexpr unsigned threads = norm_rows * lane_count;
  static constexpr std::uint32_t shared_bytes = sizeof(RowLanes);
  using Arguments = LayerNormArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    auto& lanes = *reinterpret_cast<RowLanes*>(block.shared_memory);
    const float share = 1.0F / static_cast<float>(a.columns);
    each_lane(block, a, [&](const RowThread& me) {
      const auto [x, dy, gain, mean, scale] = NormedRow::of(a, me);
      float sum = 0, along = 0;
      for (std::uint32_t o = me.lane; o < a.columns; o += lane_count) {
        const float n = (x[o] - mean) * scale, scaled = dy[o] * gain[o];
        sum += scaled;
        along = fmaf(scaled, n, along);
      }
      lanes.a[me.local][me.lane] = sum;
      lanes.b[me.local][me.lane] = along;
    });
    each_lane(block, a, [&](const RowThread& me) {
      const auto [x, dy, gain, mean, scale] = NormedRow::of(a, me);
      const float level = fold_lanes(lanes.a[me.local]) * share;
      const float slope = fold_lanes(lanes.b[me.local]) * share;
      float* dx = a.dx + me.row * a.columns;
      for (std::uint32_t o = me.lane; o < a.columns; o += lane_count) {
        const float n = (x[o] - mean) * scale;
        dx[o] += scale * ((dy[o] * gain[o] - level) - n * slope);
      }
    });
  }
};

/// Gradients of gain and bias: rows in order. A block per task and 128 columns.
struct GainGradientKernel {
  static constexpr unsigned threads = 128;
  using Arguments = LayerNormArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const std::uint32_t pieces = pieces_of(a.columns, threads), t = block.index / pieces;
    const StepTask task = a.tasks[t];
    block.each([&](unsigned thread) {
      const std::uint32_t o = block.index % pieces * threads + thread;
      if (o >= a.columns) return;
      float gain = 0, bias = 0;
      for (std::uint32_t r = 0; r < task.rows; ++r) {
        const std::uint64_t row = std::uint64_t{t} * a.rows + r;
        const float slope = a.dy[row * a.columns + o];
        const float n = (a.x[row * a.columns + o] - a.moments[2 * row]) * a.moments[2 * row + 1];
        gain = fmaf(slope, n, gain);
        bias += slope;
      }
      store_gradient(task, a.gain + o, gain);
      store_gradient(task, a.gain + a.columns + o, bias);
    });
  }
};

// --- GELU ------------------------------------------------------------------------------------------

struct GeluArguments {
  std::uint64_t count;
  const float* x;
  float* y;  // forward: written; backward: the gradient of it, which becomes that of x
};

/// 1 / (1 + exp z), the gate that GELU multiplies x by; z as in kernels/dense/sequences.hpp.
STARLING_DEVICE float gelu_gate(float x) {
  const float z = -dense::gelu_slope * fmaf(dense::gelu_cubic, x * (x * x), x);
  return 1.0F / (1.0F + exponential_of(z));
}

struct GeluKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = GeluArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.count, [&](std::uint64_t i) { a.y[i] = a.x[i] * gelu_gate(a.x[i]); });
  }
};

struct GeluGradientKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = GeluArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.count, [&](std::uint64_t i) {
      const float x = a.x[i], gate = gelu_gate(x);
      const float slope = dense::gelu_slope * fmaf(3 * dense::gelu_cubic, x * x, 1.0F);
      a.y[i] *= fmaf((x * gate) * (1.0F - gate), slope, gate);
    });
  }
};

// --- Causal attention ------------------------------------------------------------------------------

/// One sequence.
struct AttentionJob {
  std::uint64_t first;  // its first row, among all
  std::uint32_t length;
  std::uint64_t scratch;  // where its scratch memory begins: (heads, 2, length, length)
};

struct AttentionArguments {
  const AttentionJob* jobs;
  std::uint32_t heads, head_width;
  float scale;
  const float* qkv;  // (rows, 3, heads, head_width)
  float* attended;   // (rows, heads, head_width): written, or
  const float* dy;   // its gradient, read
  float* qkv_slope;  // backward: written
  float* scratch;
};

/// One head of one sequence, as its block sees it.
struct AttentionHead {
  static constexpr std::uint32_t positions = dense::attention_block;
  std::uint32_t length, width, stride, y_stride;
  float scale;
  const float *q, *k, *v;
  std::uint64_t y, slope;   // where this head begins in attended, and in qkv_slope
  float *weights, *others;  // (length, length)

  STARLING_DEVICE static AttentionHead of(const AttentionArguments& a, unsigned block) {
    const AttentionJob job = a.jobs[block / a.heads];
    const std::uint32_t head = block % a.heads, all = a.heads * a.head_width;
    const std::uint64_t at = job.first * 3 * all + head * a.head_width;
    const std::uint64_t square = std::uint64_t{job.length} * job.length;
    float* scratch = a.scratch + job.scratch + 2 * square * head;
    return {job.length,
            a.head_width,
            3 * all,
            all,
            a.scale,
            a.qkv + at,
            a.qkv + at + all,
            a.qkv + at + 2 * all,
            job.first * all + head * a.head_width,
            at,
            scratch,
            scratch + square};
  }

  STARLING_DEVICE std::uint32_t block_begin(std::uint32_t i) const {
    return i / positions * positions;
  }
  STARLING_DEVICE std::uint32_t block_end(std::uint32_t i) const {
    return lesser(length, block_begin(i) + positions);
  }
  /// f(i, c) for every position and number of a head, dealt to the threads.
  template <class F>
  STARLING_DEVICE void each(unsigned thread, unsigned threads, const F& f) const {
    for (std::uint32_t at = thread; at < length * width; at += threads) f(at / width, at % width);
  }

  /// p_ij of all queries.
  STARLING_DEVICE void find_weights(const Block& block, unsigned threads) const {
    block.each([&](unsigned thread) {
      for (std::uint64_t at = thread; at < std::uint64_t{length} * length; at += threads) {
        const auto i = static_cast<std::uint32_t>(at / length);
        const auto j = static_cast<std::uint32_t>(at % length);
        if (j > i) {
          if (j < block_end(i)) weights[at] = 0.0F;
          continue;
        }
        float sum = 0;
        for (std::uint32_t c = 0; c < width; ++c)
          sum = fmaf(q[std::uint64_t{i} * stride + c], k[std::uint64_t{j} * stride + c], sum);
        weights[at] = sum * scale;
      }
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < length; i += threads) {
        float* row = weights + std::uint64_t{i} * length;
        float highest = row[0];
        for (std::uint32_t j = 1; j <= i; ++j) highest = row[j] > highest ? row[j] : highest;
        float lanes[lane_count] = {};
        for (std::uint32_t j = 0; j <= i; ++j) {
          row[j] = exponential_of(row[j] - highest);
          lanes[j % lane_count] += row[j];
        }
        const float share = 1.0F / fold_lanes(lanes);
        for (std::uint32_t j = 0; j <= i; ++j) row[j] *= share;
      }
    });
  }

  /// Of key j: sum of p_ij values_i over the queries from j's block on.
  STARLING_DEVICE float sum_over_queries(std::uint32_t j, const float* values,
                                         std::uint32_t values_stride) const {
    float sum = 0;
    for (std::uint32_t i = block_begin(j); i < length; ++i)
      sum = fmaf(weights[std::uint64_t{i} * length + j], values[std::uint64_t{i} * values_stride],
                 sum);
    return sum;
  }
  /// Of query i: sum of p_ij values_j over the keys up to the end of i's block.
  STARLING_DEVICE float sum_over_keys(std::uint32_t i, const float* values) const {
    float sum = 0;
    for (std::uint32_t j = 0; j < block_end(i); ++j)
      sum = fmaf(weights[std::uint64_t{i} * length + j], values[std::uint64_t{j} * stride], sum);
    return sum;
  }
};

/// A block per sequence and head.
struct AttentionKernel {
  static constexpr unsigned threads = 256;
  using Arguments = AttentionArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const AttentionHead head = AttentionHead::of(a, block.index);
    head.find_weights(block, threads);
    block.each([&](unsigned thread) {
      head.each(thread, threads, [&](std::uint32_t i, std::uint32_t c) {
        a.attended[head.y + std::uint64_t{i} * head.y_stride + c] =
            head.sum_over_keys(i, head.v + c);
      });
    });
  }
};

struct AttentionGradientKernel {
  static constexpr unsigned threads = 256;
  using Arguments = AttentionArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const AttentionHead head = AttentionHead::of(a, block.index);
    const std::uint32_t all = a.heads * a.head_width;
    const float* dy = a.dy + head.y;
    float* dq = a.qkv_slope + head.slope;
    head.find_weights(block, threads);
    block.each([&](unsigned thread) {  // of values
      head.each(thread, threads, [&](std::uint32_t j, std::uint32_t c) {
        dq[std::uint64_t{j} * head.stride + 2 * all + c] =
            head.sum_over_queries(j, dy + c, head.y_stride);
      });
      for (std::uint64_t at = thread; at < std::uint64_t{head.length} * head.length;
           at += threads) {
        const std::uint64_t i = at / head.length, j = at % head.length;
        if (j > i) continue;
        float sum = 0;
        for (std::uint32_t c = 0; c < head.width; ++c)
          sum = fmaf(dy[i * head.y_stride + c], head.v[j * head.stride + c], sum);
        head.others[at] = sum;
      }
    });
    block.each([&](unsigned thread) {  // of weights, in their place
      for (std::uint32_t i = thread; i < head.length; i += threads) {
        float* row = head.weights + std::uint64_t{i} * head.length;
        const float* along = head.others + std::uint64_t{i} * head.length;
        float lanes[lane_count] = {};
        for (std::uint32_t j = 0; j <= i; ++j)
          lanes[j % lane_count] = fmaf(row[j], along[j], lanes[j % lane_count]);
        const float level = fold_lanes(lanes);
        for (std::uint32_t j = 0; j <= i; ++j) row[j] = (row[j] * (along[j] - level)) * head.scale;
      }
    });
    block.each([&](unsigned thread) {  // of queries and keys
      head.each(thread, threads, [&](std::uint32_t i, std::uint32_t c) {
        dq[std::uint64_t{i} * head.stride + c] = head.sum_over_keys(i, head.k + c);
        dq[std::uint64_t{i} * head.stride + all + c] =
            head.sum_over_queries(i, head.q + c, head.stride);
      });
    });
  }
};

// --- The mean over a sequence ----------------------------------------------------------------------

struct PoolRowsArguments {
  std::uint32_t task_count, rows, sequences, width;  // room of a task
  const std::uint32_t* begin;                        // (tasks, sequences + 1) rows of the task
  const std::uint32_t* sequence_of;                  // (tasks, rows)
  const float* from;
  float* to;

  STARLING_DEVICE float share(std::uint64_t t, std::uint64_t s) const {
    const std::uint32_t* at = begin + t * (sequences + 1) + s;
    return 1.0F / static_cast<float>(at[1] - at[0]);
  }
};

/// From (tasks, rows, width) to (tasks, sequences, width).
struct PoolRowsKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = PoolRowsArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, std::uint64_t{a.task_count} * a.sequences * a.width, [&](std::uint64_t i) {
      const std::uint64_t t = i / a.width / a.sequences, s = i / a.width % a.sequences;
      const std::uint32_t* at = a.begin + t * (a.sequences + 1) + s;
      const float share = a.share(t, s);
      float sum = 0;
      for (std::uint32_t r = at[0]; r < at[1]; ++r)
        sum += a.from[(t * a.rows + r) * a.width + i % a.width] * share;
      a.to[i] = sum;
    });
  }
};

/// The way back.
struct SpreadRowsKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = PoolRowsArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, std::uint64_t{a.task_count} * a.rows * a.width, [&](std::uint64_t i) {
      const std::uint64_t row = i / a.width, t = row / a.rows, s = a.sequence_of[row];
      a.to[i] = a.from[(t * a.sequences + s) * a.width + i % a.width] * a.share(t, s);
    });
  }
};

}  // namespace starling::cuda
