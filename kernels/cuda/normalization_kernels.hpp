// Group and batch normalization on a device, for many models at once; kernels/dense/images.hpp defines every number. Sums
// over pixels are chains in double, one thread each: it only adds, what others have fetched and worked out.
#pragma once

#include "kernels/cuda/image_kernels.hpp"
#include "kernels/dense/images.hpp"

namespace starling::cuda {

/// What is normalized together: one sample, in groups of channels; or, with `groups` 0, the whole mini-batch as one image,
/// each channel by itself.
struct NormalizationArguments {
  const StepTask* tasks;
  std::uint32_t rows;  // room for samples of a task
  std::uint32_t pixels, channels, groups;
  std::uint32_t is_cut;            // by a ReLU that follows
  std::uint32_t scale, shift;      // where they are in the model
  std::uint32_t statistics;        // where this layer's are among those of a sample,
  std::uint32_t statistics_width;  // which are so many means, then so many rates
  float* of_samples;               // (tasks, rows, 2, statistics_width)
  float* const* of_batches;        // (tasks): (2, statistics_width), where groups are 0
  const float* input;              // (tasks, rows, pixels, channels)
  float* output;                   // forward: written
  const float* output_slope;       // backward: the gradient of the output,
  float* input_slope;              // and that of the input, written
  // (tasks, images, 2, channels) each:
  float* sums;    // gradients of shift and scale, image by image
  float* shares;  // what is taken off the gradient of the input: see S and T

  STARLING_DEVICE bool is_by_batch() const { return groups == 0; }
  /// Of a task.
  STARLING_DEVICE std::uint32_t images() const { return is_by_batch() ? 1 : rows; }
  STARLING_DEVICE float* means(std::uint32_t t, std::uint32_t sample) const {
    if (is_by_batch()) return of_batches[t] + statistics;
    return of_samples + (std::uint64_t{t} * rows + sample) * 2 * statistics_width + statistics;
  }
  STARLING_DEVICE float* of_image(float* all, std::uint32_t t, std::uint32_t sample) const {
    const std::uint64_t image = is_by_batch() ? t : std::uint64_t{t} * rows + sample;
    return all + image * 2 * channels;
  }
};

/// The channels that are summed by one block: a batch's are cut, as each is normalized by itself.
struct NormalizedPart {
  static constexpr std::uint32_t of_batch = 16;

  std::uint32_t t, index;  // task, and image of it
  std::uint32_t pixels;
  std::uint32_t channel, channels;  // the first one, and how many
  std::uint32_t groups, group_size;
  std::uint64_t first;  // number of the image in input and output, from the first channel on
  float *mean, *rate;   // from the first channel on

  /// Of a task.
  STARLING_DEVICE static std::uint32_t count(const NormalizationArguments& a) {
    return a.is_by_batch() ? (a.channels + of_batch - 1) / of_batch : a.rows;
  }
  STARLING_DEVICE static std::uint32_t most_channels(const NormalizationArguments& a) {
    return a.is_by_batch() ? lesser(of_batch, a.channels) : a.channels;
  }
  STARLING_DEVICE static NormalizedPart of(const NormalizationArguments& a, std::uint32_t block) {
    const std::uint32_t t = block / count(a), part = block % count(a);
    const std::uint32_t index = a.is_by_batch() ? 0 : part;
    const std::uint32_t channel = a.is_by_batch() ? part * of_batch : 0;
    const std::uint32_t channels = lesser(most_channels(a), a.channels - channel);
    const std::uint32_t groups = a.is_by_batch() ? channels : a.groups;
    float* mean = a.means(t, index) + channel;
    return {t,
            index,
            a.is_by_batch() ? a.tasks[t].rows * a.pixels : a.pixels,
            channel,
            channels,
            groups,
            channels / groups,
            (std::uint64_t{t} * a.rows + index) * a.pixels * a.channels + channel,
            mean,
            mean + a.statistics_width};
  }

  /// Mean over the pixels and the channels of group g of what sums holds per channel.
  STARLING_DEVICE double group_mean(const double* sums, std::uint32_t g) const {
    double sum = 0;
    for (std::uint32_t c = g * group_size; c < (g + 1) * group_size; ++c) sum += sums[c];
    return sum / (static_cast<double>(pixels) * static_cast<double>(group_size));
  }
};

/// Sums over the pixels of a part, `count` of every channel: a tile of entries is added up, in order, while the next is
/// made, and what the one after that is made of is on its way from memory.
template <unsigned count>
struct ChannelSums {
  static constexpr unsigned adding = 64, making = 448, threads = adding + making;
  static constexpr unsigned together = count == 1 ? 8 : 6;  // pixels of a tile that a thread has

