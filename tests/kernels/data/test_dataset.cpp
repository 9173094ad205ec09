// Datasets: the shipped digits, blobs, and settings that are wrong. All files are written by the tests into a directory of
// their own; those of images see test_image_files.cpp, HDF5 files test_hdf5_dataset.cpp.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <string>

#include <doctest/doctest.h>

#include "tests/kernels/data/dataset_files.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_dataset {
namespace {

using dataset_test::failure;
using dataset_test::load;
using dataset_test::section;
using test::TemporaryDirectory;

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
        "test.ini:7: workload.spread must be from 0 to 1e+30, got -1");
  wrong({{"dataset", "blobs"}, {"spread", "1e39"}},
        "test.ini:7: workload.spread must be from 0 to 1e+30, got 1e+39");
  wrong({{"dataset", "idx"}, {"directory", "."}, {"pixel_deviation", "1e-300"}},
        "test.ini:7: workload.pixel_deviation must be at least 1e-30, got 1e-300");
  wrong({{"dataset", "idx"}, {"directory", "."}, {"pixel_mean", "1e39"}},
        "test.ini:7: workload.pixel_mean must be from -1000000 to 1000000, got 1e+39");
  wrong({{"dataset", "hdf5"}, {"path", "a"}, {"test_fraction", "1"}},
        "test.ini:7: workload.test_fraction must be above 0 and below 1, got 1");
  wrong({{"dataset", "fashion_mnist"}},
        "test.ini:7: workload.dataset must be one of digits, blobs, idx, hdf5, cifar10, got "
        "fashion_mnist; did you mean idx?");
  CHECK_THROWS_WITH_AS(load({{"dataset", "hdf5"}}), "test.ini:1: workload.path is missing",
                       ScenarioError);
  CHECK_THROWS_WITH_AS(load({{"dataset", "idx"}}), "test.ini:1: workload.directory is missing",
                       ScenarioError);
  CHECK_THROWS_WITH_AS(load({{"dataset", "idx"}, {"train_images", "a"}}),
                       "test.ini:1: workload.train_labels is missing",
                       ScenarioError);  // three files missing
}

}  // namespace starling::test_dataset
