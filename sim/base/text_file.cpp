#include "sim/base/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace starling {

std::string read_text(const Section& section, std::string_view key, const std::string& path) {
  errno = 0;
  std::ifstream stream(path);
  std::ostringstream content;
  if (stream) content << stream.rdbuf();  // which fails, too, if it is a directory or empty
  section.expect(stream.is_open() && content, key, "{}: cannot read: {}", path,
                 errno != 0 ? std::strerror(errno) : "it is empty");
  return content.str();
}

}  // namespace starling
