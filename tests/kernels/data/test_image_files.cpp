// Datasets from IDX and CIFAR-10 files, and every way in which such a file can be wrong.

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <zlib.h>

#include "tests/kernels/data/dataset_files.hpp"
#include "tests/kernels/make_workload.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_image_files {
namespace {

using dataset_test::Bytes8;
using dataset_test::contains;
using dataset_test::failure;
using dataset_test::load;
using dataset_test::section;
using dataset_test::write_file;
using test::TemporaryDirectory;

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

}  // namespace

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
    CHECK_THROWS_WITH_AS(load(scaled),
                         "test.ini:7: workload.pixel_deviation must be positive, got 0",
                         ScenarioError);
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

TEST_CASE("images of IDX and CIFAR-10 files are not read as images of another shape") {
  const TemporaryDirectory directory;
  const auto refusal = [&](test::Keys keys, const std::string& image) {
    keys.insert(keys.end(), {{"layers", "conv 2 3x3 same, relu"}, {"image", image}});
    return test::message_of<ScenarioError>([&] { test::make_workload("cnn", keys); });
  };
  const auto of_idx = [&](const std::vector<std::uint32_t>& sides, const std::string& image) {
    std::vector<std::uint32_t> shape = {3};
    shape.insert(shape.end(), sides.begin(), sides.end());
    std::size_t values = 1;
    for (const std::uint32_t extent : shape) values *= extent;
    idx_files(directory, standard_names[0], idx(shape, Bytes8(values)));
    shape[0] = 1;
    write_file(directory.path(standard_names[2]), idx(shape, Bytes8(values / 3)));
    return refusal({{"dataset", "idx"}, {"directory", directory.path("")}}, image);
  };
  const std::string in_file =
      "image must be the shape of a sample in " + directory.path(standard_names[0]);
  CHECK(contains(of_idx({4, 16}, "square"), in_file + ", 4x16, got 8x8x1; channels come last"));
  CHECK(contains(of_idx({3, 8, 8}, "square"), in_file + ", 3x8x8, got 8x8x3; channels come last"));
  CHECK(contains(of_idx({4, 8}, "square"), directory.path(standard_names[0]) + " has 4x8)"));
  CHECK(of_idx({8, 8}, "square") == "no error");
  CHECK(of_idx({4, 16}, "4x16x1") == "no error");
  CHECK(of_idx({8, 8, 3}, "square") == "no error");
  CHECK(of_idx({64}, "square") == "no error");

  cifar_files(directory);
  const test::Keys cifar10 = {{"dataset", "cifar10"}, {"directory", directory.path("")}};
  CHECK(contains(refusal(cifar10, "3x32x32"),
                 "data_batch_1.bin, 32x32x3, got 3x32x32; channels come last"));
  CHECK(refusal(cifar10, "square") == "no error");
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

}  // namespace starling::test_image_files
