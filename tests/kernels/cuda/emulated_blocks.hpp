// How the emulated device runs a kernel's blocks: source_blocks.cpp calls the kernels' own source, compiled for the host;
// ptx_blocks.cpp carries out the instructions that nvcc made of them. Both give every block fresh shared memory, all NaNs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace starling::cuda {

/// Memory that kernels reach: where a piece begins, and its bytes.
using DeviceMemory = std::map<const void*, std::size_t>;

enum class Turns {
  loop,      // a phase at a time (with PTX: as forwards)
  forwards,  // every thread alone from barrier to barrier, the first thread and block first
  backwards  // the last ones first
};
/// As STARLING_EMULATED_THREADS says.
Turns named_turns();

inline constexpr unsigned char poison = 0xff;  // as floats and doubles: NaN

[[noreturn]] void give_up(const char* why);

std::size_t argument_bytes(std::uint32_t kernel);

/// Runs `blocks` blocks, each with `shared` bytes of shared memory; ends the program if they do what no kernel may.
void run_blocks(std::uint32_t kernel, std::uint32_t blocks, std::uint32_t shared,
                const void* arguments, const DeviceMemory& memory);

}  // namespace starling::cuda
