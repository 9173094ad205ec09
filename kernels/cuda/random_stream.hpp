// A stream of sim/base/random.hpp, as kernels take it.
#pragma once

#include <algorithm>

#include "kernels/cuda/philox.hpp"
#include "sim/base/random.hpp"

namespace starling::cuda {

inline Stream stream_of(const Random& random) {
  const Random::State state = random.state();
  Stream stream{};
  std::ranges::copy(state.key, stream.key);
  std::ranges::copy(state.counter, stream.counter);
  std::ranges::copy(state.block, stream.block);
  stream.used = static_cast<std::uint32_t>(state.used);
  return stream;
}

}  // namespace starling::cuda
