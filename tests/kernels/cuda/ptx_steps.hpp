// What PTX instructions do.
#pragma once

#include <span>
#include <string_view>

#include "tests/kernels/cuda/ptx_program.hpp"

namespace starling::ptx {

/// The step of an instruction that writes `to` registers and reads `from`; null if it is not known.
Step find_step(std::string_view name, std::uint32_t to, std::uint32_t from);

/// What the threads of a warp have met for, the one instruction of that kind: sums of a 16 x 8 tile += 16 x 8 by 8 x 8 (PTX
/// ISA, mma.m16n8k8).
void multiply_tiles(std::span<Thread> lanes);

}  // namespace starling::ptx
