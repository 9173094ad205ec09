// Facts: what a run, a machine or a checkpoint says of itself, as texts by name; and the number that it does not say.
#pragma once

#include <istream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace starling {

/// A number that a run does not tell.
inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// The fact of this name; "" if it is not known.
inline std::string fact(const std::map<std::string, std::string>& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::string() : found->second;
}

/// A file that a run has read.
struct FileRead {
  std::string checksum;
  std::string name;
};

/// Those that a machine's fact `files` tells, one a line.
inline std::vector<FileRead> files_read(const std::string& lines) {
  std::istringstream rest(lines);
  std::vector<FileRead> files;
  for (FileRead file; rest >> file.checksum && std::getline(rest >> std::ws, file.name);)
    files.push_back(file);
  return files;
}

}  // namespace starling
