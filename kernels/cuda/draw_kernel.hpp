// Which samples a mini-batch has, drawn on a device: BatchSampler of kernels/data/partition.hpp, number for number. On the host
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

/// Random, of a node and a step.
struct DrawStream {
  std::uint32_t key[2], node;
  std::uint64_t step;

  STARLING_DEVICE static DrawStream of(const Parts& parts, std::uint32_t node, std::int64_t step) {
    return {{parts.key[0], parts.key[1]}, node, static_cast<std::uint64_t>(step)};
  }
  /// The i-th two words as one; the first is the upper half.
  STARLING_DEVICE std::uint64_t two(std::uint64_t i) const {
    const std::uint64_t at = i / 2;
    const Words block =
        philox({{static_cast<std::uint32_t>(at), node, static_cast<std::uint32_t>(step),
                 static_cast<std::uint32_t>(step >> 32)}},
               key[0] + static_cast<std::uint32_t>(at >> 32), key[1]);
    const bool is_second = i % 2 == 1;
    return std::uint64_t{is_second ? block.word[2] : block.word[0]} << 32 |
           (is_second ? block.word[3] : block.word[1]);
  }
  struct Drawn {
    std::uint32_t value;
    bool is_fair;
  };
  /// What Random::below makes of the i-th two words, bound > 0; unless it is fair, they are left out.
  STARLING_DEVICE Drawn below(std::uint32_t bound, std::uint64_t i) const {
    const std::uint64_t surplus_below = bound;
    const std::uint64_t drawn = two(i), low = drawn * bound;
    const std::uint64_t carried = (drawn & 0xFFFF'FFFFU) * bound >> 32;
    return {static_cast<std::uint32_t>(((drawn >> 32) * bound + carried) >> 32),
            low >= surplus_below || low >= (0 - surplus_below) % surplus_below};
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
struct Permutation {
  static constexpr unsigned rounds = 6;
  std::uint32_t size, mask, shift;
  std::uint32_t factor[rounds], addend[rounds];

  STARLING_DEVICE Permutation(std::uint64_t state, std::uint32_t samples) : size(samples) {
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

/// The samples of one mini-batch of a node, in their order.
struct Draws {
  struct Drawn {
    std::int32_t sample;
    bool is_fair;
  };
  Parts parts;
  std::uint32_t node;
  std::int64_t draw;
  const std::int32_t* samples;  // the node's
  std::uint32_t size;
  // Without replacement, where it begins:
  std::int64_t epoch;
  std::uint32_t position;

  STARLING_DEVICE static Draws of(const Parts& parts, std::uint32_t node, std::int64_t draw,
                                  std::uint32_t rows) {
    const std::uint32_t begin = parts.begin[node], size = parts.begin[node + 1] - begin;
    const std::int64_t epoch = parts.with_replacement != 0 ? 0 : draw * rows / size;
    const auto position = static_cast<std::uint32_t>(draw * rows - epoch * size);
    return {parts, node, draw, parts.samples + begin, size, epoch, position};
  }

  /// Whether permutations are lists, so that at() does not know the samples.
  STARLING_DEVICE bool are_listed() const {
    return parts.with_replacement == 0 && size <= few_samples;
  }
  /// The permutation of the e-th epoch from its first one on begins here.
  STARLING_DEVICE std::uint64_t state_of(std::uint32_t e) const {
    return DrawStream::of(parts, node, epoch + e).two(0);
  }
  /// Without replacement, where the i-th sample is.
  struct Place {
    std::uint32_t epoch, at;  // from its first one on; in the permutation
  };
  STARLING_DEVICE Place place_of(std::uint32_t i) const {
    const std::uint32_t place = position + i, e = place / size;
    return {e, place - e * size};
  }
  /// The i-th sample that it would have if all before it were fair.
  STARLING_DEVICE Drawn at(std::uint64_t i) const {
    if (parts.with_replacement != 0) {
      const auto drawn = DrawStream::of(parts, node, draw).below(size, i);
      return {samples[drawn.value], drawn.is_fair};
    }
    const Place place = place_of(static_cast<std::uint32_t>(i));
    return {samples[Permutation(state_of(place.epoch), size)(place.at)], true};
  }
  /// Once in some 2^40 draws with replacement one is not fair, and moves those after it: put(row, sample) for all, one by one.
  template <class Put>
  STARLING_DEVICE void draw_again(std::uint32_t rows, const Put& put) const {
    std::uint32_t row = 0;
    for (std::uint64_t i = 0; row < rows; ++i) {
      const Drawn drawn = at(i);
      if (drawn.is_fair) put(row++, drawn.sample);
    }
  }
};

/// The samples of one mini-batch, drawn by a block, each thread some of them. In shared memory `scratch` has
/// 4 * rows + 3 * few_samples bytes, and `unfair` is 0.
template <unsigned threads>
STARLING_DEVICE void draw_samples(const Block& block, const Parts& parts, std::uint32_t node,
                                  std::int64_t draw, std::uint32_t rows, std::int32_t* samples,
                                  std::uint8_t* scratch, std::uint32_t& unfair) {
  const Draws draws = Draws::of(parts, node, draw, rows);
  if (draws.are_listed()) {
    const std::uint32_t size = draws.size, epochs = draws.place_of(rows - 1).epoch + 1;
    const std::uint32_t apart = (size + 3) / 4 * 4;  // whole words: no two threads write to one
    block.each([&](unsigned thread) {
      for (std::uint32_t e = thread; e < epochs; e += threads)
        shuffle(draws.state_of(e), size, scratch + e * apart);
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < rows; i += threads) {
        const Draws::Place place = draws.place_of(i);
        samples[i] = draws.samples[scratch[place.epoch * apart + place.at]];
      }
    });
    return;
  }
  block.each([&](unsigned thread) {
    for (std::uint32_t i = thread; i < rows; i += threads) {
      const auto drawn = draws.at(i);
      if (!drawn.is_fair) add_atomically(unfair, 1);
      samples[i] = drawn.sample;
    }
  });
  if (unfair != 0) {
    block.each([&](unsigned thread) {
      if (thread != 0) return;
      draws.draw_again(rows,
                       [&](std::uint32_t row, std::int32_t sample) { samples[row] = sample; });
    });
  }
}

/// indices[t][..] = the samples of task t. A thread per sample, of whole tasks.
struct DrawKernel {
  static constexpr unsigned threads = 128;
  static constexpr std::uint32_t shared_bytes = sizeof(std::uint32_t);
  struct Arguments {
    const DrawTask* tasks;
    Parts parts;
    std::uint32_t task_count, rows;
    std::int32_t* indices;  // (tasks, rows)
  };

  /// How many tasks a block draws for.
  STARLING_DEVICE static std::uint32_t tasks_together(std::uint32_t rows) {
    return rows < threads ? threads / rows : 1;
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const std::uint32_t together = tasks_together(a.rows), first = block.index * together;
    const std::uint32_t tasks = lesser(together, a.task_count - first);
    auto& unfair = *reinterpret_cast<std::uint32_t*>(block.shared_memory);
    block.each([&](unsigned thread) {
      if (thread == 0) unfair = 0;
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t i = thread; i < tasks * a.rows; i += threads) {
        const std::uint32_t t = first + i / a.rows, row = i % a.rows;
        const Draws::Drawn drawn = draw(draws_of(a, t), row);
        if (!drawn.is_fair) add_atomically(unfair, 1);
        a.indices[std::uint64_t{t} * a.rows + row] = drawn.sample;
      }
    });
    block.each([&](unsigned thread) {
      if (unfair == 0 || thread >= tasks) return;
      const std::uint32_t t = first + thread;
      std::int32_t* indices = a.indices + std::uint64_t{t} * a.rows;
      draws_of(a, t).draw_again(
          a.rows, [&](std::uint32_t row, std::int32_t sample) { indices[row] = sample; });
    });
  }

 private:
  STARLING_DEVICE static Draws draws_of(const Arguments& a, std::uint32_t t) {
    const DrawTask task = a.tasks[t];
    return Draws::of(a.parts, task.node, task.draw, a.rows);
  }
  STARLING_DEVICE static Draws::Drawn draw(const Draws& draws, std::uint32_t i) {
    if (!draws.are_listed()) return draws.at(i);
    const Draws::Place place = draws.place_of(i);
    std::uint8_t order[few_samples];
    shuffle(draws.state_of(place.epoch), draws.size, order);
    return {draws.samples[order[place.at]], true};
  }
};

}  // namespace starling::cuda