  struct Memory {
    // Doubles of a tile: channel by channel, two more than it has pixels apart, which are other banks.
    static constexpr std::uint32_t room = count * (together * making + 2 * adding);
    double *tiles, *sums;

    STARLING_DEVICE static Memory of(const Block& block) {
      auto* tiles = reinterpret_cast<double*>(block.shared_memory);
      return {tiles, tiles + 2 * room};
    }
  };
  STARLING_DEVICE static std::uint32_t shared_bytes(const NormalizationArguments& a) {
    return (2 * Memory::room + count * NormalizedPart::most_channels(a)) *
           static_cast<std::uint32_t>(sizeof(double));
  }

  /// memory.sums[s * part.channels + c] = the sum s of channel c. entries(c) gives what has, of pixel p, seen(p) as it lies
  /// in memory, and make(seen, entries) for the sums.
  template <class Entries>
  STARLING_DEVICE static void find(const Block& block, const NormalizedPart& part,
                                   const Memory& memory, const Entries& entries) {
    using OfChannel = decltype(entries(0));
    for (std::uint32_t first = 0; first < part.channels; first += adding) {
      const std::uint32_t channels = lesser(adding, part.channels - first);
      const std::uint32_t step = making / channels, tile = together * step;  // pixels
      Local<Sums, threads> sums;
      Local<Making<OfChannel>, threads> makings;
      block.each([&](unsigned thread) {
        sums[thread] = {};
        if (thread < adding) return;
        const unsigned maker = thread - adding;
        Making<OfChannel>& own = makings[thread];
        own.entries = entries(first + maker % channels);
        own.channel = maker % channels;
        own.pixel = maker / channels;
        own.step = step;
        if (own.pixel < step) own.load(0, part.pixels);
      });
      for (std::uint32_t begin = 0; begin < part.pixels + tile; begin += tile) {
        double* const next = memory.tiles + begin / tile % 2 * memory.room;
        const double* const last = memory.tiles + (begin / tile + 1) % 2 * memory.room;
        block.each([&](unsigned thread) {
          if (thread >= adding) {
            Making<OfChannel>& own = makings[thread];
            if (begin >= part.pixels || own.pixel >= step) return;
            own.make(next + own.channel * (tile + 2), channels * (tile + 2));
            own.load(begin + tile, part.pixels);
          } else if (thread < channels && begin > 0) {
            add(last + thread * (tile + 2), channels * (tile + 2),
                lesser(tile, part.pixels - (begin - tile)), sums[thread]);
          }
        });
      }
      block.each([&](unsigned thread) {
        for (unsigned s = 0; s < count && thread < channels; ++s)
          memory.sums[s * part.channels + first + thread] = sums[thread].at[s];
      });
    }
  }

 private:
  struct Sums {
    double at[count];
  };

  /// What a thread that makes entries keeps: it has pixels pixel, pixel + step, .. of a tile, in one channel.
  template <class OfChannel>
  struct Making {
    OfChannel entries;
    std::uint32_t channel, pixel, step;
    decltype(entries.seen(0)) seen[together];

    /// Of pixels beyond the end, the last one.
    STARLING_DEVICE void load(std::uint32_t begin, std::uint32_t pixels) {
      if (begin >= pixels) return;
      STARLING_UNROLL
      for (unsigned j = 0; j < together; ++j)
        seen[j] = entries.seen(lesser(begin + pixel + j * step, pixels - 1));
    }
    STARLING_DEVICE void make(double* to, std::uint32_t apart) const {
      STARLING_UNROLL
      for (unsigned j = 0; j < together; ++j) {
        double* const entry = to + (pixel + j * step);
        entries.make(seen[j], [&](unsigned s, double value) { entry[s * apart] = value; });
      }
    }
  };

  /// Adds up `pixels` entries of each sum, which begin `apart`.
  STARLING_DEVICE static void add(const double* entries, std::uint32_t apart, std::uint32_t pixels,
                                  Sums& sums) {
    STARLING_UNROLL_BY(16)
    for (std::uint32_t p = 0; p < pixels; ++p) {
      STARLING_UNROLL
      for (unsigned s = 0; s < count; ++s) sums.at[s] += entries[s * apart + p];
    }
  }
};

/// Means, and rates = 1 / sqrt(variance + epsilon). A block per part.
struct MomentsKernel {
  using Arguments = NormalizationArguments;
  using Sums = ChannelSums<1>;
  static constexpr unsigned threads = Sums::threads;

