// Reads the keys of a dataset, loads or makes it, and checks what all kinds share: labels and
// shapes. IDX, HDF5 and CIFAR-10 have files of their own; the digits and the blobs are here.
//
// Digits: one sample per line, 64 pixels 0 .. 16 and the label 0 .. 9. Pixels are divided by 16,
// which is exact. The lines are shuffled by a stream of its own, always the same, and the last
// fifth is held out: every run, with any seed, is tested on the same 360 of 1797 digits.
//
// Blobs: center_ck ~ N(0, 1) for class c and feature k; sample s has label s mod classes and x_k =
// center_ck + spread * N(0, 1). Each sample has its own stream, so samples = 1000 is the beginning
// of samples = 2000.
#include "kernels/data/dataset.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "kernels/keys.hpp"
#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"
#include "sim/base/shipped_file.hpp"
#include "sim/base/text.hpp"

namespace starling {
namespace {

constexpr std::size_t digit_pixels = 64;
constexpr int digit_scale = 16;
constexpr int digit_classes = 10;
constexpr std::uint64_t digits_split_seed = 1797;  // any number, but the same for ever
constexpr std::int32_t most_classes = 1'000'000;   // a larger label is surely no label

// --- Settings -----------------------------------------------------------------------------------

void read_blobs(const Section& section, DatasetSettings& settings) {
  settings.classes = static_cast<int>(
      read_whole(section, "classes", 10, 1, most_classes, "number of blobs, one per class"));
  const MadeSamples made = read_made_samples(section);
  settings.features = made.features;
  settings.samples = made.samples;
  settings.test_samples = made.test_samples;
  const std::size_t samples = settings.samples + settings.test_samples;
  expect_memory(section, "samples",
                4.0 * static_cast<double>(samples) * static_cast<double>(settings.features),
                fmt::format("{} samples * {} features * 4 B", samples, settings.features));
  expect_memory(section, "classes", 8.0 * settings.classes * static_cast<double>(settings.features),
                fmt::format("{} centers * {} features * 8 B", settings.classes, settings.features));
  settings.spread = read_between(
      section, "spread", 0.5, 0, largest_scale,
      "standard deviation of a blob; the centers lie about 1 from the origin in every feature");
}

/// One mean and deviation of all colors, or one of each color.
void read_pixel_scale(const Section& section, DatasetSettings& settings, std::size_t colors) {
  const auto read = [&](const char* key, double fallback, const char* help) {
    std::vector<double> values = section.numbers(key, {fallback}, help);
    section.expect(values.size() == 1 || values.size() == colors, key, "must be {}, got {} numbers",
                   colors == 1 ? "one number" : fmt::format("1 or {} numbers", colors),
                   values.size());
    return values;
  };
  const bool has_colors = colors > 1;
  settings.pixel_mean =
      read("pixel_mean", 0,
           has_colors ? "subtracted from pixels scaled to 0 .. 1: one number, or one of each color"
                      : "subtracted from pixels scaled to 0 .. 1");
  settings.pixel_deviation = read("pixel_deviation", 1, "what pixels are divided by after that");
  for (const double deviation : settings.pixel_deviation) {
    section.expect(deviation > 0, "pixel_deviation", "must be positive, got {}", deviation);
    section.expect(deviation >= 1 / largest_scale, "pixel_deviation",
                   "must be at least {:g}, got {}", 1 / largest_scale, deviation);
  }
  for (const double mean : settings.pixel_mean) section.expect_range("pixel_mean", mean, -1e6, 1e6);
}

void read_idx(const Section& section, DatasetSettings& settings) {
  const char* directory_help =
      "where train-images-idx3-ubyte and its companions are, or the same with .gz";
  const char* file_help = "IDX file; without it, the one in `directory`";
  // A scenario with its defaults filled in has an empty directory.
  const bool has_directory = !section.peek<std::string>("directory", "").empty();
  const bool names_files = section.has("train_images") && !has_directory;
  const auto directory = names_files
                             ? section.optional<std::string>("directory", "", directory_help)
                             : section.required<std::string>("directory", directory_help);
  const auto read = [&](const char* key, const std::string& name) {
    const auto path = names_files ? section.required<std::string>(key, file_help)
                                  : section.optional<std::string>(key, "", file_help);
    if (!path.empty()) return section.resolve_path(path);
    return section.resolve_path((std::filesystem::path(directory) / name).string());
  };
  settings.train_images = read("train_images", "train-images-idx3-ubyte");
  settings.train_labels = read("train_labels", "train-labels-idx1-ubyte");
  settings.test_images = read("test_images", "t10k-images-idx3-ubyte");
  settings.test_labels = read("test_labels", "t10k-labels-idx1-ubyte");
  read_pixel_scale(section, settings, 1);
  settings.classes = static_cast<int>(read_whole(section, "classes", 0, 0, most_classes,
                                                 "number of classes; 0: largest label + 1"));
}

void read_cifar10(const Section& section, DatasetSettings& settings) {
  const std::filesystem::path directory(section.required<std::string>(
      "directory", "where data_batch_1.bin .. data_batch_5.bin and test_batch.bin are"));
  // File by file: results and checkpoints may lie beside them.
  for (int part = 1; part <= 5; ++part) {
    const std::string name = fmt::format("data_batch_{}.bin", part);
    settings.batches.push_back(section.resolve_path((directory / name).string()));
  }
  settings.batches.push_back(section.resolve_path((directory / "test_batch.bin").string()));
  read_pixel_scale(section, settings, 3);
}

void read_hdf5(const Section& section, DatasetSettings& settings) {
  settings.kind = "hdf5";
  settings.path = section.resolve_path(section.required<std::string>(
      "path", "HDF5 file with data sets x (samples, features...), y and, optionally, length"));
  settings.test_path = section.resolve_path(
      section.optional<std::string>("test_path", "", "HDF5 file with the held-out samples"));
  if (settings.test_path.empty()) {
    settings.test_fraction =
        read_share_inside(section, "test_fraction", 0.2,
                          "without test_path: this part of the samples, the last, is held out");
  }
  if (settings.has_targets) return;
  settings.classes = static_cast<int>(read_whole(section, "classes", 0, 0, most_classes,
                                                 "number of classes; 0: largest label + 1"));
}

// --- Digits -------------------------------------------------------------------------------------

/// Appends one line of digits to `x` and `y`.
void parse_digit(const std::string& line, const std::string& origin, Dataset::Floats& x,
                 std::vector<std::int32_t>& y) {
  const char* at = line.data();
  const char* const end = at + line.size();
  for (std::size_t column = 0; column <= digit_pixels; ++column) {
    int value = -1;
    const auto [rest, error] = std::from_chars(at, end, value);
    const bool is_last = column == digit_pixels;
    const int most = is_last ? digit_classes - 1 : digit_scale;
    if (error != std::errc() || value < 0 || value > most) {
      throw Error(fmt::format(
          "{}: expected an integer 0 to {} in column {}, found {}", origin, most, column + 1,
          at == end ? "the end of the line" : std::string(at, std::min(at + 12, end))));
    }
    if (is_last ? rest != end : rest == end || *rest != ',') {
      throw Error(fmt::format(
          "{}: expected {} after column {}, found {}", origin,
          is_last ? "the end of the line" : "a comma", column + 1,
          rest == end ? "the end of the line" : std::string(rest, std::min(rest + 12, end))));
    }
    if (is_last) {
      y.push_back(value);
    } else {
      x.push_back(static_cast<float>(value) / digit_scale);
      at = rest + 1;
    }
  }
}

Dataset select(const Dataset& from, std::span<const std::size_t> samples) {
  Dataset part{.samples = samples.size(), .features = from.features, .classes = from.classes};
  part.x.reserve(samples.size() * from.features);
  part.y.reserve(samples.size());
  for (const std::size_t sample : samples) {
    const auto row = from.row(sample);
    part.x.insert(part.x.end(), row.begin(), row.end());
    part.y.push_back(from.y[sample]);
  }
  return part;
}

SplitDataset load_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  Dataset all{.features = digit_pixels, .classes = digit_classes};
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (trim(line).empty()) continue;
    parse_digit(line, fmt::format("{}:{}", path, number), all.x, all.y);
  }
  if (file.bad()) throw Error(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  all.samples = all.y.size();
  if (all.samples < 2)
    throw Error(fmt::format("{}: expected at least 2 samples, found {}", path, all.samples));

  std::vector<std::size_t> order(all.samples);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Random(digits_split_seed, "digits split").shuffle(order);
  const std::span<const std::size_t> shuffled = order;
  const std::size_t training = all.samples * 4 / 5;
  return {.train = select(all, shuffled.first(training)),
          .test = select(all, shuffled.subspan(training))};
}

// --- Blobs --------------------------------------------------------------------------------------

Dataset make_blobs(const DatasetSettings& settings, std::size_t samples,
                   std::span<const double> centers, const char* purpose, std::uint64_t seed) {
  Dataset blobs{.samples = samples, .features = settings.features, .classes = settings.classes};
  blobs.x.reserve(samples * settings.features);
  blobs.y.reserve(samples);
  for (std::size_t s = 0; s < samples; ++s) {
    const std::size_t label = s % static_cast<std::size_t>(settings.classes);
    Random random(seed, purpose, shared_stream, static_cast<Step>(s));
    for (std::size_t k = 0; k < settings.features; ++k) {
      const double center = centers[label * settings.features + k];
      blobs.x.push_back(static_cast<float>(std::fma(settings.spread, random.normal(), center)));
    }
    blobs.y.push_back(static_cast<std::int32_t>(label));
  }
  return blobs;
}

SplitDataset load_blobs(const DatasetSettings& settings, std::uint64_t seed) {
  std::vector<double> centers(static_cast<std::size_t>(settings.classes) * settings.features);
  Random random(seed, "blob centers");
  for (double& center : centers) center = random.normal();
  return {.train = make_blobs(settings, settings.samples, centers, "blobs", seed),
          .test = make_blobs(settings, settings.test_samples, centers, "blobs held out", seed)};
}

// --- What all kinds share -----------------------------------------------------------------------

void check_samples(const Dataset& part, int classes, const std::string& origin) {
  constexpr std::size_t most_samples = std::numeric_limits<std::int32_t>::max();
  if (part.samples > most_samples) {
    throw Error(fmt::format("{}: expected at most {} samples, found {}", origin, most_samples,
                            part.samples));
  }
  const int most = (classes > 0 ? classes : most_classes) - 1;
  for (std::size_t s = 0; s < part.y.size(); ++s) {
    if (part.y[s] < 0 || part.y[s] > most) {
      throw Error(fmt::format("{}: expected labels 0 to {}, found {} at sample {}", origin, most,
                              part.y[s], s));
    }
  }
}

int largest_label(const Dataset& part) { return *std::max_element(part.y.begin(), part.y.end()); }

}  // namespace

