// Memory of coroutine frames. Programs begin and end millions of coroutines of a few sizes, most of them at once: the
// next one gets the frame that ended last, which is still in the first-level cache.
#pragma once

#include <cstddef>

namespace starling::frame_pool {

/// Memory for a frame, aligned like that of operator new; throws std::bad_alloc.
void* take(std::size_t bytes);
/// Gives it back, with the same number of bytes, on any thread. What a thread was given back it keeps until it ends.
void give_back(void* frame, std::size_t bytes) noexcept;

}  // namespace starling::frame_pool
