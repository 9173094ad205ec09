// Which samples a mini-batch has, drawn on a device: BatchSampler of kernels/partition.hpp, number for number. On the host
// the draws of a model as small as a block takes cost more than its gradient does here.
#pragma once

#include "kernels/cuda/philox.hpp"

namespace starling::cuda {

struct DrawTask {
  std::int64_t draw;
  std::uint32_t node;
  std::uint32_t unused;
};

/// BatchSampler in device memory.
struct Parts {
  const std::uint32_t* begin;   // (nodes + 1), where each node's samples start in
  const std::int32_t* samples;  // all parts, one after the other
  std::uint32_t key[2];         // of the random streams
  std::uint32_t with_replacement;
};

/// Random, of a node and a step: words one after the other.
struct DrawStream {
  std::uint32_t key[2];
  Words counter, block;
  std::uint32_t used;

  STARLING_DEVICE static DrawStream of(const Parts& parts, std::uint32_t node, std::int64_t step) {
    const auto steps = static_cast<std::uint64_t>(step);
    return {{parts.key[0], parts.key[1]},
            {{0, node, static_cast<std::uint32_t>(steps), static_cast<std::uint32_t>(steps >> 32)}},
            {},
            4};
  }
  /// Two words as one; the first is the upper half. Nobody asks for single words, so a block has two.
  STARLING_DEVICE std::uint64_t two() {
    if (used == 4) {
      block = philox(counter, key[0], key[1]);
      if (++counter.word[0] == 0) ++key[0];
      used = 0;
    }
    const bool is_second = used == 2;
    used += 2;
    return std::uint64_t{is_second ? block.word[2] : block.word[0]} << 32 |
           (is_second ? block.word[3] : block.word[1]);
  }
  /// Random::below, bound > 0.
  STARLING_DEVICE std::uint32_t below(std::uint32_t bound) {
    const std::uint64_t surplus_below = bound;
    for (;;) {
      const std::uint64_t drawn = two(), low = drawn * bound;
      if (low >= surplus_below || low >= (0 - surplus_below) % surplus_below)
        return scaled(drawn, bound);
    }
  }
  /// drawn * bound / 2^64
  STARLING_DEVICE static std::uint32_t scaled(std::uint64_t drawn, std::uint32_t bound) {
    const std::uint64_t carried = (drawn & 0xFFFF'FFFFU) * bound >> 32;
    return static_cast<std::uint32_t>(((drawn >> 32) * bound + carried) >> 32);
  }
};

/// splitmix64: its next number.
STARLING_DEVICE std::uint64_t next_mixed(std::uint64_t& state) {
  std::uint64_t x = state += 0x9e37'79b9'7f4a'7c15U;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9U;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebU;
  return x ^ (x >> 31);
}

/// The random permutation of an epoch, of few samples, as a list.
inline constexpr std::uint32_t few_samples = 64;
STARLING_DEVICE void shuffle(std::uint64_t state, std::uint32_t size, std::uint8_t* order) {
  for (std::uint32_t i = 0; i < size; ++i) {
    const auto j = static_cast<std::uint32_t>((next_mixed(state) >> 32) * (i + 1) >> 32);
    order[i] = order[j];
    order[j] = static_cast<std::uint8_t>(i);
  }
}

/// Of more samples, as a function.
struct Scatter {
  static constexpr unsigned rounds = 6;
  std::uint32_t size, mask, shift;
  std::uint32_t factor[rounds], addend[rounds];

  STARLING_DEVICE Scatter(std::uint64_t state, std::uint32_t samples) : size(samples) {
    std::uint32_t width = 0;
    while ((size - 1) >> width != 0) ++width;
    mask = static_cast<std::uint32_t>((std::uint64_t{1} << width) - 1);
    shift = (width + 1) / 2;
    STARLING_UNROLL
    for (unsigned r = 0; r < rounds; ++r) {
      const std::uint64_t drawn = next_mixed(state);
      factor[r] = static_cast<std::uint32_t>(drawn) | 1;
      addend[r] = static_cast<std::uint32_t>(drawn >> 32);
    }
  }