DatasetSettings read_dataset_settings(const Section& section) {
  DatasetSettings settings;
  const std::vector<std::string> known_as = {"", "", "MNIST Fashion-MNIST KMNIST EMNIST", "", ""};
  settings.kind = section.choice("dataset", {"digits", "blobs", "idx", "hdf5", "cifar10"}, "digits",
                                 "which samples", known_as);
  if (settings.kind == "digits") {
    settings.path = section.resolve_path(section.optional<std::string>(
        "path", "",
        "CSV file like digits.csv, 64 pixels 0 .. 16 and the digit; empty: the one shipped"));
  } else if (settings.kind == "blobs") {
    read_blobs(section, settings);
  } else if (settings.kind == "idx") {
    read_idx(section, settings);
  } else if (settings.kind == "cifar10") {
    read_cifar10(section, settings);
  } else {
    read_hdf5(section, settings);
  }
  return settings;
}

DatasetSettings read_target_settings(const Section& section) {
  DatasetSettings settings;
  settings.has_targets = true;
  read_hdf5(section, settings);
  return settings;
}

std::array<float, 256> scaled_pixels(double mean, double deviation) {
  std::array<float, 256> scaled{};
  for (std::size_t pixel = 0; pixel < scaled.size(); ++pixel) {
    const float share = static_cast<float>(pixel) / 255.0f;
    scaled[pixel] = static_cast<float>((double{share} - mean) / deviation);
  }
  return scaled;
}

