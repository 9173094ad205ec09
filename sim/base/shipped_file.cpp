#include "sim/base/shipped_file.hpp"

#include <cstdlib>

#ifndef STARLING_DATA_DIR
#define STARLING_DATA_DIR "scenarios/data"  // run from the source tree
#endif

namespace starling {

std::string shipped_file(std::string_view name) {
  const char* directory = std::getenv("STARLING_DATA");
  return std::string(directory != nullptr ? directory : STARLING_DATA_DIR) + "/" +
         std::string(name);
}

}  // namespace starling
