#include "sim/record/regular_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/error.hpp"

namespace starling {

RegularFile::RegularFile(const std::string& path, const std::string& expected)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail(errno);
  struct stat status {};
  const int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  if (error != 0) fail(error);
  throw Error(fmt::format("{}: expected {}, found a {}", path, expected,
                          S_ISDIR(status.st_mode) ? "directory" : "device or pipe"));
}

RegularFile::~RegularFile() { ::close(descriptor_); }

void RegularFile::fail(int error) const {
  throw Error(fmt::format("{}: cannot read: {}", path_, std::generic_category().message(error)));
}

}  // namespace starling
