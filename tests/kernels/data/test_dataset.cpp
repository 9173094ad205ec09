// Loading datasets: the shipped digits, blobs, and every way an IDX or HDF5 file can be wrong. All
// files are written by the tests into a directory of their own.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include "kernels/data/dataset.hpp"
#include "kernels/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_dataset {
namespace {

bool refuses_locks = false;

}  // namespace

/// In place of the C library's, for libhdf5, too: a file system that refuses locks, as some network file systems do.
extern "C" int flock(int file, int operation) noexcept {
  if (refuses_locks) {
    errno = ENOLCK;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, file, operation));
}

namespace {

using test::TemporaryDirectory;

Section section(const std::map<std::string, std::string>& keys) {
  std::vector<Setting> settings;
  for (const auto& [key, text] : keys) settings.push_back({key, text, "test.ini:7"});
  return Section("workload", "test.ini:1", settings);
}

SplitDataset load(const std::map<std::string, std::string>& keys, std::uint64_t seed = 1) {
  const Section source = section(keys);
  const DatasetSettings settings = read_dataset_settings(source);
  source.finish();
  return load_dataset(settings, seed);
}

/// The message of the Error that loading ends in.
std::string failure(const std::map<std::string, std::string>& keys) {
  try {
    load(keys);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

using Bytes8 = std::vector<std::uint8_t>;

void write_file(const std::string& path, const Bytes8& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_gzip(const std::string& path, const Bytes8& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

Bytes8 read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes8(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Bytes8 idx(const std::vector<std::uint32_t>& shape, const Bytes8& values) {
  Bytes8 bytes = {0, 0, 8, static_cast<std::uint8_t>(shape.size())};
  for (const std::uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

/// Three images of 2 x 2 pixels with values 0 .. 11, and one image of 51, 102, 153, 204.
const Bytes8 train_images = idx({3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
const Bytes8 train_labels = idx({3}, {2, 0, 4});
const Bytes8 test_images = idx({1, 2, 2}, {51, 102, 153, 204});
const Bytes8 test_labels = idx({1}, {1});

const std::array<std::string, 4> standard_names = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte"};

/// Writes the four good files, and `bytes` in place of the one named.
std::map<std::string, std::string> idx_files(const TemporaryDirectory& directory,
                                             const std::string& name = "",
                                             const Bytes8& bytes = {}) {
  write_file(directory.path(standard_names[0]), train_images);
  write_file(directory.path(standard_names[1]), train_labels);
  write_file(directory.path(standard_names[2]), test_images);
  write_file(directory.path(standard_names[3]), test_labels);
  if (!name.empty()) write_file(directory.path(name), bytes);
  return {{"dataset", "idx"}, {"directory", directory.path("")}};
}

template <class T>
void write_set(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape,
               const std::vector<T>& values) {
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(set >= 0);
  if (!values.empty())
    REQUIRE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Dclose(set);
  H5Sclose(space);
}

/// An HDF5 file whose sets are written by `fill(file)`.
template <class Fill>
std::string hdf5_file(const std::string& path, Fill fill) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(file >= 0);
  fill(file);
  REQUIRE(H5Fclose(file) >= 0);
  return path;
}

/// x[s] = {s, s + 0.5} for five samples.
const std::vector<double> five_pairs = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5};

}  // namespace

TEST_CASE("the shipped digits are 1437 training and 360 test samples of 64 features in 0 .. 1") {
  const SplitDataset digits = load({});
  CHECK(digits.train.samples == 1437);  // floor(1797 * 4 / 5)
  CHECK(digits.test.samples == 360);
  CHECK(digits.train.features == 64);
  CHECK(digits.train.classes == 10);
  CHECK(digits.description ==
        "digits, 1437 training and 360 test samples, 64 features, 10 classes");
  REQUIRE(digits.train.x.size() == 1437 * 64);
  const auto [least, most] = std::minmax_element(digits.train.x.begin(), digits.train.x.end());
  CHECK(*least == 0);
  CHECK(*most == 1);

  // Sums over the file, independent of the split: all pixels (561718 by awk over digits.csv) and
  // all labels (8070).
  double pixels = 0;
  int labels = 0;
  for (const Dataset* part : {&digits.train, &digits.test}) {
    for (const float value : part->x) pixels += value * 16.0;
    labels += std::accumulate(part->y.begin(), part->y.end(), 0);
  }
  CHECK(pixels == 561718);
  CHECK(labels == 8070);
}

TEST_CASE("the split of the digits is the same for every seed, and shuffled") {
  const SplitDataset one = load({}, 1), two = load({}, 2);
  CHECK(one.train.x == two.train.x);
  CHECK(one.test.y == two.test.y);
  // digits.csv begins with 0, 1, 2, .. 9, 0, 1, ..; a shuffled part does not.
  std::vector<std::int32_t> first(one.train.y.begin(), one.train.y.begin() + 10);
  CHECK(first != std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("STARLING_DATA names the directory of the shipped data") {
  const TemporaryDirectory directory;
  const char* before = std::getenv("STARLING_DATA");
  const std::string kept = before ? before : "";
  setenv("STARLING_DATA", directory.path("nowhere").c_str(), 1);
  CHECK(failure({}) ==
        directory.path("nowhere") + "/digits.csv: cannot open: No such file or directory");
  before ? setenv("STARLING_DATA", kept.c_str(), 1) : unsetenv("STARLING_DATA");
}

TEST_CASE("a wrong digits file is located by line and column") {
  const TemporaryDirectory directory;
  const auto fails_with = [&](const std::string& text, const std::string& message) {
    const std::string path = directory.path("d.csv");
    std::ofstream(path) << text;
    CHECK(failure({{"path", path}}) == path + message);
  };
  std::string zeros;
  for (int i = 0; i < 64; ++i) zeros += "0,";
  fails_with(zeros + "3\n0,17,0\n", ":2: expected an integer 0 to 16 in column 2, found 17,0");
  fails_with("0,0\n", ":1: expected a comma after column 2, found the end of the line");
  fails_with(zeros + "10\n", ":1: expected an integer 0 to 9 in column 65, found 10");
  fails_with(zeros + "1,2\n", ":1: expected the end of the line after column 65, found ,2");
  fails_with(zeros, ":1: expected an integer 0 to 9 in column 65, found the end of the line");
  fails_with("", ": expected at least 2 samples, found 0");
  fails_with("\xEF\xBB\xBF" + zeros + "3\n", ": expected at least 2 samples, found 1");
}

TEST_CASE("blank lines among the digits are no samples") {
  const TemporaryDirectory directory;
  const std::string path = directory.path("d.csv");
  std::string zeros;
  for (int i = 0; i < 64; ++i) zeros += "0,";
  std::ofstream(path) << zeros << "1\n\n" << zeros << "2\n" << zeros << "3\r\n \r\n\n";
  const SplitDataset digits = load({{"path", path}});
  CHECK(digits.train.samples + digits.test.samples == 3);
}

TEST_CASE("a relative path is taken from the directory of the scenario") {
  const TemporaryDirectory directory;
  Section source = section({{"path", "d.csv"}});
  source.set_directory(directory.path(""));
  CHECK(std::filesystem::path(read_dataset_settings(source).path) == directory.path("d.csv"));
}

TEST_CASE("blobs are named by their seed, and more of them begin with the same ones") {
  const std::map<std::string, std::string> keys = {{"dataset", "blobs"},
                                                   {"classes", "3"},
                                                   {"features", "4"},
                                                   {"samples", "30"},
                                                   {"test_samples", "6"}};
  auto more = keys;
  more["samples"] = "60";
  const SplitDataset blobs = load(keys, 5);
  CHECK(blobs.train.x == load(keys, 5).train.x);
  CHECK(blobs.train.x != load(keys, 6).train.x);
  const Dataset::Floats longer = load(more, 5).train.x;
  REQUIRE(longer.size() == 240);
  CHECK(std::equal(blobs.train.x.begin(), blobs.train.x.end(), longer.begin()));
  CHECK(std::count(blobs.train.y.begin(), blobs.train.y.end(), 2) == 10);  // labels take turns
  CHECK(!std::equal(blobs.test.x.begin(), blobs.test.x.end(), blobs.train.x.begin()));
}

TEST_CASE("blobs scatter around the center of their class with the spread asked for") {
  // With spread 0 every sample is its center; with 0.25 the 2000 samples * 2 features of class 0
  // deviate from it with variance 1/16, known to sqrt(2 / 4000) = 2.2 % (one standard deviation).
  std::map<std::string, std::string> keys = {{"dataset", "blobs"},
                                             {"classes", "2"},
                                             {"features", "2"},
                                             {"samples", "4000"},
                                             {"spread", "0"}};
  const SplitDataset centers = load(keys);
  CHECK(centers.train.row(0)[0] == centers.train.row(2)[0]);
  CHECK(centers.train.row(0)[0] != centers.train.row(1)[0]);
  CHECK(centers.train.row(0)[1] == centers.test.row(0)[1]);
  keys["spread"] = "0.25";
  const SplitDataset blobs = load(keys);
  double sum = 0;
  for (std::size_t s = 0; s < 4000; s += 2) {
    for (std::size_t k = 0; k < 2; ++k) {
      const double away = blobs.train.row(s)[k] - centers.train.row(0)[k];
      sum += away * away;
    }
  }
  CHECK(sum / 4000 == test::relative(0.0625, 0.1));
}

TEST_CASE("wrong settings of a dataset are located in the scenario") {
  const auto wrong = [](const std::map<std::string, std::string>& keys, const char* message) {
    CHECK_THROWS_WITH_AS(load(keys), message, ScenarioError);
  };
  wrong({{"dataset", "blobs"}, {"classes", "0"}},
        "test.ini:7: workload.classes must be from 1 to 1000000, got 0");
  wrong({{"dataset", "blobs"}, {"spread", "-1"}},
        "test.ini:7: workload.spread must not be negative, got -1");
  wrong({{"dataset", "hdf5"}, {"path", "a"}, {"test_fraction", "1"}},
        "test.ini:7: workload.test_fraction must be above 0 and below 1, got 1");
  wrong({{"dataset", "fashion_mnist"}},
        "test.ini:7: workload.dataset must be one of digits, blobs, idx, hdf5, cifar10, got "
        "fashion_mnist; did you mean idx?");
  CHECK_THROWS_AS(load({{"dataset", "hdf5"}}), ScenarioError);  // no path
  CHECK_THROWS_AS(load({{"dataset", "idx"}}), ScenarioError);   // no directory
  CHECK_THROWS_AS(load({{"dataset", "idx"}, {"train_images", "a"}}),
                  ScenarioError);  // three files missing
}

TEST_CASE("IDX files give pixels divided by 255 and one class more than the largest label") {
  const TemporaryDirectory directory;
  const auto check = [](const SplitDataset& split) {
    CHECK(split.train.samples == 3);
    CHECK(split.train.features == 4);
    CHECK(split.train.classes == 5);
    CHECK(split.test.classes == 5);
    CHECK(split.train.y == std::vector<std::int32_t>{2, 0, 4});
    CHECK(split.train.row(1)[2] == 6.0f / 255.0f);
    CHECK(split.test.x == Dataset::Floats{0.2f, 0.4f, 0.6f, 0.8f});  // 51 = 255 / 5
  };
  const auto keys = idx_files(directory);
  check(load(keys));
  SUBCASE("compressed with gzip, under the standard names") {
    for (const std::string& name : standard_names) {
      write_gzip(directory.path(name + ".gz"), read_file(directory.path(name)));
      std::filesystem::remove(directory.path(name));
    }
    check(load(keys));
  }
  SUBCASE("shifted and divided") {
    auto scaled = keys;
    scaled["pixel_mean"] = "0.2";
    scaled["pixel_deviation"] = "0.5";
    const SplitDataset split = load(scaled);
    CHECK(split.test.x[0] == doctest::Approx(0).epsilon(1e-6));
    CHECK(split.test.x[3] == doctest::Approx(1.2));  // (204 / 255 - 0.2) / 0.5
    CHECK(split.train.row(0)[0] == doctest::Approx(-0.4));
    scaled["pixel_deviation"] = "0";
    CHECK_THROWS_AS(load(scaled), ScenarioError);
  }
  SUBCASE("named one by one") {
    std::map<std::string, std::string> named{{"dataset", "idx"},
                                             {"train_images", directory.path(standard_names[0])},
                                             {"train_labels", directory.path(standard_names[1])},
                                             {"test_images", directory.path(standard_names[2])},
                                             {"test_labels", directory.path(standard_names[3])}};
    check(load(named));
    const Section first = section(named);
    read_dataset_settings(first);
    named["directory"] = "";  // as a results file has it
    check(load(named));
    const Section again = section(named);
    read_dataset_settings(again);
    REQUIRE(first.uses().size() == again.uses().size());
    for (std::size_t i = 0; i < first.uses().size(); ++i) {
      CHECK(first.uses()[i].key == again.uses()[i].key);
      CHECK(first.uses()[i].required == again.uses()[i].required);
    }
  }
}

TEST_CASE("a wrong IDX file is an error that names it with the bytes expected and found") {
  const TemporaryDirectory directory;
  const auto fails_with = [&](std::size_t which, const Bytes8& bytes, const std::string& message) {
    const std::string name = standard_names[which];
    CHECK(failure(idx_files(directory, name, bytes)) == directory.path(name) + message);
  };
  Bytes8 bytes = train_images;
  bytes.pop_back();
  fails_with(0, bytes, ": expected 28 bytes for 3 x 2 x 2 values, found 27");
  bytes = train_images;
  bytes.push_back(0);
  fails_with(0, bytes, ": expected 28 bytes for 3 x 2 x 2 values, found 29");
  bytes = train_images;
  bytes[2] = 13;  // floats
  fails_with(0, bytes, ": expected the IDX magic 00 00 08 03 of images, found 00 00 0d 03");
  fails_with(0, train_labels, ": expected the IDX magic 00 00 08 03 of images, found 00 00 08 01");
  fails_with(1, train_images, ": expected the IDX magic 00 00 08 01 of labels, found 00 00 08 03");
  fails_with(1, {}, ": expected an IDX header of at least 8 bytes, found 0 bytes");
  fails_with(0, {0, 0, 8, 3, 0, 0}, ": expected an IDX header of 16 bytes, found 6 bytes");
  fails_with(0, idx({0, 2, 2}, {}), ": expected sizes of at least 1, found 0 x 2 x 2");
  fails_with(1, idx({2}, {0, 1}),
             ": expected as many labels as " + directory.path(standard_names[0]) +
                 " has images, 3, found 2");
  fails_with(2, idx({1, 1, 4}, {0, 0, 0, 0}),
             ": expected images of 2 x 2 pixels as in " + directory.path(standard_names[0]) +
                 ", found 1 x 4");
}

TEST_CASE("an IDX header with absurd sizes is refused before memory is asked for") {
  const TemporaryDirectory directory;
  const std::string path = directory.path(standard_names[0]);
  // 2^96 values overflow 64 bits, 2^32 - 1 would merely take 4 GB.
  for (const std::vector<std::uint32_t>& shape :
       {std::vector<std::uint32_t>{~0u, ~0u, ~0u}, {1, 1, ~0u}}) {
    const std::string message =
        failure(idx_files(directory, standard_names[0], idx(shape, {1, 2, 3})));
    CHECK(contains(message, path + ": the header announces "));
    CHECK(contains(message, "more than a file of 19 bytes can hold"));
  }
  std::filesystem::remove(path);
  auto keys = idx_files(directory);
  std::filesystem::remove(path);
  write_gzip(path + ".gz", idx({1, 1, ~0u}, {1, 2, 3}));
  CHECK(
      contains(failure(keys),
               ".gz: the header announces 1 x 1 x 4294967295 values, more than a compressed file"));
}

TEST_CASE("a damaged gzip file is an error, wherever it breaks off") {
  const TemporaryDirectory directory;
  const auto keys = idx_files(directory);
  const std::string path = directory.path(standard_names[0]);
  std::filesystem::remove(path);
  write_gzip(path + ".gz", train_images);
  const Bytes8 whole = read_file(path + ".gz");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(path + ".gz",
               Bytes8(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    CHECK_MESSAGE(contains(failure(keys), path + ".gz: expected"), "cut to ", length, " bytes");
  }
  Bytes8 bytes = whole;
  bytes[bytes.size() - 6] ^= 1;  // in the check sum
  write_file(path + ".gz", bytes);
  CHECK(failure(keys) == path + ".gz: cannot read: incorrect data check");

  write_gzip(path + ".gz", idx({3, 2, 2}, Bytes8(13)));
  CHECK(failure(keys) ==
        path + ".gz: expected the end of the file after 28 bytes for 3 x 2 x 2 values, found more");
}

TEST_CASE(
    "a large gzip file that lacks the last of its bytes is an error, and one with a wrong sum") {
  // Whose values zlib has given out before it looks at its trailer.
  Bytes8 values;
  std::uint32_t state = 1;
  for (int i = 0; i < 60 * 28 * 28; ++i) {
    state = state * 1664525 + 1013904223;
    values.push_back(static_cast<std::uint8_t>(state >> 24));
  }
  const TemporaryDirectory directory;
  auto keys = idx_files(directory, standard_names[1], idx({60}, Bytes8(60)));
  write_file(directory.path(standard_names[2]), idx({1, 28, 28}, Bytes8(28 * 28)));
  const std::string path = directory.path(standard_names[0]);
  std::filesystem::remove(path);
  write_gzip(path + ".gz", idx({60, 28, 28}, values));
  CHECK(load(keys).train.samples == 60);
  const Bytes8 whole = read_file(path + ".gz");
  for (std::ptrdiff_t cut = 1; cut <= 12; ++cut) {
    write_file(path + ".gz", Bytes8(whole.begin(), whole.end() - cut));
    CHECK_MESSAGE(contains(failure(keys), path + ".gz: expected"), cut, " bytes less");
  }
  Bytes8 bytes = whole;
  bytes[bytes.size() - 6] ^= 1;
  write_file(path + ".gz", bytes);
  CHECK(failure(keys) == path + ".gz: cannot read: incorrect data check");
}

TEST_CASE("labels must lie below the number of classes") {
  const TemporaryDirectory directory;
  auto keys = idx_files(directory);
  keys["classes"] = "4";
  CHECK(failure(keys) ==
        directory.path(standard_names[1]) + ": expected labels 0 to 3, found 4 at sample 2");
  keys["classes"] = "12";
  CHECK(load(keys).test.classes == 12);
}

TEST_CASE("an HDF5 file is split by test_fraction, the last samples being held out") {
  const TemporaryDirectory directory;
  const std::string path = hdf5_file(directory.path("a.h5"), [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_DOUBLE, {5, 2}, five_pairs);
    write_set(file, "y", H5T_NATIVE_UINT8, {5}, std::vector<std::uint8_t>{0, 1, 2, 1, 0});
    write_set(file, "length", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>{7, 8, 9, 10, 11});
  });
  const SplitDataset split = load({{"dataset", "hdf5"}, {"path", path}, {"test_fraction", "0.4"}});
  CHECK(split.train.x == Dataset::Floats{0, 0.5f, 1, 1.5f, 2, 2.5f});
  CHECK(split.test.x == Dataset::Floats{3, 3.5f, 4, 4.5f});
  CHECK(split.train.y == std::vector<std::int32_t>{0, 1, 2});
  CHECK(split.test.length == std::vector<std::int32_t>{10, 11});
  CHECK(split.test.samples == 2);
  CHECK(split.test.features == 2);
  CHECK(split.train.classes == 3);

  const SplitDataset both = load({{"dataset", "hdf5"}, {"path", path}, {"test_path", path}});
  CHECK(both.train.x == both.test.x);
  CHECK(both.train.samples == 5);
  CHECK_THROWS_AS(  // a fraction of what?
      load({{"dataset", "hdf5"}, {"path", path}, {"test_path", path}, {"test_fraction", "0.5"}}),
      ScenarioError);
}

TEST_CASE("samples of an HDF5 file may have any shape") {
  const TemporaryDirectory directory;
  const std::string path = hdf5_file(directory.path("a.h5"), [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_INT16, {2, 2, 1, 2},
              std::vector<std::int16_t>{1, -2, 3, 4, 5, 6, 7, 8});
    write_set(file, "y", H5T_NATIVE_INT64, {2}, std::vector<std::int64_t>{0, 1});
  });
  const SplitDataset split = load({{"dataset", "hdf5"}, {"path", path}});
  CHECK(split.train.x == Dataset::Floats{1, -2, 3, 4});
  CHECK(split.train.length.empty());
}

TEST_CASE("truth values, which h5py writes as an enumeration, are labels and features of 0 and 1") {
  const hid_t truth = H5Tenum_create(H5T_NATIVE_INT8);
  for (const std::int8_t value : {std::int8_t{0}, std::int8_t{1}})
    REQUIRE(H5Tenum_insert(truth, value == 0 ? "FALSE" : "TRUE", &value) >= 0);
  const TemporaryDirectory directory;
  const std::string path = hdf5_file(directory.path("a.h5"), [&](hid_t file) {
    write_set(file, "x", truth, {3, 2}, std::vector<std::int8_t>{0, 1, 1, 0, 1, 1});
    write_set(file, "y", truth, {3}, std::vector<std::int8_t>{1, 0, 1});
  });
  H5Tclose(truth);
  const SplitDataset split = load({{"dataset", "hdf5"}, {"path", path}});
  CHECK(split.train.x == Dataset::Floats{0, 1, 1, 0});
  CHECK(split.train.y == std::vector<std::int32_t>{1, 0});
  CHECK(split.test.y == std::vector<std::int32_t>{1});
  CHECK(split.train.classes == 2);
}

TEST_CASE("images of an HDF5 file whose channels come first are not read as if they came last") {
  const TemporaryDirectory directory;
  const auto images = [&](const char* name, const std::vector<hsize_t>& shape) {
    hsize_t numbers = 1;
    for (const hsize_t extent : shape) numbers *= extent;
    return hdf5_file(directory.path(name), [&](hid_t file) {
      write_set(file, "x", H5T_NATIVE_DOUBLE, shape, std::vector<double>(numbers, 0.5));
      write_set(file, "y", H5T_NATIVE_INT64, {shape[0]}, std::vector<std::int64_t>(shape[0]));
    });
  };
  const auto refusal = [&](const std::vector<hsize_t>& shape, const std::string& image,
                           const std::string& test_path = "") {
    const std::string path = images("a.h5", shape);
    const Section section("workload", "test.ini:1",
                          {{"kind", "cnn", "test.ini:2"},
                           {"dataset", "hdf5", "test.ini:3"},
                           {"path", path, "test.ini:4"},
                           {"test_path", test_path, "test.ini:4"},
                           {"layers", "conv 2 3x3 same, relu", "test.ini:5"},
                           {"image", image, "test.ini:6"}});
    try {
      workloads::find(section).make(section, 1, 1);
      return std::string("none");
    } catch (const ScenarioError& error) {
      const std::string words = error.what();
      const std::size_t at = words.find(path);
      return at == words.npos ? words : words.substr(at + path.size());
    }
  };
  CHECK(refusal({4, 3, 8, 8}, "square") == ", 3x8x8, got 8x8x3; channels come last");
  CHECK(refusal({4, 3, 8, 6}, "8x6x3") == ", 3x8x6, got 8x6x3; channels come last");
  CHECK(refusal({4, 6, 8}, "8x6x1") == ", 6x8, got 8x6x1; channels come last");
  CHECK(refusal({4, 8, 8, 3}, "square", images("b.h5", {2, 3, 8, 8})) == ", found 3 x 8 x 8");
  CHECK(contains(refusal({4, 192}, "square", images("b.h5", {2, 3, 8, 8})),
                 "b.h5, 3x8x8, got 8x8x3"));
  // Pixels of four channels, which would be four pixels of one.
  CHECK(refusal({4, 8, 8, 4}, "square") == ", 8x8x4, got 16x16x1; channels come last");
  CHECK(refusal({4, 8, 8, 4}, "8x8x4") == "none");
  CHECK(refusal({4, 8, 8, 2}, "square") == " has 8x8x2)");
  // The same numbers in the same order.
  CHECK(refusal({4, 8, 8, 3}, "square") == "none");
  CHECK(refusal({4, 1, 8, 8}, "square") == "none");
  CHECK(refusal({4, 8, 18}, "8x6x3") == "none");
  CHECK(refusal({4, 192}, "square") == "none");
}

/// Records of CIFAR-10: each its label, then 1024 bytes of each of three colors.
Bytes8 cifar(const std::vector<std::uint8_t>& labels, std::uint8_t first = 0) {
  Bytes8 bytes;
  for (const std::uint8_t label : labels) {
    bytes.push_back(label);
    for (int color = 0; color < 3; ++color) {
      for (int pixel = 0; pixel < 1024; ++pixel) {
        bytes.push_back(static_cast<std::uint8_t>(first + 50 * color + (pixel == 33 ? 1 : 0)));
      }
    }
  }
  return bytes;
}

/// Six good files, two records in each of five and one in the last, and `bytes` in place of the one
/// named.
std::map<std::string, std::string> cifar_files(const TemporaryDirectory& directory,
                                               const std::string& name = "",
                                               const Bytes8& bytes = {}) {
  for (std::uint8_t part = 1; part <= 5; ++part) {
    write_file(directory.path("data_batch_" + std::to_string(part) + ".bin"),
               cifar({part, 9}, part));
  }
  write_file(directory.path("test_batch.bin"), cifar({7}, 100));
  if (!name.empty()) write_file(directory.path(name), bytes);
  return {{"dataset", "cifar10"}, {"directory", directory.path("")}};
}

TEST_CASE("images of IDX and CIFAR-10 files are not read as images of another shape") {
  const TemporaryDirectory directory;
  const auto refusal = [&](std::vector<Setting> keys, const std::string& image) {
    keys.insert(keys.end(), {{"kind", "cnn", "test.ini:2"},
                             {"layers", "conv 2 3x3 same, relu", "test.ini:5"},
                             {"image", image, "test.ini:6"}});
    const Section section("workload", "test.ini:1", keys);
    try {
      workloads::find(section).make(section, 1, 1);
      return std::string("none");
    } catch (const ScenarioError& error) {
      return std::string(error.what());
    }
  };
  const auto of_idx = [&](const std::vector<std::uint32_t>& sides, const std::string& image) {
    std::vector<std::uint32_t> shape = {3};
    shape.insert(shape.end(), sides.begin(), sides.end());
    std::size_t values = 1;
    for (const std::uint32_t extent : shape) values *= extent;
    idx_files(directory, standard_names[0], idx(shape, Bytes8(values)));
    shape[0] = 1;
    write_file(directory.path(standard_names[2]), idx(shape, Bytes8(values / 3)));
    return refusal(
        {{"dataset", "idx", "test.ini:3"}, {"directory", directory.path(""), "test.ini:4"}}, image);
  };
  const std::string in_file =
      "image must be the shape of a sample in " + directory.path(standard_names[0]);
  CHECK(contains(of_idx({4, 16}, "square"), in_file + ", 4x16, got 8x8x1; channels come last"));
  CHECK(contains(of_idx({3, 8, 8}, "square"), in_file + ", 3x8x8, got 8x8x3; channels come last"));
  CHECK(contains(of_idx({4, 8}, "square"), directory.path(standard_names[0]) + " has 4x8)"));
  CHECK(of_idx({8, 8}, "square") == "none");
  CHECK(of_idx({4, 16}, "4x16x1") == "none");
  CHECK(of_idx({8, 8, 3}, "square") == "none");
  CHECK(of_idx({64}, "square") == "none");

  cifar_files(directory);
  const std::vector<Setting> cifar10 = {{"dataset", "cifar10", "test.ini:3"},
                                        {"directory", directory.path(""), "test.ini:4"}};
  CHECK(contains(refusal(cifar10, "3x32x32"),
                 "data_batch_1.bin, 32x32x3, got 3x32x32; channels come last"));
  CHECK(refusal(cifar10, "square") == "none");
}

TEST_CASE("HDF5 data sets whose values lie in other files are refused: they may be read as zeros") {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.h5");
  const hsize_t shape[] = {5, 2};
  const auto refusal = [&](const auto& keep_elsewhere) {
    hdf5_file(path, [&](hid_t file) {
      const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
      const hid_t space = H5Screate_simple(2, shape, nullptr);
      REQUIRE(keep_elsewhere(creation, space) >= 0);
      H5Dclose(H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
      H5Sclose(space);
      H5Pclose(creation);
      write_set(file, "y", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>(5));
    });
    return failure({{"dataset", "hdf5"}, {"path", path}});
  };
  write_file(directory.path("short.bin"), Bytes8(8));
  const std::string elsewhere = directory.path("short.bin");
  CHECK(refusal([&](hid_t creation, hid_t) {
          return H5Pset_external(creation, elsewhere.c_str(), 0, 80);
        }) == path + ": x: expected values in this file, found them in others (external storage)");
  CHECK(refusal([&](hid_t creation, hid_t space) {
          return H5Pset_virtual(creation, space, "b.h5", "x", space);
        }) ==
        path + ": x: expected values in this file, found a virtual data set, which joins others");
}

TEST_CASE("a wrong HDF5 file is an error that names file and data set") {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.h5");
  const std::vector<std::int32_t> labels = {0, 1, 2, 1, 0};
  const auto fails_with = [&](const std::string& message, auto fill) {
    hdf5_file(path, fill);
    CHECK(failure({{"dataset", "hdf5"}, {"path", path}}) == path + message);
  };
  const auto good_x = [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_DOUBLE, {5, 2}, five_pairs);
  };
  fails_with(": x: expected a data set of this name, found none", [](hid_t) {});
  fails_with(": y: expected a data set of this name, found none", good_x);
  fails_with(": x: expected shape (samples, features...), found shape 10",
             [](hid_t file) { write_set(file, "x", H5T_NATIVE_DOUBLE, {10}, five_pairs); });
  fails_with(": y: expected integers, found floating-point numbers", [&](hid_t file) {
    good_x(file);
    write_set(file, "y", H5T_NATIVE_DOUBLE, {5}, std::vector<double>(5));
  });
  fails_with(": y: expected integers, found text", [&](hid_t file) {
    good_x(file);
    write_set(file, "y", H5T_C_S1, {5}, std::vector<char>(5, 'a'));
  });
  fails_with(": y: expected shape 5, one integer per sample of x, found shape 4", [&](hid_t file) {
    good_x(file);
    write_set(file, "y", H5T_NATIVE_INT32, {4}, labels);
  });
  fails_with(": y: expected integers from 0 to 2147483647, found -1 at sample 1", [&](hid_t file) {
    good_x(file);
    write_set(file, "y", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>{0, -1, 0, 0, 0});
  });
  fails_with(": expected labels 0 to 999999, found 1000000 at sample 2", [&](hid_t file) {
    good_x(file);
    write_set(file, "y", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>{0, 1, 1000000, 0, 0});
  });
  fails_with(
      ": length: expected integers from 1 to 2147483647, found 0 at sample 3", [&](hid_t file) {
        good_x(file);
        write_set(file, "y", H5T_NATIVE_INT32, {5}, labels);
        write_set(file, "length", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>{1, 1, 1, 0, 1});
      });
  fails_with(": x: expected numbers that are finite as float32, found inf at sample 4",
             [&](hid_t file) {
               std::vector<double> pairs = five_pairs;
               pairs[9] = HUGE_VAL;
               write_set(file, "x", H5T_NATIVE_DOUBLE, {5, 2}, pairs);
               write_set(file, "y", H5T_NATIVE_INT32, {5}, labels);
             });
  fails_with(": x: expected values, found shape 0 x 2", [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_DOUBLE, {0, 2}, std::vector<double>());
  });
  // Declared, never written: the file has no byte of the 2^62.
  fails_with(": x: expected data for shape 1152921504606846976 x 4, found 0 bytes", [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_UINT8, {hsize_t{1} << 60, 4}, std::vector<double>());
  });
  fails_with(": expected at least 2 samples, one of them held out, found 1", [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_DOUBLE, {1, 10}, five_pairs);
    write_set(file, "y", H5T_NATIVE_INT32, {1}, std::vector<std::int32_t>{0});
  });

  write_file(path, {1, 2, 3});
  CHECK(failure({{"dataset", "hdf5"}, {"path", path}}) ==
        path + ": expected an HDF5 file, found something else or damage");
  CHECK(contains(failure({{"dataset", "hdf5"}, {"path", path + "x"}}), path + "x: cannot open"));
  CHECK(failure({{"dataset", "hdf5"}, {"path", "/"}}) ==
        "/: expected an HDF5 file, found a directory");
}

TEST_CASE("HDF5 data are read where locks are refused, but not while another program writes them") {
  const TemporaryDirectory directory;
  const std::string path = hdf5_file(directory.path("a.h5"), [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_DOUBLE, {5, 2}, five_pairs);
    write_set(file, "y", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>(5));
  });
  const std::map<std::string, std::string> keys = {{"dataset", "hdf5"}, {"path", path}};
  refuses_locks = true;
  CHECK(load(keys).train.samples == 4);
  refuses_locks = false;
  const int writer = open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(flock(writer, LOCK_EX | LOCK_NB) == 0);  // as H5Fopen does to write
  CHECK(failure(keys) == path + ": cannot read: another program has it open to write");
  close(writer);
  CHECK(load(keys).train.samples == 4);
}

TEST_CASE("held-out samples must have the features of the training samples") {
  const TemporaryDirectory directory;
  const auto write = [&](const char* name, const std::vector<hsize_t>& shape) {
    const hsize_t size = std::accumulate(shape.begin(), shape.end(), hsize_t{1}, std::multiplies());
    return hdf5_file(directory.path(name), [&](hid_t file) {
      write_set(file, "x", H5T_NATIVE_DOUBLE, shape, std::vector<double>(size, 0.5));
      write_set(file, "y", H5T_NATIVE_INT32, {shape[0]}, std::vector<std::int32_t>(shape[0]));
    });
  };
  const std::string train = write("a.h5", {5, 2}), test = write("b.h5", {2, 5});
  CHECK(failure({{"dataset", "hdf5"}, {"path", train}, {"test_path", test}}) ==
        test + ": x: expected 2 features as in " + train + ", found 5");
  const std::string last = write("c.h5", {1, 8, 8, 3}), first = write("d.h5", {1, 3, 8, 8});
  CHECK(failure({{"dataset", "hdf5"}, {"path", last}, {"test_path", first}}) ==
        first + ": x: expected samples of 8 x 8 x 3 as in " + last + ", found 3 x 8 x 8");
  const std::string gray = write("e.h5", {1, 8, 8}), flat = write("f.h5", {1, 64});
  const std::string one = write("g.h5", {1, 1, 8, 8});
  for (const std::string& same : {flat, one})
    CHECK(load({{"dataset", "hdf5"}, {"path", gray}, {"test_path", same}}).test.samples == 1);
}

TEST_CASE("CIFAR-10 files follow each other, colors of a pixel lie side by side") {
  const TemporaryDirectory directory;
  const SplitDataset data = load(cifar_files(directory));
  CHECK(data.description == "cifar10, 10 training and 1 test samples, 3072 features, 10 classes");
  CHECK(data.train.y == std::vector<std::int32_t>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9});
  CHECK(data.test.y == std::vector<std::int32_t>{7});
  // Sample 4 is the first of file 3: colors 3, 53, 103, each one more at pixel 33.
  const auto sample = data.train.row(4);
  const float expected[] = {3, 53, 103, 4, 54, 104, 3, 53, 103};
  for (std::size_t i = 0; i < 9; ++i) {
    const std::size_t at = (i / 3 == 1 ? 33 * 3 : i / 3 == 0 ? 0 : 34 * 3) + i % 3;
    CHECK(sample[at] == expected[i] / 255.0f);
  }
  CHECK(data.test.row(0)[3071] == 200.0f / 255.0f);
}

TEST_CASE("pixels of CIFAR-10 are shifted and divided, all colors alike or each by its own") {
  const TemporaryDirectory directory;
  auto keys = cifar_files(directory);
  keys["pixel_mean"] = "0.5";
  keys["pixel_deviation"] = "0.25, 0.5, 2";
  const SplitDataset data = load(keys);
  const auto sample = data.train.row(4);  // colors 3, 53, 103
  CHECK(sample[0] == doctest::Approx((3 / 255.0 - 0.5) / 0.25));
  CHECK(sample[1] == doctest::Approx((53 / 255.0 - 0.5) / 0.5));
  CHECK(sample[2] == doctest::Approx((103 / 255.0 - 0.5) / 2));
  keys["pixel_mean"] = "0.1, 0.2, 0.3";
  CHECK(load(keys).test.row(0)[3071] == doctest::Approx((200 / 255.0 - 0.3) / 2));
  keys["pixel_mean"] = "0.1, 0.2";
  CHECK_THROWS_WITH_AS(load(keys), doctest::Contains("pixel_mean must be 1 or 3 numbers, got 2"),
                       ScenarioError);
  keys["pixel_mean"] = "0";
  keys["pixel_deviation"] = "1, 0, 1";
  CHECK_THROWS_WITH_AS(load(keys), doctest::Contains("must be positive, got 0"), ScenarioError);
}

TEST_CASE("a wrong CIFAR-10 file is named with the record") {
  const TemporaryDirectory directory;
  const auto fails = [&](const std::string& name, const Bytes8& bytes) {
    const std::string message = failure(cifar_files(directory, name, bytes));
    CHECK(contains(message, name));
    return message.substr(message.find(name) + name.size());
  };
  CHECK(fails("data_batch_2.bin", cifar({0, 10})) ==
        ": expected a label 0 to 9 in record 1, found 10");
  Bytes8 cut = cifar({0, 1});
  cut.pop_back();
  CHECK(fails("data_batch_5.bin", cut) ==
        ": expected records of 3073 bytes, found 3072 bytes in record 1");
  CHECK(fails("test_batch.bin", {}) ==
        ": expected records of 3073 bytes, found 0 bytes in record 0");
  const auto keys = cifar_files(directory);
  std::filesystem::remove(directory.path("data_batch_4.bin"));
  CHECK(contains(failure(keys), "data_batch_4.bin: cannot open: No such file or directory"));
  std::filesystem::create_directory(directory.path("data_batch_4.bin"));
  CHECK(contains(failure(keys), "data_batch_4.bin: cannot read: Is a directory"));
}

}  // namespace starling::test_dataset
