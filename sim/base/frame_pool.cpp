#include "sim/base/frame_pool.hpp"

#include <array>
#include <new>
#include <utility>

namespace starling::frame_pool {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool pools = false;  // a frame that has ended shall not be written to unnoticed
#else
constexpr bool pools = true;
#endif

constexpr std::size_t granularity = 16;
constexpr std::size_t largest = 1024;  // bytes; of the frames here a few are larger

struct Free {
  Free* next;
};

/// Of one thread: frames that have ended, by size.
struct Shelves {
  std::array<Free*, largest / granularity + 1> first{};

  ~Shelves() {
    for (Free*& frame : first) {
      while (frame != nullptr) ::operator delete(std::exchange(frame, frame->next));
    }
  }
};

thread_local Shelves shelves;

std::size_t shelf_of(std::size_t bytes) { return (bytes + granularity - 1) / granularity; }

}  // namespace

void* take(std::size_t bytes) {
  if (!pools || bytes > largest) return ::operator new(bytes);
  const std::size_t shelf = shelf_of(bytes);
  Free*& first = shelves.first[shelf];
  if (first == nullptr) return ::operator new(shelf * granularity);
  return std::exchange(first, first->next);
}

void give_back(void* frame, std::size_t bytes) noexcept {
  if (!pools || bytes > largest) return ::operator delete(frame);
  Free*& first = shelves.first[shelf_of(bytes)];
  first = ::new (frame) Free{first};
}

}  // namespace starling::frame_pool
