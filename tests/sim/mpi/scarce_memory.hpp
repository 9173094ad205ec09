// Memory that runs out where a test says so. Apart from the tests, so that no compiler looks into operator new.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

namespace starling::test {

inline constexpr std::size_t any_block = std::numeric_limits<std::size_t>::max();
/// The largest block, in bytes, that operator new finds memory for.
extern std::atomic<std::size_t> largest_block;

}  // namespace starling::test
