// Any bytes as a results file. What can be read is written again and must read back as the same.

#include <string>

#include "sim/record/results_file.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TemporaryDirectory directory;
  const std::string path =
      directory.write("any.h5", std::string(reinterpret_cast<const char*>(data), size));
  test::allow_refusal([&] {
    const Recorder recorder = load(path);
    const std::string again = directory.path("again.h5");
    save(recorder, again);
    ensure(same_content(load(again), recorder), "a results file reads back as it was written");
  });
  return 0;
}
