// NumberFile: a text file of comma-separated numbers, read line by line. Measured durations, traces
// and sample lengths come so. Blank lines are skipped; the first line may be a header, none of
// whose fields begins like a number.
#pragma once

#include <cmath>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/section.hpp"

namespace starling {

class NumberFile {
 public:
  /// Opens `path`; errors call what should be there `expected` ("seconds or seconds,fraction").
  /// Throws Error if it cannot be opened, adding `what` it was to hold.
  NumberFile(std::string path, std::string_view what, std::string_view expected);

  /// Goes to the next line with numbers; false at the end of the file. Throws Error at a line, other
  /// than a header, that holds anything but numbers.
  bool next();
  /// The numbers of the line, one at least; any double, so infinities and NaN are the caller's to
  /// refuse.
  std::span<const double> values() const { return values_; }
  /// The first line without its spaces, if it is a header; else empty.
  const std::string& header() const { return header_; }
  const std::string& path() const { return path_; }

  /// Throws Error: "times.csv:7: expected seconds, got "fast"", about the line just read.
  [[noreturn]] void refuse(std::string_view expected, std::string_view hint = "") const;
  /// The same about the header: "times.csv:1: expected the header node,step,seconds, got "step,node,seconds"".
  [[noreturn]] void refuse_header(std::string_view expected) const;
  /// Refuses a header that names another unit of time: "step_time_ms".
  void expect_seconds() const;

 private:
  std::string path_;
  std::string expected_;
  std::ifstream file_;
  std::string line_;
  std::string header_;
  int number_ = 0;  // of the line, from 1
  std::vector<double> values_;
};

/// Whether a number of a file may be one of seconds: neither negative nor infinite nor NaN.
inline bool is_duration(double seconds) { return seconds >= 0 && std::isfinite(seconds); }

/// What read() returns, which reads the file that `key` of the section names; its Error is located at the key.
template <class Read>
auto read_named_file(const Section& section, std::string_view key, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    section.fail(key, "{}", error.what());
  }
}

/// The key that names the file, or its folder, with which a message begins; `otherwise` if none does, as of a shipped file.
std::string key_of_file(const Section& section, std::string_view message,
                        std::string_view otherwise);

/// read_named_file() where several keys name files; `otherwise` stands for those that no key names.
template <class Read>
auto read_named_files(const Section& section, std::string_view otherwise, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    section.fail(key_of_file(section, error.what(), otherwise), "{}", error.what());
  }
}

}  // namespace starling
