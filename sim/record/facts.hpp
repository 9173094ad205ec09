// Facts: what a run, a machine or a checkpoint says of itself, as texts by name.
#pragma once

#include <istream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace starling {

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
