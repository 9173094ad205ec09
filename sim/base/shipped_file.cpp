#include "sim/base/shipped_file.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace starling {
namespace {

namespace fs = std::filesystem;

// STARLING_SHARE_FOLDER is where they are once installed, relative to the program's folder.
fs::path root() {
  std::error_code error;
  const fs::path installed = fs::path(program_path()).parent_path() / STARLING_SHARE_FOLDER;
  return fs::exists(installed, error) ? installed.lexically_normal() : STARLING_SOURCE_FOLDER;
}

}  // namespace

std::string program_path() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

std::string shipped_file(std::string_view name) {
  const char* named = std::getenv("STARLING_DATA");
  return ((named != nullptr ? fs::path(named) : root() / "scenarios/data") / name).string();
}

std::string shipped_tool(std::string_view name) { return (root() / "tools" / name).string(); }

}  // namespace starling
