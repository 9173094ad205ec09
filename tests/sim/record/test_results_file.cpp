// The results file: nothing is lost in a round trip, a failed save leaves the old file alone, and
// no damaged file does worse than an Error.
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/error.hpp"
#include "sim/record/hdf5_file.hpp"
#include "sim/record/partial_file.hpp"
#include "sim/record/results_file.hpp"
#include "tests/sim/record/changed_copy.hpp"
#include "tests/sim/record/full_recorder.hpp"
#include "tests/support/difference_of.hpp"
#include "tests/support/hdf5_leaks.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_results_file {
using test::at;
using test::full_recorder;
using test::message_of;
using test::replace_set;
using test::set_attribute;
using test::set_cell;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// That a file so changed is called damaged, in this sentence.
void check_damage(const std::string& path,
                  std::span<const std::pair<test::Change, const char*>> cases) {
  for (const auto& [change, sentence] : cases) {
    const std::string copy = test::changed_copy(path, change);
    CHECK(message_of([&] { load(copy); }) == copy + ": damaged or cut short: " + sentence);
  }
}

void check_round_trip(const Recorder& recorder) {
  const test::TemporaryDirectory directory;
  save(recorder, directory.path("x.h5"));
  const Recorder loaded = load(directory.path("x.h5"));
  CHECK(test::difference_of(recorder, loaded) == "");
  CHECK(loaded.machine == recorder.machine);
  CHECK(loaded.statistics == recorder.statistics);
  CHECK_FALSE(fs::exists(directory.path("x.h5.partial")));
}

}  // namespace

TEST_CASE("a saved recorder is loaded to the bit") { check_round_trip(full_recorder()); }

TEST_CASE("times that are whole picoseconds are there in seconds, too, for other readers") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(full_recorder(), path);
  const hdf5::Reader file(path, fs::file_size(path));
  for (const std::string column :
       {"/nodes/finished", "/nodes/compute", "/nodes/wait", "/nodes/communicate", "/links/busy"}) {
    CAPTURE(column);
    const auto exact = file.column<std::int64_t>(column + "_picoseconds");
    const auto seconds = file.column<double>(column, exact.size());
    CHECK(exact != std::vector<std::int64_t>(exact.size(), 0));
    for (std::size_t i = 0; i < exact.size(); ++i)
      CHECK(seconds[i] == to_seconds(Duration(exact[i])));
  }
}

TEST_CASE("large tables, which are compressed in chunks, are loaded to the bit") {
  // 2,500 rows of 300 cells are 12 chunks of 218 rows; 70,000 nodes are more than a chunk is wide.
  check_round_trip(full_recorder(5000, 300));
  check_round_trip(full_recorder(2, 70'000));
}

TEST_CASE("recorders without nodes, rows or parameters are loaded as they were") {
  check_round_trip(Recorder());
  Recorder recorder(3, RowSchedule(1, 4), RowSchedule(2, 4), at(0));
  check_round_trip(recorder);
  recorder.models.resize(3);
  check_round_trip(recorder);
}

TEST_CASE("a node without a model stays without, and one whose model is no number keeps it") {
  Recorder recorder(3, {}, {}, at(0));
  recorder.models = {{1.0f, 2.0f}, {}, {std::nanf(""), std::nanf("")}};
  check_round_trip(recorder);
}

TEST_CASE("equal recorders make files that are equal to the byte") {
  const test::TemporaryDirectory directory;
  save(full_recorder(), directory.path("a.h5"));
  save(full_recorder(), directory.path("b.h5"));
  CHECK(bytes_of(directory.path("a.h5")) == bytes_of(directory.path("b.h5")));
}

TEST_CASE("a recorder that was loaded can be saved again, into the same bytes") {
  const test::TemporaryDirectory directory;
  save(full_recorder(), directory.path("a.h5"));
  save(load(directory.path("a.h5")), directory.path("b.h5"));
  CHECK(bytes_of(directory.path("a.h5")) == bytes_of(directory.path("b.h5")));
}

TEST_CASE("saving makes the directories above the file") {
  const test::TemporaryDirectory directory;
  save(Recorder(), directory.path("some/where/x.h5"));
  CHECK(load(directory.path("some/where/x.h5")).nodes.empty());
}

TEST_CASE("saving replaces the file as a whole: who has the old one open goes on reading it") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(full_recorder(), path);
  const std::string old_bytes = bytes_of(path);
  std::ifstream reader(path, std::ios::binary);
  save(Recorder(), path);
  const std::string read{std::istreambuf_iterator<char>(reader), {}};
  CHECK(read == old_bytes);
  CHECK(load(path).nodes.empty());
}

TEST_CASE("whoever loads while another saves finds the old or the new content") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  const Recorder a = full_recorder(41);
  const Recorder b = full_recorder(61);
  save(a, path);
  // One process, two threads: Debian's HDF5 is thread-safe; elsewhere reader and writer are
  // processes.
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) save(i % 2 == 0 ? b : a, path);
  });
  int whole = 0;
  for (int i = 0; i < 20; ++i) {
    try {
      const Recorder found = load(path);
      whole += test::difference_of(found, a).empty() || test::difference_of(found, b).empty();
    } catch (const Error&) {
    }
  }
  writer.join();
  CHECK(whole == 20);
}

