// CIFAR-10 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009) in its binary
// version: records of 3073 bytes, a label 0 .. 9, then 1024 bytes of red, of green and of blue, each
// 32 x 32 by rows. In memory channels are last, as convolutions want them.
#include <array>
#include <vector>

#include <fmt/core.h>

#include "kernels/data/dataset.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text_file.hpp"

namespace starling {
namespace {

constexpr std::size_t channels = 3, side = 32, pixels = side * side,
                      record_bytes = 1 + channels * pixels;
constexpr int classes = 10;

using Scale = std::array<std::array<float, 256>, channels>;  // of each color

/// Appends the records of one file.
void read_file(const std::string& path, const Scale& scale, Dataset& data) {
  const std::string bytes = read_whole_file(path);
  const std::size_t records = bytes.size() / record_bytes;
  if (bytes.empty() || bytes.size() % record_bytes != 0) {
    throw Error(fmt::format("{}: expected records of {} bytes, found {} bytes in record {}", path,
                            record_bytes, bytes.size() % record_bytes, records));
  }
  data.x.reserve(data.x.size() + records * data.features);
  for (std::size_t r = 0; r < records; ++r) {
    const auto* record = reinterpret_cast<const unsigned char*>(bytes.data()) + r * record_bytes;
    if (record[0] >= classes) {
      throw Error(fmt::format("{}: expected a label 0 to {} in record {}, found {}", path,
                              classes - 1, r, record[0]));
    }
    data.y.push_back(record[0]);
    for (std::size_t p = 0; p < pixels; ++p) {
      for (std::size_t c = 0; c < channels; ++c) {
        data.x.push_back(scale[c][record[1 + c * pixels + p]]);
      }
    }
  }
  data.samples += records;
}

}  // namespace

SplitDataset load_cifar10_dataset(const DatasetSettings& settings) {
  const Dataset none{
      .features = channels * pixels, .classes = classes, .shape = {side, side, channels}};
  SplitDataset split{.train = none, .test = none};
  const auto of_color = [](const std::vector<double>& values, std::size_t c) {
    return values.size() == 1 ? values[0] : values[c];
  };
  Scale scale{};
  for (std::size_t c = 0; c < channels; ++c) {
    scale[c] =
        scaled_pixels(of_color(settings.pixel_mean, c), of_color(settings.pixel_deviation, c));
  }
  for (const std::string& path : settings.batches)
    read_file(path, scale, path == settings.batches.back() ? split.test : split.train);
  return split;
}

}  // namespace starling
