#include "tests/sim/mpi/scarce_memory.hpp"

#include <cstdlib>
#include <new>

namespace starling::test {

std::atomic<std::size_t> largest_block = any_block;

}  // namespace starling::test

void* operator new(std::size_t size) {
  void* const block = size > starling::test::largest_block ? nullptr : std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