SplitDataset load_dataset(const DatasetSettings& settings, std::uint64_t seed) {
  SplitDataset split;
  std::string train_labels = settings.path;  // for messages
  std::string test_labels = settings.path;
  if (settings.kind == "digits") {
    split = load_digits(settings.path.empty() ? shipped_file("digits.csv")
                                              : settings.path);  // checks its labels
  } else if (settings.kind == "blobs") {
    split = load_blobs(settings, seed);
  } else if (settings.kind == "idx") {
    split = load_idx_dataset(settings);
    train_labels = settings.train_labels;
    test_labels = settings.test_labels;
  } else if (settings.kind == "cifar10") {
    split = load_cifar10_dataset(settings);  // checks its labels
  } else {
    ensure(settings.kind == "hdf5", "a dataset of an unknown kind");
    split = load_hdf5_dataset(settings);
    if (!settings.test_path.empty()) test_labels = settings.test_path;
  }
  check_samples(split.train, settings.classes, train_labels);
  check_samples(split.test, settings.classes, test_labels);
  if (settings.has_targets) {
    split.description =
        fmt::format("{}, {} training and {} test samples, {} features", settings.kind,
                    split.train.samples, split.test.samples, split.train.features);
    return split;
  }
  if (split.train.classes == 0) {
    const int classes = settings.classes > 0
                            ? settings.classes
                            : std::max(largest_label(split.train), largest_label(split.test)) + 1;
    split.train.classes = split.test.classes = classes;
  }
  split.description = fmt::format("{}, {} training and {} test samples, {} features, {} classes",
                                  settings.kind, split.train.samples, split.test.samples,
                                  split.train.features, split.train.classes);
  return split;
}

}  // namespace starling
