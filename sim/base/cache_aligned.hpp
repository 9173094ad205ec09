// Memory that begins on a cache line: what is read in whole lines then touches no line more than it must.
#pragma once

#include <cstddef>
#include <new>

#include "sim/base/prefetch.hpp"

namespace starling {

/// Allocator of a standard container whose elements begin on a cache line. Throws std::bad_alloc.
template <class T>
struct CacheAligned {
  using value_type = T;

  CacheAligned() = default;
  template <class U>
  CacheAligned(const CacheAligned<U>&) {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(cache_line)));
  }
  void deallocate(T* memory, std::size_t) noexcept {
    ::operator delete(memory, std::align_val_t(cache_line));
  }
  friend bool operator==(const CacheAligned&, const CacheAligned&) { return true; }
};

}  // namespace starling
