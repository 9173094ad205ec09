// Where the data files are that come with the project (scenarios/data), from any working directory.
#pragma once

#include <string>
#include <string_view>

namespace starling {

/// Path of a file in scenarios/data: below the environment's STARLING_DATA if that is set, else in
/// the source tree that the program was built from.
std::string shipped_file(std::string_view name);

}  // namespace starling
