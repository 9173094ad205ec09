// Room made beforehand for what must not fail later: where it is added there may be no memory, and no way to say so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace starling {

/// Room for `count` entries in all; repeated calls for ever more of them take no longer than appending does.
template <class T>
void make_room(std::vector<T>& entries, std::size_t count) {
  if (entries.capacity() < count) entries.reserve(std::max(count, 2 * entries.capacity()));
}

}  // namespace starling
