// Files that a run has read, as its results name them, with their checksums.
#pragma once

#include <string>
#include <vector>

#include "sim/record/recorder.hpp"

namespace starling {

/// Where a file is that a run in `folder` has named.
std::string place_of(const std::string& file, const std::string& folder);

/// Those of a run's files that are there with other content now. One that is gone has not changed.
std::vector<std::string> changed_files(const Recorder& results);

}  // namespace starling
