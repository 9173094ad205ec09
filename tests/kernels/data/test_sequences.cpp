// Sequences of tokens: windows of a text, labeled ones of HDF5 files, made ones.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hdf5.h>

#include "kernels/data/sequences.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/data/made_sequences.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_sequence_data {

TEST_CASE("a text is cut into windows that foretell every character of its part once") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("some.txt");
  std::ofstream(path) << "abcabcabcabcabcabcab";  // 20, of which 4 are held out
  SequenceSettings settings{.kind = "text", .path = path, .test_path = ""};
  settings.test_fraction = 0.2;
  const SplitSequences split = load_sequences(settings, 6, 1);
  CHECK(split.vocabulary == 3);
  CHECK(split.predicts_next);
  // abcabc abcabc abc(a): 15 characters are foretold, as the first has nothing before it.
  using Tokens = std::vector<std::int32_t>;
  CHECK(split.train.begin == std::vector<std::size_t>{0, 6, 12});
  CHECK(split.train.samples.length == Tokens{6, 6, 3});
  CHECK(split.train.tokens == Tokens{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0});
  CHECK(split.test.tokens == Tokens{1, 2, 0, 1});
  CHECK(split.test.samples.length == Tokens{3});
  std::ofstream(path) << "\xEF\xBB\xBF"
                      << "abcabcabcabcabcabcab";  // a byte order mark is none of them
  const SplitSequences marked = load_sequences(settings, 6, 1);
  CHECK(marked.vocabulary == 3);
  CHECK(marked.train.tokens == split.train.tokens);
  CHECK(marked.test.tokens == split.test.tokens);
  std::ofstream(path) << "\xFF\xFE" << std::string("a\0b\0c\0a\0b\0c\0a\0b\0c\0a\0b\0c\0", 24);
  CHECK_THROWS_WITH_AS(load_sequences(settings, 6, 1), doctest::Contains("found UTF-16"), Error);
  std::ofstream(path) << "abcabc";  // one of them held out
  CHECK_THROWS_WITH_AS(
      load_sequences(settings, 6, 1),
      doctest::Contains(
          "expected 2 characters or more in either part, found 6 of which 1 are held out"),
      Error);
}

TEST_CASE("an HDF5 file's sequences lose their padding, and bad tokens are told") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("sequences.h5");
  int rank_of_x = 2;
  const auto write = [&](const std::vector<float>& x, const std::vector<int>& lengths,
                         hsize_t width = 3) {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const auto set = [&](const char* name, int rank, hid_t type, const void* values) {
      const hsize_t shape[] = {4, width, 1};
      const hid_t space = H5Screate_simple(rank, shape, nullptr);
      const hid_t id = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      REQUIRE(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
      H5Dclose(id);
      H5Sclose(space);
    };
    const std::vector<int> y = {0, 1, 2, 1};
    set("x", rank_of_x, H5T_NATIVE_FLOAT, x.data());
    set("y", 1, H5T_NATIVE_INT, y.data());
    if (!lengths.empty()) set("length", 1, H5T_NATIVE_INT, lengths.data());
    REQUIRE(H5Fclose(file) >= 0);
  };
  SequenceSettings settings{.kind = "hdf5", .path = path, .test_path = ""};
  settings.test_fraction = 0.25;
  write({5, 6, 9, 7, 9, 9, 1, 2, 3, 4, 4, 9}, {2, 1, 3, 2});
  const SplitSequences split = load_sequences(settings, 3, 1);
  CHECK(split.train.tokens == std::vector<std::int32_t>{5, 6, 7, 1, 2, 3});
  CHECK(split.train.begin == std::vector<std::size_t>{0, 2, 3});
  CHECK(split.test.tokens == std::vector<std::int32_t>{4, 4});
  CHECK(split.vocabulary == 8);  // the 9s are padding
  CHECK(split.classes == 3);
  CHECK_THROWS_WITH_AS(load_sequences(settings, 2, 1),
                       doctest::Contains("expected at most 2, the context, found 3 at sample 2"),
                       Error);
  write({5, 6, 9, 7, 9, 9, 1, 2, 3, 4, 4, 9}, {});  // without lengths nothing is padding
  CHECK_THROWS_WITH_AS(load_sequences(settings, 2, 1),
                       doctest::Contains(": x: expected samples of at most 2 tokens, the context"),
                       Error);
  const SplitSequences full = load_sequences(settings, 3, 1);
  CHECK(full.train.samples.length == std::vector<std::int32_t>{3, 3, 3});
  CHECK(full.vocabulary == 10);
  rank_of_x = 3;
  write({5, 6, 9, 7, 9, 9, 1, 2, 3, 4, 4, 9}, {});
  CHECK_THROWS_WITH_AS(load_sequences(settings, 3, 1),
                       doctest::Contains(": x: expected shape (samples, longest) of token numbers, "
                                         "found (samples, 3, 1)"),
                       Error);
  rank_of_x = 2;
  write({5, 6, 9, 7, 9, 9, 1, 2, 3, 4, 4, 9}, {});
  const std::string narrow = path + ".narrow";  // held-out samples may have less padding
  std::filesystem::rename(path, narrow);
  write({5, 6, 0, 0, 7, 0, 0, 0, 1, 2, 3, 4, 4, 0, 0, 0}, {2, 1, 4, 1}, 4);
  settings.test_path = narrow;
  const SplitSequences both = load_sequences(settings, 4, 1);
  CHECK(both.train.tokens == std::vector<std::int32_t>{5, 6, 7, 1, 2, 3, 4, 4});
  CHECK(both.test.tokens == std::vector<std::int32_t>{5, 6, 9, 7, 9, 9, 1, 2, 3, 4, 4, 9});
  CHECK(both.vocabulary == 10);  // the largest token is held out
  settings.test_path = "";
  write({5, 6, 9, 0.5, 9, 9, 1, 2, 3, 4, 4, 9}, {2, 1, 3, 2});
  CHECK_THROWS_WITH_AS(load_sequences(settings, 3, 1), doctest::Contains("found 0.5 at sample 1"),
                       Error);
}

TEST_CASE("a made sequence goes on by its label, and its length is within 2 and the context") {
  const SplitSequences split = load_sequences(dataset_test::made_sequences(400, 0), 30, 7);
  for (std::size_t s = 0; s < 400; ++s) {
    const auto label = split.train.samples.y[s];
    for (std::size_t t = 0; t + 1 < split.train.length(s); ++t) {
      const std::size_t at = split.train.begin[s] + t;
      CHECK((split.train.tokens[at] + 1 + label) % 16 == split.train.tokens[at + 1]);
    }
  }
  std::vector<std::int32_t> lengths = split.train.samples.length;
  std::sort(lengths.begin(), lengths.end());
  CHECK(lengths.front() >= 2);
  CHECK(lengths.back() == 30);
  // The median of 400 lognormal numbers is within 12 exp(+-3 * 0.9 * 1.25 / sqrt(400)), three
  // standard errors: 10.1 .. 14.2.
  CHECK(lengths[200] >= 10);
  CHECK(lengths[200] <= 14);
}

}  // namespace starling::test_sequence_data
