// What a kernel's blocks cost a multiprocessor, counted while their PTX is carried out: what one would ask a profiler on a GPU.
// Instructions are PTX's, not yet those of a GPU, of which there are somewhat fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/cuda/ptx_thread.hpp"

namespace starling::ptx {

struct Cost {
  std::uint64_t instructions = 0;  // of warps: one where several of a warp's threads carry it out
  std::uint64_t fused = 0;         // multiply-adds, of threads
  std::uint64_t shared_requests = 0;
  /// Of these: one for each 128 bytes, and for each time that a bank is met again.
  std::uint64_t shared_cycles = 0;
  std::uint64_t device_requests = 0;
  std::uint64_t device_bytes = 0;  // of these: 32 for every aligned 32 bytes that are touched
  std::uint64_t wanted_bytes = 0;  // by threads, the same bytes by several of them counted as often

  Cost& operator+=(const Cost& other);
};

/// Of the blocks of one kernel.
class Counts {
 public:
  /// What a block's threads have logged.
  void add(const Kernel& kernel, const std::vector<Thread>& threads);
  /// A line for the kernel, and one for each of its `lines` dearest lines of source.
  void print(const Kernel& kernel, const std::vector<std::string>& files, std::size_t lines) const;
  static void print_head();

 private:
  std::uint64_t blocks_ = 0;
  std::vector<Cost> costs_;  // by instruction
};

}  // namespace starling::ptx
