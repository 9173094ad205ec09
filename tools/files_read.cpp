#include "tools/files_read.hpp"

#include <filesystem>
#include <system_error>

#include "scenarios/checkpointing.hpp"
#include "sim/record/facts.hpp"

namespace starling {

std::string place_of(const std::string& file, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path there = fs::path(folder) / file;  // an absolute name stays
  return fs::exists(there.parent_path(), none) ? there.string() : file;
}

std::vector<std::string> changed_files(const Recorder& results) {
  std::vector<std::string> changed;
  const std::string folder = fact(results.machine, "folder");
  for (const auto& [checksum, name] : files_read(fact(results.machine, "files"))) {
    const std::string now = checksum_of_file(place_of(name, folder));
    if (!now.empty() && now != checksum) changed.push_back(name);
  }
  return changed;
}

}  // namespace starling
