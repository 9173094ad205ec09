// Vectors on cache lines.
#include <cstdint>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/cache_aligned.hpp"

namespace starling::test_cache_aligned {
namespace {

TEST_CASE("a cache-aligned vector begins on a cache line, however it grows or moves") {
  std::vector<float, CacheAligned<float>> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back(static_cast<float>(i));
    REQUIRE(reinterpret_cast<std::uintptr_t>(values.data()) % cache_line == 0);
  }
  const auto copy = values, moved = std::move(values);
  CHECK(reinterpret_cast<std::uintptr_t>(copy.data()) % cache_line == 0);
  CHECK(copy == moved);
  CHECK(copy[999] == 999);
}

TEST_CASE("a cache-aligned allocation past the address space is refused") {
  CacheAligned<double> allocator;
  CHECK_THROWS_AS((void)allocator.allocate(std::numeric_limits<std::size_t>::max() / 4),
                  std::bad_alloc);
}

}  // namespace

}  // namespace starling::test_cache_aligned