  /// (x - mean)^2, or x.
  struct Entries {
    const float* x;
    std::uint32_t stride;
    bool is_square;
    double mean;
    STARLING_DEVICE float seen(std::uint32_t p) const { return x[std::uint64_t{p} * stride]; }
    template <class Take>
    STARLING_DEVICE void make(float seen, const Take& take) const {
      const double value = static_cast<double>(seen), d = value - mean;
      take(0, is_square ? d * d : value);
    }
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const NormalizedPart part = NormalizedPart::of(a, block.index);
    if (!a.is_by_batch() && part.index >= a.tasks[part.t].rows) return;
    const Sums::Memory memory = Sums::Memory::of(block);
    const float* x = a.input + part.first;
    Sums::find(block, part, memory, [&](std::uint32_t c) {
      return Entries{x + c, a.channels, false, 0};
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t g = thread; g < part.groups; g += threads) {
        const auto mean = static_cast<float>(part.group_mean(memory.sums, g));
        for (std::uint32_t c = 0; c < part.group_size; ++c)
          part.mean[g * part.group_size + c] = mean;
      }
    });
    Sums::find(block, part, memory, [&](std::uint32_t c) {
      return Entries{x + c, a.channels, true, static_cast<double>(part.mean[c])};
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t g = thread; g < part.groups; g += threads) {
        const auto rate = static_cast<float>(
            1 / sqrt(part.group_mean(memory.sums, g) + dense::normalization_epsilon));
        for (std::uint32_t c = 0; c < part.group_size; ++c)
          part.rate[g * part.group_size + c] = rate;
      }
    });
  }
};

/// What normalizes a channel.
struct ChannelNorm {
  float mean, rate, scale, shift;

  STARLING_DEVICE static ChannelNorm of(const NormalizationArguments& a, const float* means,
                                        const float* x, std::uint32_t c) {
    return {means[c], means[a.statistics_width + c], x[a.scale + c], x[a.shift + c]};
  }
  STARLING_DEVICE float normal(float x) const { return (x - mean) * rate; }
  STARLING_DEVICE float output(float x) const { return normal(x) * scale + shift; }
  /// What of dy passes a ReLU.
  STARLING_DEVICE float cut(bool is_cut, float x, float dy) const {
    return !is_cut || output(x) > 0 ? dy : 0.0F;
  }
};

/// output = ((input - mean) rate) scale + shift, then ReLU if one follows.
struct NormalizeKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = NormalizationArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_pixel(block, a.pixels, a.channels, is_even(a.input) && is_even(a.output),
               [&]<unsigned unit>(Unit<unit>, std::uint64_t image, std::uint32_t c,
                                  const PixelRange& pixels) {
                 const auto t = static_cast<std::uint32_t>(image / a.rows);
                 const float* means = a.means(t, static_cast<std::uint32_t>(image % a.rows));
                 ChannelNorm norm[unit];
                 for (unsigned i = 0; i < unit; ++i)
                   norm[i] = ChannelNorm::of(a, means, a.tasks[t].x, c + i);
                 pixels.each([&](std::uint64_t at, std::uint32_t) {
                   auto values = Unit<unit>::load(a.input + at);
                   STARLING_UNROLL
                   for (unsigned i = 0; i < unit; ++i) {
                     const float y = norm[i].output(values.at[i]);
                     values.at[i] = a.is_cut != 0 && y < 0 ? 0.0F : y;
                   }
                   values.store(a.output + at);
                 });
               });
  }
};

/// Gradients of scale and shift by an image, and what that of its input is made of. A block per part.
struct NormalizeSumsKernel {
  using Arguments = NormalizationArguments;
  using Sums = ChannelSums<2>;
  static constexpr unsigned threads = Sums::threads;

