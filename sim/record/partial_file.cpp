#include "sim/record/partial_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/error.hpp"

namespace starling {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& words) {
  throw Error(fmt::format("{}: cannot write: {}", path.string(), words));
}
[[noreturn]] void fail(const fs::path& path, int error) {
  fail(path, std::generic_category().message(error));
}

/// Where to write: `path`, or what it links to; makes the directories above.
fs::path prepared(const fs::path& path) {
  try {
    const fs::file_status status = fs::status(path);
    if (fs::is_regular_file(status)) return fs::canonical(path);
    if (fs::is_directory(status)) fail(path, EISDIR);
    if (fs::exists(status)) fail(path, "expected a regular file, found a device or pipe");
    fs::path target = path;  // of a link, too, whose file is not there yet
    while (fs::is_symlink(target)) target = target.parent_path() / fs::read_symlink(target);
    if (target.has_parent_path()) fs::create_directories(target.parent_path());
    return target;
  } catch (const fs::filesystem_error& error) {
    fail(path, error.code().message());
  }
}

fs::path of_this_process(const fs::path& target) {
  return fmt::format("{}.partial.{}", target.string(), getpid());
}

bool is_same_file(int file, const fs::path& path) {
  struct stat opened, named;
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// The file system's number of the file at `path`; 0 if there is none.
std::uint64_t number_of(const fs::path& path) {
  struct stat named;
  return stat(path.c_str(), &named) == 0 ? named.st_ino : 0;
}

/// Opens a file for this process alone, whatever a killed one has left in it; negative, with errno EWOULDBLOCK, if
/// another one writes it. Where the file system refuses locks, nobody knows.
int open_alone(const fs::path& path) {
  while (true) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return file;
    const bool is_taken = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!is_taken && is_same_file(file, path)) return file;
    ::close(file);
    if (is_taken) {
      errno = EWOULDBLOCK;
      return -1;
    }
    // Else it has got its place since it was opened.
  }
}

}  // namespace

PartialFile::PartialFile(const fs::path& path)
    : named_(path), target_(prepared(path)), partial_(target_), older_(number_of(target_)) {
  partial_ += ".partial";
  file_ = open_alone(partial_);
  if (file_ < 0 && errno == EWOULDBLOCK) {
    partial_ = of_this_process(target_);
    file_ = open_alone(partial_);
  }
  if (file_ < 0) fail(named_, errno);
  if (ftruncate(file_, 0) != 0 && errno != EINVAL) {  // which devices answer
    const int error = errno;
    ::close(file_);
    ::unlink(partial_.c_str());
    fail(named_, error);
  }
}

PartialFile::~PartialFile() {
  if (file_ >= 0) ::close(file_);
  if (!is_done_) ::unlink(partial_.c_str());
}

void PartialFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(named_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    is_synced_ = false;
  }
}

void PartialFile::sync() {
  if (is_synced_) return;
  if (::fsync(file_) != 0) fail(named_, errno);
  is_synced_ = true;
}

bool PartialFile::is_overtaken() const { return number_of(target_) != older_; }

void PartialFile::finish() {
  sync();
  // Gets its place without a lock, which would keep readers out, and loses that where nobody takes it for a killed
  // process's.
  const fs::path unlocked = of_this_process(target_);
  if (::rename(partial_.c_str(), unlocked.c_str()) != 0) fail(named_, errno);
  partial_ = unlocked;
  if (::close(std::exchange(file_, -1)) != 0) fail(named_, errno);
  if (::rename(partial_.c_str(), target_.c_str()) != 0) fail(named_, errno);
  is_done_ = true;
  // The new name, too, shall survive a power cut; not every file system lets directories be synced.
  const auto parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

void refuse_to_replace_others(const fs::path& path, std::span<const std::string_view> begins,
                              std::string_view what) {
  std::error_code nothing;
  if (!fs::is_regular_file(path, nothing)) return;
  if (::access(path.c_str(), W_OK) != 0) fail(path, errno);
  std::array<char, 64> there{};
  std::ifstream file(path, std::ios::binary);
  file.read(there.data(), there.size());
  const std::string_view text(there.data(), static_cast<std::size_t>(file.gcount()));
  const auto is_begun = [text](std::string_view begin) { return text.starts_with(begin); };
  const bool is_empty = file.is_open() && text.empty();
  if (is_empty || std::ranges::any_of(begins, is_begun)) return;
  throw Error(fmt::format("{}: is there already and no {}; name another one (--output)",
                          path.string(), what));
}

}  // namespace starling
