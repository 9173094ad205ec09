#include "sim/base/text_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling {

std::string read_whole_file(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  std::string bytes;
  std::array<char, 1 << 16> part{};
  while (file && bytes.size() < most) {
    const std::size_t asked = std::min(part.size(), most - bytes.size());
    file.read(part.data(), static_cast<std::streamsize>(asked));
    bytes.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw Error(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  return bytes;
}

std::string read_text(const Section& section, std::string_view key, const std::string& path) {
  std::string text;
  try {
    text = read_whole_file(path);
  } catch (const Error& error) {
    section.fail(key, "{}", error.what());
  }
  section.expect(!text.empty(), key, "{}: cannot read: it is empty", path);
  return text;
}

}  // namespace starling
