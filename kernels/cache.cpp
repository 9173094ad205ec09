#include "kernels/cache.hpp"

#include <unistd.h>

namespace starling {

std::size_t last_level_cache() {
  static const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{32} << 20;
}

}  // namespace starling
