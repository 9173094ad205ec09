// Datasets from HDF5 files, and every way in which such a file can be wrong.

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kernels/data/dataset_files.hpp"
#include "tests/kernels/make_workload.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_hdf5_dataset {
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

using dataset_test::Bytes8;
using dataset_test::contains;
using dataset_test::failure;
using dataset_test::load;
using dataset_test::write_file;
using test::TemporaryDirectory;

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
  CHECK_THROWS_WITH_AS(  // a fraction of what?
      load({{"dataset", "hdf5"}, {"path", path}, {"test_path", path}, {"test_fraction", "0.5"}}),
      doctest::Contains("test.ini:7: workload.test_fraction is not a key here"), ScenarioError);
}

TEST_CASE("targets of an HDF5 file are any finite numbers, one per sample") {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.h5");
  const auto with_targets = [&](auto write_targets) {
    hdf5_file(path, [&](hid_t file) {
      write_set(file, "x", H5T_NATIVE_DOUBLE, {5, 2}, five_pairs);
      write_targets(file);
    });
    const Section source = dataset_test::section({{"path", path}, {"test_fraction", "0.4"}});
    const DatasetSettings settings = read_target_settings(source);
    source.finish();
    return load_dataset(settings, 1);
  };
  const auto doubles = [](std::vector<double> values, std::vector<hsize_t> shape) {
    return [=](hid_t file) { write_set(file, "y", H5T_NATIVE_DOUBLE, shape, values); };
  };
  const SplitDataset split = with_targets(doubles({-1.5, 0.25, 3, 1e6, -0.125}, {5}));
  CHECK(split.train.target == std::vector<float>{-1.5F, 0.25F, 3});
  CHECK(split.test.target == std::vector<float>{1e6F, -0.125F});
  CHECK(split.train.y.empty());
  CHECK(split.train.classes == 0);
  CHECK(split.train.x == Dataset::Floats{0, 0.5f, 1, 1.5f, 2, 2.5f});
  CHECK(split.bytes() == 4 * 15);
  CHECK(split.description == "hdf5, 3 training and 2 test samples, 2 features");
  const SplitDataset whole = with_targets([](hid_t file) {
    write_set(file, "y", H5T_NATIVE_INT16, {5}, std::vector<std::int16_t>{-7, 2, 0, 300, 1});
  });
  CHECK(whole.train.target == std::vector<float>{-7, 2, 0});

  const auto refused = [&](const std::string& message, auto write_targets) {
    CHECK_THROWS_WITH_AS(with_targets(write_targets), (path + message).c_str(), Error);
  };
  refused(": y: expected a data set of this name, found none", [](hid_t) {});
  refused(": y: expected shape 5, one number per sample of x, found shape 5 x 1",
          doubles({1, 2, 3, 4, 5}, {5, 1}));
  refused(": y: expected shape 5, one number per sample of x, found shape 4",
          doubles({1, 2, 3, 4}, {4}));
  refused(": y: expected numbers that are finite as float32, found inf at sample 3",
          doubles({1, 2, 3, 1e39, 5}, {5}));
  refused(": y: expected numbers, found text",
          [](hid_t file) { write_set(file, "y", H5T_C_S1, {5}, std::vector<char>(5, 'a')); });
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
    const test::Keys keys = {{"dataset", "hdf5"},
                             {"path", path},
                             {"test_path", test_path},
                             {"layers", "conv 2 3x3 same, relu"},
                             {"image", image}};
    const std::string words =
        test::message_of<ScenarioError>([&] { test::make_workload("cnn", keys); });
    const std::size_t at = words.find(path);
    return at == words.npos ? words : words.substr(at + path.size());
  };
  CHECK(refusal({4, 3, 8, 8}, "square") == ", 3x8x8, got 8x8x3; channels come last");
  CHECK(refusal({4, 3, 8, 6}, "8x6x3") == ", 3x8x6, got 8x6x3; channels come last");
  CHECK(refusal({4, 6, 8}, "8x6x1") == ", 6x8, got 8x6x1; channels come last");
  CHECK(refusal({4, 8, 8, 3}, "square", images("b.h5", {2, 3, 8, 8})) == ", found 3 x 8 x 8");
  CHECK(contains(refusal({4, 192}, "square", images("b.h5", {2, 3, 8, 8})),
                 "b.h5, 3x8x8, got 8x8x3"));
  // Pixels of four channels, which would be four pixels of one.
  CHECK(refusal({4, 8, 8, 4}, "square") == ", 8x8x4, got 16x16x1; channels come last");
  CHECK(refusal({4, 8, 8, 4}, "8x8x4") == "no error");
  CHECK(refusal({4, 8, 8, 2}, "square") == " has 8x8x2)");
  // The same numbers in the same order.
  CHECK(refusal({4, 8, 8, 3}, "square") == "no error");
  CHECK(refusal({4, 1, 8, 8}, "square") == "no error");
  CHECK(refusal({4, 8, 18}, "8x6x3") == "no error");
  CHECK(refusal({4, 192}, "square") == "no error");
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
        path +
            ": expected an HDF5 file (docs/own_files.md makes one of a table), found something "
            "else or damage");
  CHECK(contains(failure({{"dataset", "hdf5"}, {"path", path + "x"}}), path + "x: cannot open"));
  CHECK(failure({{"dataset", "hdf5"}, {"path", "/"}}) ==
        "/: expected an HDF5 file, found a directory");
}

TEST_CASE("of one class against the rest, the samples that are kept have their lengths") {
  const TemporaryDirectory directory;
  const std::string path = hdf5_file(directory.path("a.h5"), [](hid_t file) {
    write_set(file, "x", H5T_NATIVE_DOUBLE, {5, 2}, five_pairs);
    write_set(file, "y", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>{0, 1, 0, 0, 1});
    write_set(file, "length", H5T_NATIVE_INT32, {5}, std::vector<std::int32_t>{7, 8, 9, 10, 11});
  });
  const auto workload = test::make_workload("auc", {{"dataset", "hdf5"},
                                                    {"path", path},
                                                    {"test_fraction", "0.4"},
                                                    {"positive_share", "0.5"},
                                                    {"batch_size", "2"}});
  // Of the first three the last one is left out, so that half are positive.
  CHECK(workload->batch_cost(0, 0) == 7 + 8);
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

}  // namespace starling::test_hdf5_dataset
