// What kernels ask about the processor's caches.
#pragma once

#include <cstddef>

namespace starling {

/// Bytes of the last level of cache, which other programs may share; 32 MiB where the system does not tell.
std::size_t last_level_cache();

}  // namespace starling
