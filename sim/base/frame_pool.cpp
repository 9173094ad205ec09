// Where the memory of coroutine frames comes from.

#include "sim/base/frame_pool.hpp"

#include <sys/mman.h>

namespace starling {

std::byte* FramePool::new_slab() {
  void* slab = ::operator new (slab_bytes, std::align_val_t{slab_bytes});
  madvise(slab, slab_bytes, MADV_HUGEPAGE);  // advice only; failure changes nothing
  return static_cast<std::byte*>(slab);
}

}  // namespace starling
