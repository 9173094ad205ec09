// PTX, the device code that nvcc hands to the GPU's own assembler, read into instructions that ptx_blocks.cpp carries out: those
// that nvcc makes of our kernels, and no others (NVIDIA, "Parallel Thread Execution ISA").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace starling::ptx {

struct Thread;
struct Instruction;

/// What an instruction does to the thread that carries it out.
using Step = void (*)(Thread&, const Instruction&);

/// A register of a thread is 64 bits, of which an instruction uses as many as its type has; others are zeros. What an
/// instruction names by value is a register, too, that has it from the beginning.
using Register = std::uint32_t;
inline constexpr Register thread_register = 0, block_register = 1;  // %tid.x, %ctaid.x

struct Instruction {
  Step step = nullptr;
  std::array<Register, 4> to{};
  std::array<Register, 10> from{};
  std::uint32_t count = 1;   // of numbers that are loaded or stored
  std::int32_t offset = 0;   // of their address, in bytes
  std::uint32_t target = 0;  // of a branch
  bool is_guarded = false, wanted = true;
  Register guard = 0;                // carried out where this predicate is as wanted
  bool is_fused = false;             // a multiply-add
  std::uint32_t file = 0, line = 0;  // of the source
};

struct Kernel {
  std::string name;  // demangled, of the function
  std::vector<Instruction> code;
  std::vector<std::pair<Register, std::uint64_t>> values;  // of registers, at the beginning
  std::uint32_t registers = 0;
  std::uint32_t local_bytes = 0;  // of memory that each thread has
  std::uint32_t threads = 0;      // of a block
};

struct Program {
  std::vector<Kernel> kernels;
  std::vector<std::string> files;  // by number
};

inline constexpr std::uint32_t warp = 32;  // threads that go together

/// Where a block's shared memory, the arguments and a thread's local memory begin, as addresses: nothing lies at zero.
inline constexpr std::uint32_t first_address = 1024;

/// The name as the source has it.
std::string demangled(const char* name);

/// Reads a .ptx file. Gives up if there is an instruction that it does not know.
Program read(const char* path);

}  // namespace starling::ptx
