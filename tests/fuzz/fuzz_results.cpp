// A results file, edited as the bytes say. What can be read is written again and must read back as the same, and is exported.

#include <fstream>
#include <iterator>
#include <string>

#include "sim/record/export.hpp"
#include "sim/record/results_file.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/hdf5_edits.hpp"
#include "tests/sim/record/full_recorder.hpp"
#include "tests/support/difference_of.hpp"
#include "tests/support/hdf5_leaks.hpp"

using namespace starling;

namespace {

std::string whole_file(const test::TemporaryDirectory& directory) {
  Recorder recorder = test::full_recorder(/*steps=*/21, /*nodes=*/3);
  recorder.facts.erase("long");
  save(recorder, directory.path("whole.h5"));
  std::ifstream file(directory.path("whole.h5"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TemporaryDirectory directory;
  static const std::string whole = whole_file(directory);
  const std::string path = directory.write("any.h5", whole);
  test::Choices choices({data, size});
  test::edit_hdf5(path, choices);
  test::allow_refusal([&] {
    const Recorder recorder = load(path);
    const std::string again = directory.path("again.h5");
    save(recorder, again);
    const std::string difference = test::difference_of(load(again), recorder);
    ensure(difference.empty(),
           ("a results file reads back as it was written: " + difference).c_str());
    recorder.active_seconds();
    write_chrome_trace(recorder, directory.path("trace.json"));
    for (const char* table :
         {"steps", "evaluation", "evaluation_by_time", "nodes", "timeline", "links"})
      write_csv(recorder, table, directory.path("table.csv"));
  });
  return 0;
}