TEST_CASE("two processes that save to one place leave each other's files alone") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  const std::string partial = directory.write("x.h5.partial", "half of a file");
  const int other = open(partial.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(flock(other, LOCK_EX | LOCK_NB) == 0);  // as its writer does
  save(full_recorder(), path);
  expect_writable(path);
  CHECK(load(path).nodes.size() == 7);
  CHECK(bytes_of(partial) == "half of a file");
  CHECK(std::distance(fs::directory_iterator(directory.path("")), {}) == 2);
  close(other);  // as the system does for who is killed
  save(Recorder(), path);
  CHECK(load(path).nodes.empty());
  CHECK(std::distance(fs::directory_iterator(directory.path("")), {}) == 1);
}

TEST_CASE("whoever writes a results file knows whether it was replaced meanwhile") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  for (const bool is_there : {false, true}) {
    CAPTURE(is_there);
    const PartialFile slow(path);
    CHECK_FALSE(slow.is_overtaken());
    save(full_recorder(), path);
    CHECK(slow.is_overtaken());
  }
}

TEST_CASE("a results file has no lock at any moment that it is in its place") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(Recorder(), path);
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) save(Recorder(), path);
    is_over = true;
  });
  int refused = 0;
  while (!is_over) {  // opens it as h5py does
    const int reader = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    refused += reader < 0 || flock(reader, LOCK_SH | LOCK_NB) != 0;
    close(reader);
  }
  writer.join();
  CHECK(refused == 0);
}

TEST_CASE("a link to a results file stays a link, and the file it names is replaced") {
  const test::TemporaryDirectory directory;
  save(Recorder(), directory.path("x.h5"));
  fs::create_symlink(directory.path("x.h5"), directory.path("latest.h5"));
  save(full_recorder(), directory.path("latest.h5"));
  CHECK(fs::is_symlink(directory.path("latest.h5")));
  CHECK(load(directory.path("x.h5")).nodes.size() == 7);
}

TEST_CASE("a link to a results file that is not there yet stays a link") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("latest.h5");
  fs::create_symlink("next.h5", path);
  fs::create_symlink("elsewhere/x.h5", directory.path("next.h5"));
  save(full_recorder(), path);
  CHECK(fs::is_symlink(path));
  CHECK(load(directory.path("elsewhere/x.h5")).nodes.size() == 7);
}

TEST_CASE("a full disk is an error in the system's words and leaves the old file and no other") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(full_recorder(), path);
  const std::string old_bytes = bytes_of(path);
  // The partial file is written through this link to a device that is always full.
  fs::create_symlink("/dev/full", path + ".partial");
  CHECK(message_of([&] { save(Recorder(), path); }) ==
        path + ": cannot write: No space left on device");
  CHECK(bytes_of(path) == old_bytes);
  CHECK_FALSE(fs::is_symlink(path + ".partial"));
  save(Recorder(), path);
  CHECK(load(path).nodes.empty());
}

TEST_CASE("a disk that fills up in the middle leaves the old file and no other") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(Recorder(), path);
  // Files may grow to 10,000 bytes only, the new one has far more.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10'000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string message = message_of([&] { save(full_recorder(2000), path); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(message == path + ": cannot write: File too large");
  CHECK_FALSE(fs::exists(path + ".partial"));
  CHECK(load(path).nodes.empty());
}

TEST_CASE("places that cannot be written are errors in the system's words") {
  const test::TemporaryDirectory directory;
  write_bytes(directory.path("file"), "x");
  const std::string below = directory.path("file/x.h5");
  CHECK(message_of([&] { save(Recorder(), below); }) == below + ": cannot write: Not a directory");
  fs::create_directory(directory.path("folder"));
  const std::string folder = directory.path("folder");
  CHECK(message_of([&] { save(Recorder(), folder); }) == folder + ": cannot write: Is a directory");
  CHECK(message_of([&] { save(Recorder(), "/dev/null"); }) ==
        "/dev/null: cannot write: expected a regular file, found a device or pipe");
  if (geteuid() != 0) {  // root may write anywhere
    chmod(folder.c_str(), 0555);
    const std::string path = directory.path("folder/x.h5");
    CHECK(message_of([&] { save(Recorder(), path); }) ==
          path + ": cannot write: Permission denied");
  }
}

TEST_CASE("what is no results file is told apart") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  CHECK(message_of([&] { load(path); }) == path + ": cannot read: No such file or directory");
  write_bytes(path, "");
  CHECK(message_of([&] { load(path); }) == path + ": expected a results file, found an empty file");
  write_bytes(path, "nodes = 16\n");
  CHECK(message_of([&] { load(path); }) ==
        path + ": expected a results file, found something that is not HDF5");
  CHECK(message_of([&] {
          load(directory.path("."));
        }).ends_with("expected a results file, found a directory"));
  CHECK(message_of([&] {
          load("/dev/null");
        }).ends_with("expected a results file, found a device or pipe"));
}

