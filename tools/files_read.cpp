#include "tools/files_read.hpp"

#include <filesystem>
#include <system_error>

#include "scenarios/checkpointing.hpp"

namespace starling {
namespace {

/// Where a file is that a run in `folder` has named.
std::string place_of(const std::string& file, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path there = fs::path(folder) / file;  // an absolute name stays
  return fs::exists(there.parent_path(), none) ? there.string() : file;
}

}  // namespace

bool FilesNow::has_changed(const FileRead& file, const std::string& folder) {
  const std::string place = place_of(file.name, folder);
  const auto [now, is_new] = checksums_.try_emplace(place);
  if (is_new) now->second = checksum_of_file(place);
  return !now->second.empty() && now->second != file.checksum;
}

}  // namespace starling
