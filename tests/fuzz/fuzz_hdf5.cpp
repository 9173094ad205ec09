// Any bytes as an HDF5 file of data; the first says whether with features or with sequences. The library itself (1.10.8)
// fails on some damaged files, so only the corpus is a test; libFuzzer soon finds faults of the library.

#include <string>

#include "tests/fuzz/fuzz_data.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  const std::string path =
      directory.write("any.h5", std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  test::allow_refusal([&] {
    if (data[0] % 2 == 0) {
      DatasetSettings settings;
      settings.kind = "hdf5";
      settings.path = path;
      test::load(settings);
    } else {
      SequenceSettings settings;
      settings.kind = "hdf5";
      settings.path = path;
      settings.test_fraction = 0.2;
      test::load(settings);
    }
  });
  return 0;
}
