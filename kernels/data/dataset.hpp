// Datasets: the samples that workloads train on, with labels or targets, and where they come from, by the key
// `dataset`:
//   digits   handwritten digits shipped with the project (8x8 pixels, 10 classes), or any CSV file of
//            that shape
//   blobs    Gaussian blobs, made from the seed
//   cifar10  the binary files of CIFAR-10
//   hdf5     an HDF5 file with the data sets x, y and, optionally, length
//   idx      MNIST's IDX files, plain or gzip-compressed
// Reading a scenario and reading files are two calls: a maker calls Section::finish() in between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/cache_aligned.hpp"
#include "sim/base/section.hpp"

namespace starling {

/// How many of `count` samples a share of them is, rounded down; 29 of 100 for 0.29, whose product is less.
inline std::size_t part_of(std::size_t count, double share) {
  return static_cast<std::size_t>(static_cast<double>(count) * share + 1e-9);
}

/// Samples with labels or, for a regression, targets, all of one width. A plain value; all nodes of a workload share it.
struct Dataset {
  /// On cache lines: a row of whole lines is fetched without a part of another one.
  using Floats = std::vector<float, CacheAligned<float>>;

  std::size_t samples = 0;
  std::size_t features = 0;
  int classes = 0;                     // labels are 0 .. classes - 1
  Floats x{};                          // (samples, features), row-major
  std::vector<std::int32_t> y{};       // (samples), label of each sample
  std::vector<std::int32_t> length{};  // (samples) > 0, or empty if samples have no length
  std::vector<float> target{};  // (samples), in place of classes and y: what is to be predicted
  std::vector<std::size_t> shape{};  // of one sample, if the file tells more than `features`

  double bytes() const {
    return 4.0 * static_cast<double>(x.size() + y.size() + length.size() + target.size());
  }
  /// The features of one sample.
  std::span<const float> row(std::size_t sample) const {
    return {x.data() + sample * features, features};
  }
};

/// Training and held-out samples; both have the same features and classes.
struct SplitDataset {
  Dataset train;
  Dataset test;
  std::string
      description{};  // "digits, 1437 training and 360 test samples, 64 features, 10 classes"

  double bytes() const { return train.bytes() + test.bytes(); }
};

/// What a scenario says of the dataset; paths are resolved, values checked. Fields of other kinds
/// keep their defaults.
struct DatasetSettings {
  std::string kind;  // "digits", "blobs", "idx", "hdf5", "cifar10"

  std::string path;       // digits: empty means the shipped file; hdf5: required
  std::string test_path;  // hdf5: empty means that the last `test_fraction` of `path` is held out
  double test_fraction = 0.2;
  bool is_padded = false;    // hdf5: rows of two files may be of different width
  bool has_targets = false;  // hdf5: y are numbers, not labels

  std::string train_images, train_labels, test_images, test_labels;  // idx
  std::vector<std::string> batches;                                  // cifar10, the test batch last

  /// idx, cifar10: pixels 0 .. 1 become (p - mean) / deviation; one of each, or one of each per color.
  std::vector<double> pixel_mean{0}, pixel_deviation{1};

  int classes = 0;  // blobs: required; idx, hdf5: 0 means largest label + 1

  std::size_t features = 2;  // blobs, from here on
  std::size_t samples = 0;
  std::size_t test_samples = 0;
  double spread = 0;  // standard deviation of a sample around the center of its class
};

/// Reads and checks the keys of a dataset: `dataset` and those of its kind. Touches no file. Call
/// it before Section::finish().
DatasetSettings read_dataset_settings(const Section& section);

/// The same for a regression on a file: the keys of `dataset = hdf5` but for `dataset` itself and `classes`.
DatasetSettings read_target_settings(const Section& section);

/// Reads or makes the dataset. `seed` matters to `blobs` only: files give the same samples, in the
/// same order and with the same split, under every seed. Throws Error that names the file, what was
/// expected and what was found.
SplitDataset load_dataset(const DatasetSettings& settings, std::uint64_t seed);

/// (value / 255 - mean) / deviation of every byte.
std::array<float, 256> scaled_pixels(double mean, double deviation);

/// Parts of load_dataset, one for each kind of file. They leave `classes` and `description` to load_dataset, which also
/// checks the labels.
///
/// IDX (zlib): images of any rank, pixels scaled to 0 .. 1, then shifted and divided. Where a file is missing, the same with
/// .gz is read.
SplitDataset load_idx_dataset(const DatasetSettings& settings);
/// HDF5: x (samples, features...) of numbers, taken as they are, y (samples) of integers, or of numbers if they are targets,
/// and, optionally, length (samples) of positive integers.
SplitDataset load_hdf5_dataset(const DatasetSettings& settings);
/// CIFAR-10: data_batch_1.bin .. data_batch_5.bin and test_batch.bin, pixels scaled to 0 .. 1, then
/// shifted and divided by color, (32, 32, 3) with channels last.
SplitDataset load_cifar10_dataset(const DatasetSettings& settings);

}  // namespace starling
