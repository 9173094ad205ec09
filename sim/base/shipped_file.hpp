// Where the files are that come with the program, from any working directory.
#pragma once

#include <string>
#include <string_view>

namespace starling {

/// The file of the running program; empty where /proc does not tell.
std::string program_path();

/// Path of a file in scenarios/data: below the environment's STARLING_DATA if that is set, else below the installation's
/// share/starling, else in the source tree that the program was built from.
std::string shipped_file(std::string_view name);

/// Path of a script in tools/: in the installation, else in the source tree.
std::string shipped_tool(std::string_view name);

}  // namespace starling