  STARLING_DEVICE std::uint32_t operator()(std::uint32_t position) const {
    do {
      STARLING_UNROLL
      for (unsigned r = 0; r < rounds; ++r) {
        position = (position * factor[r] + addend[r]) & mask;
        position ^= position >> shift;
      }
    } while (position >= size);
    return position;
  }
};

/// The samples of one mini-batch, drawn by a block, each thread some of them. In shared memory `scratch` has
/// rows + 2 * few_samples bytes, and `surplus` is 0.
template <unsigned threads>
STARLING_DEVICE void draw_samples(const Block& block, const Parts& parts, std::uint32_t node,
                                  std::int64_t draw, std::uint32_t rows, std::int32_t* samples,
                                  std::uint8_t* scratch, std::uint32_t& surplus) {
  const std::uint32_t begin = parts.begin[node];
  const std::uint32_t size = parts.begin[node + 1] - begin;
  const std::int32_t* held = parts.samples + begin;
  if (parts.with_replacement != 0) {
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < rows; i += threads) {
        DrawStream stream = DrawStream::of(parts, node, draw);
        stream.counter.word[0] = i / 2;
        std::uint64_t drawn = stream.two();
        if (i % 2 != 0) drawn = stream.two();
        if (drawn * size < size) add_atomically(surplus, 1);  // perhaps to be drawn again
        samples[i] = held[DrawStream::scaled(drawn, size)];
      }
    });
    if (surplus != 0) {
      block.each([&](unsigned thread) {
        if (thread != 0) return;
        DrawStream stream = DrawStream::of(parts, node, draw);
        for (std::uint32_t i = 0; i < rows; ++i) samples[i] = held[stream.below(size)];
      });
    }
    return;
  }
  const std::int64_t epoch = draw * rows / size;
  const auto position = static_cast<std::uint32_t>(draw * rows - epoch * size);
  const auto state_of = [&](std::uint32_t e) {
    return DrawStream::of(parts, node, epoch + e).two();
  };
  if (size <= few_samples) {
    const std::uint32_t epochs = (position + rows - 1) / size + 1;
    block.each([&](unsigned thread) {
      for (std::uint32_t e = thread; e < epochs; e += threads)
        shuffle(state_of(e), size, scratch + e * size);
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < rows; i += threads) {
        samples[i] = held[scratch[position + i]];
      }
    });
  } else {
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < rows; i += threads) {
        const std::uint32_t e = (position + i) / size;
        samples[i] = held[Scatter(state_of(e), size)(position + i - e * size)];
      }
    });
  }
}

/// indices[t][..] = the samples of task t. A thread per task: a draw may take more words than another.
struct DrawKernel {
  static constexpr unsigned threads = 32;
  struct Arguments {
    const DrawTask* tasks;
    Parts parts;
    std::uint32_t task_count, rows;
    std::int32_t* indices;  // (tasks, rows)
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    block.each([&](unsigned thread) {
      const std::uint64_t t = std::uint64_t{block.index} * threads + thread;
      if (t < a.task_count) draw(a, a.tasks[t], a.indices + t * a.rows);
    });
  }

 private:
  /// out[i] = held[next()] for i = 0, 1, ..; the loads of several do not wait for each other.
  template <class Next>
  STARLING_DEVICE static void write(std::int32_t* out, std::uint32_t rows, const std::int32_t* held,
                                    const Next& next) {
    constexpr std::uint32_t together = 8;
    for (std::uint32_t begin = 0; begin < rows; begin += together) {
      const std::uint32_t here = lesser(together, rows - begin);
      std::int32_t values[together];
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < together; ++i) values[i] = i < here ? held[next()] : 0;
      STARLING_UNROLL
      for (std::uint32_t i = 0; i < together; ++i) {
        if (i < here) out[begin + i] = values[i];
      }
    }
  }

  struct List {
    std::uint8_t order[few_samples];
    STARLING_DEVICE List(std::uint64_t state, std::uint32_t size) { shuffle(state, size, order); }
    STARLING_DEVICE std::uint32_t operator()(std::uint32_t position) const {
      return order[position];
    }
  };

  STARLING_DEVICE static void draw(const Arguments& a, const DrawTask& task, std::int32_t* out) {
    const std::uint32_t begin = a.parts.begin[task.node];
    const std::uint32_t size = a.parts.begin[task.node + 1] - begin;
    const std::int32_t* held = a.parts.samples + begin;
    if (a.parts.with_replacement != 0) {
      DrawStream stream = DrawStream::of(a.parts, task.node, task.draw);
      return write(out, a.rows, held, [&] { return stream.below(size); });
    }
    if (size == 1) return write(out, a.rows, held, [] { return 0U; });
    std::int64_t epoch = task.draw * a.rows / size;
    auto position = static_cast<std::uint32_t>(task.draw * a.rows % size);
    const auto in_order = [&](const auto& order_of) {
      auto order = order_of(DrawStream::of(a.parts, task.node, epoch).two());
      write(out, a.rows, held, [&] {
        if (position == size) {
          order = order_of(DrawStream::of(a.parts, task.node, ++epoch).two());
          position = 0;
        }
        return order(position++);
      });
    };
    if (size <= few_samples) {
      in_order([&](std::uint64_t state) { return List(state, size); });
    } else {
      in_order([&](std::uint64_t state) { return Scatter(state, size); });
    }
  }
};

}  // namespace starling::cuda
