// Group and batch normalization on a device, for many models at once; kernels/dense_images.hpp defines every number. Sums
// over pixels are chains in double, one thread each.
#pragma once

#include "kernels/cuda/image_kernels.hpp"
#include "kernels/dense_images.hpp"

namespace starling::cuda {

/// What is normalized together: one sample, in groups of channels; or, with `groups` 0, the whole mini-batch as one image,
/// each channel by itself.
struct NormalizationArguments {
  const StepTask* tasks;
  std::uint32_t task_count;
  std::uint32_t rows;  // room for samples of a task
  std::uint32_t pixels, channels, groups;
  std::uint32_t scale, shift;      // where they are in the model
  std::uint32_t statistics;        // where this layer's are among those of a sample,
  std::uint32_t statistics_width;  // which are so many means, then so many rates
  float* of_samples;               // (tasks, rows, 2, statistics_width)
  float* const* of_batches;        // (tasks): (2, statistics_width), where groups are 0
  const float* input;              // (tasks, rows, pixels, channels)
  float* output;                   // forward: written
  const float* output_slope;       // backward: the gradient of the output,
  float* input_slope;              // and that of the input, written
  float* sums;  // (tasks, images, 2, channels): gradients of shift and scale, image by image

  STARLING_DEVICE bool is_by_batch() const { return groups == 0; }
  /// Of a task.
  STARLING_DEVICE std::uint32_t images() const { return is_by_batch() ? 1 : rows; }
  STARLING_DEVICE std::uint64_t numbers() const {
    return std::uint64_t{task_count} * rows * pixels * channels;
  }
  STARLING_DEVICE float* means(std::uint32_t t, std::uint32_t sample) const {
    if (is_by_batch()) return of_batches[t] + statistics;
    return of_samples + (std::uint64_t{t} * rows + sample) * 2 * statistics_width + statistics;
  }
};

/// One image of a task, as its block sees it.
struct NormalizedImage {
  std::uint32_t t, index;
  std::uint32_t pixels;
  std::uint32_t groups, group_size;
  std::uint64_t first;  // number of the image in input and output
  float *mean, *rate;

  STARLING_DEVICE static NormalizedImage of(const NormalizationArguments& a, std::uint32_t block) {
    const std::uint32_t t = block / a.images(), index = block % a.images();
    const std::uint32_t groups = a.is_by_batch() ? a.channels : a.groups;
    float* mean = a.means(t, index);
    return {t,
            index,
            a.is_by_batch() ? a.tasks[t].rows * a.pixels : a.pixels,
            groups,
            a.channels / groups,
            (std::uint64_t{t} * a.rows + index) * a.pixels * a.channels,
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

/// Means, and rates = 1 / sqrt(variance + epsilon). A block per image; shared memory: a double per channel.
struct MomentsKernel {
  static constexpr unsigned threads = 128;
  using Arguments = NormalizationArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const NormalizedImage image = NormalizedImage::of(a, block.index);
    if (!a.is_by_batch() && image.index >= a.tasks[image.t].rows) return;
    auto* sums = reinterpret_cast<double*>(block.shared_memory);
    const float* x = a.input + image.first;
    block.each([&](unsigned thread) {
      for (std::uint32_t c = thread; c < a.channels; c += threads) {
        double sum = 0;
        for (std::uint32_t p = 0; p < image.pixels; ++p)
          sum += static_cast<double>(x[std::uint64_t{p} * a.channels + c]);
        sums[c] = sum;
      }
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t g = thread; g < image.groups; g += threads) {
        const auto mean = static_cast<float>(image.group_mean(sums, g));
        for (std::uint32_t c = 0; c < image.group_size; ++c)
          image.mean[g * image.group_size + c] = mean;
      }
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t c = thread; c < a.channels; c += threads) {
        const auto mean = static_cast<double>(image.mean[c]);
        double sum = 0;
        for (std::uint32_t p = 0; p < image.pixels; ++p) {
          const double d = static_cast<double>(x[std::uint64_t{p} * a.channels + c]) - mean;
          sum += d * d;
        }
        sums[c] = sum;
      }
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t g = thread; g < image.groups; g += threads) {
        const auto rate =
            static_cast<float>(1 / sqrt(image.group_mean(sums, g) + dense::normalization_epsilon));
        for (std::uint32_t c = 0; c < image.group_size; ++c)
          image.rate[g * image.group_size + c] = rate;
      }
    });
  }
};

