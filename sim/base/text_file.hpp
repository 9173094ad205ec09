// Files that are read whole.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "sim/base/section.hpp"

namespace starling {

/// The bytes of the file at `path`, no more than the first `most` of them. Throws Error that names it, in the system's words.
std::string read_whole_file(const std::string& path,
                            std::size_t most = std::numeric_limits<std::size_t>::max());

/// The text of the file at `path`, which `key` names. Throws ScenarioError with the system's words if it cannot be read
/// or is empty.
std::string read_text(const Section& section, std::string_view key, const std::string& path);

}  // namespace starling