TEST_CASE("an HDF5 file of somebody else and a newer format are told apart") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(Recorder(), path);
  const std::string newer = test::changed_copy(path, set_attribute("/", "format_version", 2));
  CHECK(message_of([&] { load(newer); }) ==
        newer + ": written in format 2 by a newer Starling; this one reads up to format 1");
  const std::string other = test::changed_copy(path, test::remove_attribute("/", "format"));
  CHECK(message_of([&] { load(other); }) ==
        other + ": expected a results file of Starling, found another HDF5 file");
}

TEST_CASE("acts that belong to no node, or are of no kind, are damage") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(full_recorder(11, 3), path);  // 3, 1 and 0 acts
  const char* const of_node_0 = "/acts: those of node 0 are not behind those before";
  const char* const of_node_1 = "/acts: those of node 1 are not behind those before";
  const std::pair<test::Change, const char*> cases[] = {
      {set_cell("/acts/first", 1, 5), of_node_0},  // beyond the 4 there are
      {set_cell("/acts/first", 0, 1), of_node_0},
      {set_cell("/acts/first", 0, -1), of_node_0},
      {set_cell("/acts/first", 1, -1), of_node_0},
      {set_cell("/acts/first", 2, 2), of_node_1},
      {set_cell("/acts/first", 2, 5), of_node_1},
      {set_cell("/acts/kind", 2, 4), "/acts: act 2 has a value out of range"}};
  check_damage(path, cases);
}

TEST_CASE("what does not fit the rest of a results file is damage, named with its place") {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(full_recorder(11, 3), path);
  const std::pair<test::Change, const char*> cases[] = {
      {set_attribute("/steps", "every", 0),
       "/steps: a table of 3 columns with a row every 0 of 11 steps"},
      {set_attribute("/steps", "every", H5T_C_S1, {}, {'2'}),
       "attribute every of /steps does not hold numbers"},
      {set_attribute("/steps", "every", H5T_NATIVE_INT64, {2}, {1, 2}),
       "attribute every of /steps is not one number"},
      // rows after 5, 10 and 11 steps, not after 2, 4, .., 10 and 11
      {set_attribute("/steps", "every", 5), "/steps/time: does not fit the table"},
      {set_cell("/timeline/node", 0, 9), "/timeline: segment 0 has a value out of range"},
      {set_cell("/timeline/begin", 1, -1), "/timeline: segment 1 has a value out of range"},
      {set_cell("/link_timeline/begin", 0, least),
       "/link_timeline: segment 0 has a value out of range"},
      {set_cell("/nodes/wait_picoseconds", 2, -1), "/nodes/wait_picoseconds: a negative time"},
      {set_cell("/links/busy_picoseconds", 1, -1), "/links: link 1 has a value out of range"},
      {set_cell("/links/bandwidth", 1, -1), "/links: link 1 has a value out of range"},
      {set_cell("/link_timeline/link", 1, 3), "/link_timeline: segment 1 has a value out of range"},
      {replace_set("/links/bytes", H5T_NATIVE_INT64, {2}, {1, 2}),
       "/links/bytes: expected 3 values, found 2"},
      {replace_set("/links/name", H5T_NATIVE_INT64, {3}, {1, 2, 3}),
       "/links/name is not a column of texts of fixed length"},
      {replace_set("/links/name", H5T_C_S1, {3}, {}),
       "/links/name: fewer bytes than its shape needs"},
      {replace_set("/nodes/steps", H5T_NATIVE_INT64, {3, 1}, {1, 2, 3}),
       "/nodes/steps: expected 1 dimension(s), found 2"},
      {replace_set("/nodes/steps", H5T_NATIVE_INT64, {3}, {}),
       "/nodes/steps: fewer bytes than its shape needs"},
      {set_attribute("/facts", "empty", 3),
       "attribute empty of /facts is not one text of fixed length"}};
  check_damage(path, cases);
}

TEST_CASE("a file cut short at any length is an error") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(full_recorder(11, 3), path);
  const std::string bytes = bytes_of(path);
  REQUIRE(bytes.size() > 10'000);
  for (std::size_t length = 0; length < bytes.size(); length += length < 512 ? 1 : 997) {
    write_bytes(path, std::string_view(bytes).substr(0, length));
    CHECK(message_of([&] { load(path); }) != "no error");
  }
  write_bytes(path, std::string_view(bytes).substr(0, bytes.size() - 1));
  CHECK(message_of([&] { load(path); }).starts_with(path + ": damaged or cut short: "));
}

TEST_CASE("a file with overwritten stretches is an error or is read, and never worse") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.h5");
  save(full_recorder(200, 40), path);
  const std::string bytes = bytes_of(path);
  int errors = 0;
  for (std::size_t start = 8; start + 16 < bytes.size(); start += bytes.size() / 300 + 1) {
    std::string damaged = bytes;
    for (std::size_t i = start; i < start + 16; ++i) damaged[i] = static_cast<char>(0xa5);
    write_bytes(path, damaged);
    errors += message_of([&] { load(path); }) != "no error";
  }
  CHECK(errors > 0);
}

}  // namespace starling::test_results_file
