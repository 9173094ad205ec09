// How a workload deals out the scratch memory of a thread: in cache lines, counted first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

  static constexpr std::size_t line = 16;  // floats

 private:
  float* base_;
  std::size_t used_ = 0;
};

/// Makes `memory` as large as `deal` needs, and lets it deal out. deal(base) takes what it wants from a ScratchDealer
/// of that base and returns how many floats that were.
template <class Deal>
void deal_out(std::vector<float>& memory, const Deal& deal) {
  const std::size_t total = deal(nullptr) + ScratchDealer::line;
  if (memory.size() < total) memory.resize(total);
  float* base = memory.data();
  while (reinterpret_cast<std::uintptr_t>(base) % (ScratchDealer::line * sizeof(float)) != 0)
    ++base;
  deal(base);
}

}  // namespace starling
