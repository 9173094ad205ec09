// Files that a run has read, as its results name them, with their checksums.
#pragma once

#include <map>
#include <string>

#include "sim/record/facts.hpp"

namespace starling {

/// What is where such files were; each is looked at once.
class FilesNow {
 public:
  /// Whether what a run in `folder` has read is there with other content. A file that is gone has not changed.
  bool has_changed(const FileRead& file, const std::string& folder);

 private:
  std::map<std::string, std::string> checksums_;  // by place; "" if nothing is there
};

}  // namespace starling
