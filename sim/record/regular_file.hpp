// A file that is open for reading, as those that the program has written are.
#pragma once

#include <cstdint>
#include <string>

namespace starling {

class RegularFile {
 public:
  /// Throws Error if it cannot be read, or is a directory, a device or a pipe, for which it does not wait, in place of
  /// `expected` ("a results file").
  RegularFile(const std::string& path, const std::string& expected);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::uint64_t size() const { return size_; }
  /// Throws the Error that says that it cannot be read, with the system's words for `error`.
  [[noreturn]] void fail(int error) const;

 private:
  const std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace starling
