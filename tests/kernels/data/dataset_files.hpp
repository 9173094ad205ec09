// What tests of datasets share: loading by keys, the message of a failure, files of bytes.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "kernels/data/dataset.hpp"
#include "sim/base/error.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/section_of_keys.hpp"

namespace starling::dataset_test {

inline Section section(const std::map<std::string, std::string>& keys) {
  return test::section_of_keys("workload", {keys.begin(), keys.end()});
}

inline SplitDataset load(const std::map<std::string, std::string>& keys, std::uint64_t seed = 1) {
  const Section source = section(keys);
  const DatasetSettings settings = read_dataset_settings(source);
  source.finish();
  return load_dataset(settings, seed);
}

inline std::string failure(const std::map<std::string, std::string>& keys) {
  return test::message_of([&] { load(keys); });
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

using Bytes8 = std::vector<std::uint8_t>;

inline void write_file(const std::string& path, const Bytes8& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

}  // namespace starling::dataset_test
