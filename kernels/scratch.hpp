// How a workload deals out the scratch memory of a thread: in cache lines, counted first.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/base/cache_aligned.hpp"

namespace starling {

/// Deals floats out from `base` on, whole cache lines each time; null: only counts them.
class ScratchDealer {
 public:
  explicit ScratchDealer(float* base) : base_(base) {}
  float* operator()(std::size_t count) {
    float* const at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (count + line - 1) / line * line;
    return at;
  }
  std::size_t used() const { return used_; }

  static constexpr std::size_t line = cache_line / sizeof(float);

 private:
  float* base_;
  std::size_t used_ = 0;
};

using Scratch = std::vector<float, CacheAligned<float>>;

/// Makes `memory` as large as `deal` needs, and lets it deal out. deal(base) takes what it wants from a ScratchDealer
/// of that base and returns how many floats that were.
template <class Deal>
void deal_out(Scratch& memory, const Deal& deal) {
  const std::size_t total = deal(nullptr);
  if (memory.size() < total) memory.resize(total);
  deal(memory.data());
}

}  // namespace starling