/// output = ((input - mean) rate) scale + shift
struct NormalizeKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = NormalizationArguments;

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    each_number(block, a.numbers(), [&](std::uint64_t i) {
      const auto c = static_cast<std::uint32_t>(i % a.channels);
      const auto row = static_cast<std::uint32_t>(i / a.channels / a.pixels);
      const std::uint32_t t = row / a.rows;
      const float* mean = a.means(t, row % a.rows);
      const float* x = a.tasks[t].x;
      a.output[i] =
          (a.input[i] - mean[c]) * mean[a.statistics_width + c] * x[a.scale + c] + x[a.shift + c];
    });
  }
};

/// Gradient of the input, and of scale and shift by this image. A block per image; shared memory: two doubles and two
/// floats per channel.
struct NormalizeGradientKernel {
  static constexpr unsigned threads = image_threads;
  using Arguments = NormalizationArguments;
  static std::uint32_t shared_bytes(const Arguments& a) {
    return a.channels * 2 * static_cast<std::uint32_t>(sizeof(double) + sizeof(float));
  }

  STARLING_DEVICE static void run(const Block& block, const Arguments& a) {
    const NormalizedImage image = NormalizedImage::of(a, block.index);
    auto* sums = reinterpret_cast<double*>(block.shared_memory);
    double* products = sums + a.channels;
    auto* shares = reinterpret_cast<float*>(products + a.channels);
    const float* x = a.input + image.first;
    const float* dy = a.output_slope + image.first;
    const float* scale = a.tasks[image.t].x + a.scale;
    block.each([&](unsigned thread) {
      for (std::uint32_t c = thread; c < a.channels; c += threads) {
        double sum = 0, product = 0;
        for (std::uint32_t p = 0; p < image.pixels; ++p) {
          const std::uint64_t i = std::uint64_t{p} * a.channels + c;
          const float n = (x[i] - image.mean[c]) * image.rate[c];
          sum += static_cast<double>(dy[i]);
          product += static_cast<double>(dy[i]) * static_cast<double>(n);
        }
        float* of_image = a.sums + std::uint64_t{block.index} * 2 * a.channels;
        of_image[c] = static_cast<float>(sum);
        of_image[a.channels + c] = static_cast<float>(product);
        sums[c] = sum * static_cast<double>(scale[c]);
        products[c] = product * static_cast<double>(scale[c]);
      }
    });
    block.each([&](unsigned thread) {
      for (std::uint32_t g = thread; g < image.groups; g += threads) {
        const auto share = static_cast<float>(image.group_mean(sums, g));
        const auto product = static_cast<float>(image.group_mean(products, g));
        for (std::uint32_t i = 0; i < image.group_size; ++i) {
          const std::uint32_t c = g * image.group_size + i;
          shares[c] = share;
          shares[a.channels + c] = product;
        }
      }
    });
    block.each([&](unsigned thread) {
      float* dx = a.input_slope + image.first;
      const std::uint64_t count = std::uint64_t{image.pixels} * a.channels;
      for (std::uint64_t i = thread; i < count; i += threads) {
        const auto c = static_cast<std::uint32_t>(i % a.channels);
        const float n = (x[i] - image.mean[c]) * image.rate[c];
        dx[i] = image.rate[c] * (scale[c] * dy[i] - shares[c] - n * shares[a.channels + c]);
      }
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
