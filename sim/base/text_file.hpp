// A file of text that a scenario names, whole.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/section.hpp"

namespace starling {

/// The text of the file at `path`, which `key` names. Throws ScenarioError with the system's words if it cannot be read
/// or is empty.
std::string read_text(const Section& section, std::string_view key, const std::string& path);

}  // namespace starling
