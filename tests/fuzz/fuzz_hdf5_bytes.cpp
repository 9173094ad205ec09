// Any bytes as an HDF5 file; the first says whether of features, of sequences, or of results. The library itself
// (1.10.8) fails on some damaged files, so only the corpus is a test; libFuzzer soon finds faults of the library, those
// of our readers are looked for by fuzz_hdf5 and fuzz_results.

#include <string>

#include "sim/record/results_file.hpp"
#include "tests/fuzz/fuzz_data.hpp"
#include "tests/support/hdf5_leaks.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  const std::string path =
      directory.write("any.h5", std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  test::allow_refusal([&] {
    if (data[0] % 3 == 2) {
      load(path);
    } else {
      test::load_hdf5(path, data[0] % 3 == 1);
    }
  });
  return 0;
}
