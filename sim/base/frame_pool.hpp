// Memory of coroutine frames. Every awaited task takes one and gives it back, and every node keeps one while it
// waits: a list of free frames per size is faster than malloc and takes no header of 16 bytes.
//
// One pool per thread, so there are no locks. A frame may be given back on another thread, whose pool then keeps it.
// Memory stays with the pools, for the frames to come. It comes in huge pages: those of 100,000 nodes lie side by side there,
// so that the processor finds and fetches them by itself when nodes act in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>

// Whether the address sanitizer looks on, in GCC's words and in Clang's.
#if defined(__SANITIZE_ADDRESS__)
#define STARLING_SANITIZES_ADDRESSES 1
#elif defined(__has_feature)
#define STARLING_SANITIZES_ADDRESSES __has_feature(address_sanitizer)
#else
#define STARLING_SANITIZES_ADDRESSES 0
#endif

namespace starling {

class FramePool {
 public:
  static void* take(std::size_t bytes) {
    if (bytes > largest) return ::operator new(bytes);
    FramePool& pool = of_thread();
    Free*& first = pool.free_[class_of(bytes)];
    if (first == nullptr) return pool.cut(class_of(bytes));
    Free* frame = first;
    first = frame->next;
    return frame;
  }
  static void give_back(void* frame, std::size_t bytes) noexcept {
    if (bytes > largest) return ::operator delete(frame);
    Free*& first = of_thread().free_[class_of(bytes)];
    first = ::new (frame) Free{first};
  }
  /// Bytes of the largest frame that this thread has taken from its pool, roughly; for prefetching.
  static std::size_t largest_taken() { return of_thread().largest_class_ * step; }

 private:
  static constexpr std::size_t step = __STDCPP_DEFAULT_NEW_ALIGNMENT__;  // between sizes
  // Larger frames come from the heap; for the sanitizer all of them, so that it finds who uses one that has ended.
  static constexpr std::size_t largest = STARLING_SANITIZES_ADDRESSES ? 0 : 1024;
  static constexpr std::size_t slab_bytes = std::size_t{1} << 21;  // a huge page

  struct Free {
    Free* next;
  };

  static std::size_t class_of(std::size_t bytes) { return (bytes + step - 1) / step; }
  static FramePool& of_thread() {
    static constinit thread_local FramePool pool;
    return pool;
  }

  static std::byte* new_slab();

  void* cut(std::size_t size_class) {
    const std::size_t bytes = size_class * step;
    largest_class_ = std::max(largest_class_, size_class);
    if (left_ < bytes) {
      slab_ = new_slab();
      left_ = slab_bytes;
    }
    std::byte* frame = slab_ + (slab_bytes - left_);
    left_ -= bytes;
    return frame;
  }

  std::array<Free*, largest / step + 1> free_{};
  std::byte* slab_ = nullptr;  // its last left_ bytes have never been used
  std::size_t left_ = 0;
  std::size_t largest_class_ = 0;
};

}  // namespace starling
