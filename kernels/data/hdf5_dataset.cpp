// Datasets in HDF5 files, read with the C library (hdf5.h): every failing call becomes an Error naming file and data set.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/file.h>
#include <unistd.h>

#include "kernels/data/dataset.hpp"
#include "sim/base/error.hpp"
#include "sim/base/hdf5.hpp"

namespace starling {
namespace {

using hdf5::Handle;

/// One open data set with its shape, and how messages name it: "digits.h5: x".
struct Source {
  Handle id;
  std::string name;
  std::vector<hsize_t> shape;

  std::size_t count() const {
    std::size_t values = 1;
    for (const hsize_t extent : shape) values *= extent;
    return values;
  }
};

std::string to_text(const std::vector<hsize_t>& shape) {
  return shape.empty() ? "a scalar" : fmt::format("shape {}", fmt::join(shape, " x "));
}

/// Throws if `source` is empty or stores too few bytes for its shape.
void check_size(const Source& source, std::size_t bytes_per_value) {
  if (std::ranges::count(source.shape, hsize_t{0}) > 0)
    throw Error(fmt::format("{}: expected values, found {}", source.name, to_text(source.shape)));
  const Handle creation(H5Dget_create_plist(source.id), H5Pclose);
  if (H5Pget_external_count(creation) != 0) {  // read as zeros where its file is too short
    throw Error(
        fmt::format("{}: expected values in this file, found them in others (external "
                    "storage)",
                    source.name));
  }
  if (H5Pget_layout(creation) == H5D_VIRTUAL) {  // and where one is missing
    throw Error(
        fmt::format("{}: expected values in this file, found a virtual data set, which "
                    "joins others",
                    source.name));
  }
  const std::uint64_t stored = H5Dget_storage_size(source.id);
  if (!hdf5::can_hold(stored, source.shape, bytes_per_value)) {
    throw Error(fmt::format("{}: expected data for {}, found {} bytes", source.name,
                            to_text(source.shape), stored));
  }
}

/// What a data set holds, as messages tell it.
const char* to_text(H5T_class_t kind) {
  if (kind == H5T_FLOAT) return "floating-point numbers";
  if (kind == H5T_STRING) return "text";
  if (kind == H5T_COMPOUND) return "records, such as complex numbers";
  return "another type";
}

Source open(const Handle& file, const std::string& path, const std::string& set, bool is_integer) {
  const std::string name = path + ": " + set;
  const hid_t id = H5Dopen2(file, set.c_str(), H5P_DEFAULT);
  if (id < 0) throw Error(name + ": expected a data set of this name, found none");
  Source source{.id = Handle(id, H5Dclose), .name = name, .shape = {}};
  const Handle type(H5Dget_type(source.id), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type);
  // Enumerations are read as the integers behind them: h5py writes False and True so, as 0 and 1.
  const bool has_integers = kind == H5T_INTEGER || kind == H5T_ENUM;
  if (!has_integers && (is_integer || kind != H5T_FLOAT)) {
    throw Error(fmt::format("{}: expected {}, found {}", source.name,
                            is_integer ? "integers" : "numbers", to_text(kind)));
  }
  const Handle space(H5Dget_space(source.id), H5Sclose);
  const int rank = hdf5::check(H5Sget_simple_extent_ndims(space));
  source.shape.resize(static_cast<std::size_t>(rank));
  if (rank > 0) hdf5::check(H5Sget_simple_extent_dims(space, source.shape.data(), nullptr));
  check_size(source, H5Tget_size(type));
  return source;
}

template <class Values>
Values read(const Source& source, hid_t memory_type) {
  Values values(source.count());
  if (H5Dread(source.id, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
    throw Error(fmt::format(
        "{}: cannot read: damaged, or stored with a filter that is not installed", source.name));
  }
  return values;
}

/// Throws unless there is one `value`, "integer", per sample of x.
void check_one_per_sample(const Source& source, std::size_t samples, std::string_view value) {
  if (source.shape.size() == 1 && source.shape[0] == samples) return;
  throw Error(fmt::format("{}: expected shape {}, one {} per sample of x, found {}", source.name,
                          samples, value, to_text(source.shape)));
}

/// Reads (samples) integers of at least `least`.
std::vector<std::int32_t> read_integers(const Source& source, std::size_t samples,
                                        std::int64_t least) {
  check_one_per_sample(source, samples, "integer");
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int32_t> result;
  result.reserve(samples);
  for (const std::int64_t value : read<std::vector<std::int64_t>>(source, H5T_NATIVE_INT64)) {
    if (value < least || value > most) {
      throw Error(fmt::format("{}: expected integers from {} to {}, found {} at sample {}",
                              source.name, least, most, value, result.size()));
    }
    result.push_back(static_cast<std::int32_t>(value));
  }
  return result;
}

/// Throws if a value is no number or infinite; a sample has `width` of them.
void check_finite(const Source& source, std::span<const float> values, std::size_t width) {
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  throw Error(fmt::format("{}: expected numbers that are finite as float32, found {} at sample {}",
                          source.name, *bad,
                          static_cast<std::size_t>(bad - values.begin()) / width));
}

/// Reads (samples) numbers.
std::vector<float> read_targets(const Source& source, std::size_t samples) {
  check_one_per_sample(source, samples, "number");
  auto targets = read<std::vector<float>>(source, H5T_NATIVE_FLOAT);
  check_finite(source, targets, 1);
  return targets;
}

Dataset read_content(const Handle& file, const std::string& path, bool has_targets) {
  const Source x = open(file, path, "x", false);
  if (x.shape.size() < 2) {
    throw Error(fmt::format("{}: expected shape (samples, features...), found {}", x.name,
                            to_text(x.shape)));
  }
  Dataset all{.samples = x.shape[0], .features = x.count() / x.shape[0]};
  if (x.shape.size() > 2) all.shape.assign(x.shape.begin() + 1, x.shape.end());
  if (has_targets) {
    all.target = read_targets(open(file, path, "y", false), all.samples);
  } else {
    all.y = read_integers(open(file, path, "y", true), all.samples, 0);
  }
  if (hdf5::check(H5Lexists(file, "length", H5P_DEFAULT)) > 0) {
    all.length = read_integers(open(file, path, "length", true), all.samples, 1);
  }
  all.x = read<Dataset::Floats>(x, H5T_NATIVE_FLOAT);
  check_finite(x, all.x, all.features);
  return all;
}

/// Whether another program has the file open to write. Of a file system that refuses locks nobody knows.
bool is_being_written(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_locked = file >= 0 && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (file >= 0) close(file);
  return is_locked;
}

Handle open_file(const std::string& path) {
  try {
    return hdf5::open_to_read(path);
  } catch (const hdf5::Failure&) {
    throw Error(
        fmt::format("{}: expected an HDF5 file (docs/own_files.md makes one of a table), found "
                    "something else or damage",
                    path));
  }
}

Dataset read_file(const std::string& path, bool has_targets) {
  if (!std::ifstream(path))
    throw Error(fmt::format("{}: cannot open: no such file, or no right to read it", path));
  if (std::filesystem::is_directory(path))
    throw Error(fmt::format("{}: expected an HDF5 file, found a directory", path));
  if (is_being_written(path))
    throw Error(fmt::format("{}: cannot read: another program has it open to write", path));
  const Handle file = open_file(path);
  try {
    return read_content(file, path, has_targets);
  } catch (const hdf5::Failure& failure) {
    throw Error(fmt::format("{}: damaged or cut short: {}", path, failure.what()));
  }
}

/// Moves the samples from `first` on into a dataset of their own.
Dataset split_off(Dataset& all, std::size_t first) {
  const auto tail = [](auto& values, std::size_t begin) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(begin, values.size()));
    std::remove_reference_t<decltype(values)> rest(at, values.end());
    values.erase(at, values.end());
    return rest;
  };
  Dataset rest{.samples = all.samples - first, .features = all.features};
  rest.x = tail(all.x, first * all.features);
  rest.y = tail(all.y, first);
  rest.target = tail(all.target, first);
  rest.length = tail(all.length, first);
  all.samples = first;
  return rest;
}

/// Whether samples of these shapes may have the same numbers in the same order. Sides of 1 change nothing, and rows may be flat.
bool may_be_alike(std::vector<std::size_t> a, std::vector<std::size_t> b) {
  std::erase(a, std::size_t{1});
  std::erase(b, std::size_t{1});
  return a.size() < 2 || b.size() < 2 || a == b;
}

}  // namespace

SplitDataset load_hdf5_dataset(const DatasetSettings& settings) {
  const hdf5::Silence silence;
  SplitDataset split;
  split.train = read_file(settings.path, settings.has_targets);
  if (settings.test_path.empty()) {
    const auto held_out =
        std::max<std::size_t>(1, part_of(split.train.samples, settings.test_fraction));
    if (held_out >= split.train.samples) {
      throw Error(fmt::format("{}: expected at least 2 samples, one of them held out, found {}",
                              settings.path, split.train.samples));
    }
    split.test = split_off(split.train, split.train.samples - held_out);
    return split;
  }
  split.test = read_file(settings.test_path, settings.has_targets);
  if (split.test.features != split.train.features && !settings.is_padded) {
    throw Error(fmt::format("{}: x: expected {} features as in {}, found {}", settings.test_path,
                            split.train.features, settings.path, split.test.features));
  }
  if (!may_be_alike(split.train.shape, split.test.shape)) {
    throw Error(fmt::format("{}: x: expected samples of {} as in {}, found {}", settings.test_path,
                            fmt::join(split.train.shape, " x "), settings.path,
                            fmt::join(split.test.shape, " x ")));
  }
  return split;
}

}  // namespace starling
