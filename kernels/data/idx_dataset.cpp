// The IDX format of the MNIST files (LeCun, Cortes, Burges), big-endian:
//
//   bytes 0 0, type (8: unsigned byte), rank | `rank` sizes of 32 bits | values, last index fastest
//
// Images have rank 2 or more (samples, then any shape), labels rank 1. zlib reads plain and gzip
// files alike, and is used nowhere else. A header is believed only if the file can hold what it
// announces, so a damaged one never leads to a huge allocation.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <zlib.h>

#include "kernels/data/dataset.hpp"
#include "sim/base/error.hpp"

namespace starling {
namespace {

constexpr std::uint64_t most_inflation =
    1032;  // deflate cannot do better (zlib, technical details)

struct Idx {
  std::vector<std::uint32_t> shape;
  std::vector<std::uint8_t> values;
};

struct CloseGz {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using GzFile = std::unique_ptr<std::remove_pointer_t<gzFile>, CloseGz>;

/// Reads up to `count` bytes; fewer only where the file ends or a gzip stream breaks off.
std::size_t read_bytes(gzFile file, const std::string& path, std::uint8_t* to, std::size_t count) {
  constexpr std::size_t chunk = std::size_t{1} << 26;
  std::size_t done = 0;
  while (done < count) {
    const int got = gzread(file, to + done, static_cast<unsigned>(std::min(chunk, count - done)));
    if (got > 0) done += static_cast<std::size_t>(got);
    if (got == 0) break;
    if (got < 0) {
      int code = 0;
      std::string_view words = gzerror(file, &code);
      if (code == Z_BUF_ERROR) break;  // the stream breaks off
      if (code == Z_ERRNO) words = std::strerror(errno);
      if (words.starts_with(path)) words.remove_prefix(path.size() + 2);  // zlib's "path: words"
      throw Error(fmt::format("{}: cannot read: {}", path, words));
    }
  }
  return done;
}

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

std::string to_text(const std::vector<std::uint32_t>& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

/// Number of values of `shape`. Throws if the file, its header left out, cannot hold them.
std::size_t count_values(const std::vector<std::uint32_t>& shape, std::size_t header,
                         bool is_compressed, const std::string& path) {
  std::error_code failure;
  const std::uint64_t size = std::filesystem::file_size(path, failure);
  if (failure)
    throw Error(fmt::format("{}: expected a file, found something without a size", path));
  const std::uint64_t most = is_compressed ? size * most_inflation : size;
  std::uint64_t count = 1;
  for (const std::uint32_t extent : shape) {
    if (extent == 0)
      throw Error(fmt::format("{}: expected sizes of at least 1, found {}", path, to_text(shape)));
    if (count > most / extent) {
      throw Error(
          fmt::format("{}: the header announces {} values, more than a {}file of {} bytes can hold",
                      path, to_text(shape), is_compressed ? "compressed " : "", size));
    }
    count *= extent;
  }
  if (!is_compressed && header + count != size) {
    throw Error(fmt::format("{}: expected {} bytes for {} values, found {}", path, header + count,
                            to_text(shape), size));
  }
  return count;
}

/// The header's sizes.
std::vector<std::uint32_t> read_shape(gzFile file, const std::string& path, bool is_labels) {
  std::array<std::uint8_t, 4> magic{};
  const std::size_t found = read_bytes(file, path, magic.data(), magic.size());
  if (found < magic.size()) {
    throw Error(
        fmt::format("{}: expected an IDX header of at least 8 bytes, found {} bytes", path, found));
  }
  const std::size_t rank = magic[3];
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || (is_labels ? rank != 1 : rank < 2)) {
    throw Error(fmt::format("{}: expected the IDX magic 00 00 08 {} of {}, found {:02x}", path,
                            is_labels ? "01" : "03", is_labels ? "labels" : "images",
                            fmt::join(magic, " ")));
  }
  std::vector<std::uint8_t> sizes(4 * rank);
  const std::size_t found_sizes = read_bytes(file, path, sizes.data(), sizes.size());
  if (found_sizes < sizes.size()) {
    throw Error(fmt::format("{}: expected an IDX header of {} bytes, found {} bytes", path,
                            4 + 4 * rank, magic.size() + found_sizes));
  }
  std::vector<std::uint32_t> shape;
  for (std::size_t r = 0; r < rank; ++r) shape.push_back(big_endian(&sizes[4 * r]));
  return shape;
}

/// The values behind the header, which fill the rest of the file.
std::vector<std::uint8_t> read_values(gzFile file, const std::string& path,
                                      const std::vector<std::uint32_t>& shape) {
  const std::size_t header = 4 + 4 * shape.size();
  const bool is_compressed = gzdirect(file) == 0;
  const std::size_t count = count_values(shape, header, is_compressed, path);
  // One more is asked for in the same call: zlib looks at what is behind the last value of a gzip stream, its check sum and
  // whether it is whole, only where it is asked for more than it has.
  std::vector<std::uint8_t> values(count + 1);
  const std::size_t got = read_bytes(file, path, values.data(), count + 1);
  if (got < count) {
    throw Error(fmt::format("{}: expected {} bytes for {} values, found {}", path, header + count,
                            to_text(shape), header + got));
  }
  if (got > count) {
    throw Error(
        fmt::format("{}: expected the end of the file after {} bytes for {} values, found more",
                    path, header + count, to_text(shape)));
  }
  values.pop_back();
  int code = 0;
  gzerror(file, &code);
  if (code == Z_BUF_ERROR)
    throw Error(fmt::format("{}: expected a complete gzip file, found no end of it", path));
  return values;
}

Idx read_idx(const std::string& named, bool is_labels) {
  std::error_code none;
  const bool is_there =
      std::filesystem::exists(named, none) || !std::filesystem::exists(named + ".gz", none);
  const std::string path = is_there ? named : named + ".gz";
  errno = 0;
  const GzFile file(gzopen(path.c_str(), "rb"));
  if (!file) {
    throw Error(fmt::format("{}: cannot open: {}", path,
                            errno != 0 ? std::strerror(errno) : "out of memory"));
  }
  Idx idx{.shape = read_shape(file.get(), path, is_labels), .values = {}};
  idx.values = read_values(file.get(), path, idx.shape);
  return idx;
}

Dataset read_part(const std::string& images_path, const std::string& labels_path, double mean,
                  double deviation) {
  const Idx images = read_idx(images_path, false);
  const Idx labels = read_idx(labels_path, true);
  if (images.shape[0] != labels.shape[0]) {
    throw Error(fmt::format("{}: expected as many labels as {} has images, {}, found {}",
                            labels_path, images_path, images.shape[0], labels.shape[0]));
  }
  Dataset part{.samples = images.shape[0], .features = images.values.size() / images.shape[0]};
  part.shape.assign(images.shape.begin() + 1, images.shape.end());
  part.x.reserve(images.values.size());
  const std::array<float, 256> scaled = scaled_pixels(mean, deviation);
  for (const std::uint8_t pixel : images.values) part.x.push_back(scaled[pixel]);
  part.y.assign(labels.values.begin(), labels.values.end());
  return part;
}

}  // namespace

SplitDataset load_idx_dataset(const DatasetSettings& settings) {
  const double mean = settings.pixel_mean.front(), deviation = settings.pixel_deviation.front();
  SplitDataset split{
      .train = read_part(settings.train_images, settings.train_labels, mean, deviation),
      .test = read_part(settings.test_images, settings.test_labels, mean, deviation)};
  if (split.train.shape != split.test.shape) {
    throw Error(fmt::format("{}: expected images of {} pixels as in {}, found {}",
                            settings.test_images, fmt::join(split.train.shape, " x "),
                            settings.train_images, fmt::join(split.test.shape, " x ")));
  }
  return split;
}

}  // namespace starling