  /// dy, and dy n.
  struct Entries {
    const float *x, *dy;
    std::uint32_t stride;
    bool is_cut;
    ChannelNorm norm;
    STARLING_DEVICE Pair seen(std::uint32_t p) const {
      const std::uint64_t at = std::uint64_t{p} * stride;
      return {x[at], dy[at]};
    }
    template <class Take>
    STARLING_DEVICE void make(const Pair& seen, const Take& take) const {
      const auto slope = static_cast<double>(norm.cut(is_cut, seen.x, seen.y));
      take(0, slope);
      take(1, slope * static_cast<double>(norm.normal(seen.x)));
    }
  };

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const NormalizedPart part = NormalizedPart::of(a, block.index);
    const Sums::Memory memory = Sums::Memory::of(block);
    const float* x = a.input + part.first;
    const float* dy = a.output_slope + part.first;
    const float* model = a.tasks[part.t].x + part.channel;
    Sums::find(block, part, memory, [&](std::uint32_t c) {
      return Entries{x + c, dy + c, a.channels, a.is_cut != 0,
                     ChannelNorm::of(a, part.mean, model, c)};
    });
    double* const sums = memory.sums;
    double* const products = sums + part.channels;
    float* of_image = a.of_image(a.sums, part.t, part.index) + part.channel;
    float* shares = a.of_image(a.shares, part.t, part.index) + part.channel;
    block.each([&](unsigned thread) {
      for (std::uint32_t c = thread; c < part.channels; c += threads) {
        of_image[c] = static_cast<float>(sums[c]);
        of_image[a.channels + c] = static_cast<float>(products[c]);
        sums[c] *= static_cast<double>(model[a.scale + c]);
        products[c] *= static_cast<double>(model[a.scale + c]);
      }
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t g = thread; g < part.groups; g += threads) {
        const auto share = static_cast<float>(part.group_mean(sums, g));
        const auto product = static_cast<float>(part.group_mean(products, g));
        for (std::uint32_t i = 0; i < part.group_size; ++i) {
          const std::uint32_t c = g * part.group_size + i;
          shares[c] = share;
          shares[a.channels + c] = product;
        }
      }
    });
  }
};

// The channels that docs/gpu.md tells: two sums of each lie beside the tiles in the 232,448 B that a block of an H100 has.
static_assert((232448 - 2 * NormalizeSumsKernel::Sums::Memory::room * sizeof(double)) /
                  (2 * sizeof(double)) ==
              8896);

/// The gradient of the input.
struct NormalizeGradientKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = NormalizationArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_pixel(block, a.pixels, a.channels,
               is_even(a.input) && is_even(a.output_slope) && is_even(a.input_slope),
               [&]<unsigned unit>(Unit<unit>, std::uint64_t image, std::uint32_t c,
                                  const PixelRange& pixels) {
                 const auto t = static_cast<std::uint32_t>(image / a.rows);
                 const auto sample = static_cast<std::uint32_t>(image % a.rows);
                 const float* means = a.means(t, sample);
                 const float* shares = a.of_image(a.shares, t, sample) + c;
                 ChannelNorm norm[unit];
                 float share[unit], product[unit];
                 for (unsigned i = 0; i < unit; ++i) {
                   norm[i] = ChannelNorm::of(a, means, a.tasks[t].x, c + i);
                   share[i] = shares[i];
                   product[i] = shares[a.channels + i];
                 }
                 pixels.each([&](std::uint64_t at, std::uint32_t) {
                   const auto x = Unit<unit>::load(a.input + at);
                   auto slope = Unit<unit>::load(a.output_slope + at);
                   STARLING_UNROLL
                   for (unsigned i = 0; i < unit; ++i) {
                     const float dy = norm[i].cut(a.is_cut != 0, x.at[i], slope.at[i]);
                     slope.at[i] = norm[i].rate * (norm[i].scale * dy - share[i] -
                                                   norm[i].normal(x.at[i]) * product[i]);
                   }
                   slope.store(a.input_slope + at);
                 });
               });
  }
};

/// Gradients of shift and scale: the images' in order. A block per task.
struct ScaleGradientKernel {
  static constexpr unsigned threads = 128;
  using Arguments = NormalizationArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const StepTask task = a.tasks[block.index];
    const float* of_task = a.sums + std::uint64_t{block.index} * a.images() * 2 * a.channels;
    block.each([&](unsigned thread) {
      for (std::uint32_t c = thread; c < 2 * a.channels; c += threads) {
        float sum = 0;
        for (std::uint32_t image = 0; image < a.images(); ++image)
          sum += of_task[std::uint64_t{image} * 2 * a.channels + c];
        store_gradient(task, c < a.channels ? a.shift + c : a.scale + (c - a.channels), sum);
      }
    });
  }
};

}  // namespace starling::cuda
