// Carries out what nvcc compiled, thread by thread from barrier to barrier. What the source can hide is seen here: what the
// compiler made of it, addresses beyond the memory they are meant for or not aligned, threads that touch what others write
// before a barrier parts them, and barriers that threads of a warp reach at different places.
//
// STARLING_PTX names another file than the build's. With STARLING_PTX_COUNTS=10 the program prints at its end what each
// kernel cost, and each of its ten dearest lines.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/emulated_blocks.hpp"
#include "tests/kernels/cuda/ptx_counts.hpp"
#include "tests/kernels/cuda/ptx_program.hpp"
#include "tests/kernels/cuda/ptx_steps.hpp"
#include "tests/kernels/cuda/ptx_thread.hpp"

namespace starling::cuda {
namespace {

struct Entry {
  const std::type_info& type;
  std::size_t argument_bytes;
  unsigned threads;
};
const Entry entries[] = {
#define STARLING_KERNEL(name) {typeid(name), sizeof(name::Arguments), name::threads},
#include "kernels/cuda/kernels.inc"
#undef STARLING_KERNEL
};

class Machine {
 public:
  Machine() {
    const char* named = std::getenv("STARLING_PTX");
    program_ = ptx::read(named != nullptr ? named : STARLING_PTX);
    block_.files = &program_.files;
    for (const Entry& entry : entries) {
      const std::string wanted = "entry<" + ptx::demangled(entry.type.name());
      const ptx::Kernel* found = nullptr;
      for (const ptx::Kernel& kernel : program_.kernels) {
        const std::size_t at = kernel.name.find(wanted);
        if (at == std::string::npos) continue;
        const char next = kernel.name[at + wanted.size()];
        if (next == '>' || next == ' ') found = &kernel;
      }
      if (found == nullptr) give_up(("the PTX lacks " + wanted).c_str());
      if (found->threads != entry.threads) give_up(("other threads in " + found->name).c_str());
      kernels_.push_back(found);
    }
    counts_.resize(kernels_.size());
  }

  ~Machine() {
    if (!counts_anything_) return;
    ptx::Counts::print_head();
    const std::size_t lines = std::strtoul(std::getenv("STARLING_PTX_COUNTS"), nullptr, 10);
    for (std::size_t k = 0; k < counts_.size(); ++k)
      counts_[k].print(*kernels_[k], program_.files, lines);
  }

  void run(std::uint32_t number, std::uint32_t blocks, std::uint32_t shared, const void* arguments,
           const DeviceMemory& memory) {
    const ptx::Kernel& kernel = *kernels_[number];
    block_.kernel = &kernel;
    block_.device_memory = &memory;
    block_.arguments = static_cast<const unsigned char*>(arguments);
    block_.argument_bytes = entries[number].argument_bytes;
    block_.launch_phase = block_.phase + 1;
    if (threads_.size() < kernel.threads) threads_.resize(kernel.threads);
    for (std::uint32_t t = 0; t < kernel.threads; ++t) set_up(threads_[t], t);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      block_.shared.assign(shared, poison);
      run_block(turns_ == Turns::backwards ? blocks - 1 - b : b);
      if (counts_anything_) counts_[number].add(kernel, threads_);
    }
  }

 private:
  void set_up(ptx::Thread& thread, std::uint32_t number) {
    const ptx::Kernel& kernel = *block_.kernel;
    thread.block = &block_;
    thread.number = number;
    if (thread.registers.size() < kernel.registers) thread.registers.resize(kernel.registers);
    thread.set(ptx::thread_register, number);
    for (const auto& [place, bits] : kernel.values) thread.registers[place] = bits;
    thread.piece_begin = 1;  // memory may have been given back since
    thread.piece_end = 0;
  }

  void run_block(std::uint32_t index) {
    const std::uint32_t threads = block_.kernel->threads;
    block_.block_phase = block_.phase + 1;
    for (std::uint32_t t = 0; t < threads; ++t) {
      ptx::Thread& thread = threads_[t];
      thread.set(ptx::block_register, index);
      thread.local.assign(block_.kernel->local_bytes, poison);
      thread.next = 0;
      thread.log.is_on = counts_anything_;
      thread.log.touches.clear();
      if (counts_anything_) thread.log.times.assign(block_.kernel->code.size(), 0);
    }
    for (std::uint32_t ended = 0; ended < threads;) {
      ++block_.phase;
      for (std::uint32_t w = 0; w < threads; w += ptx::warp) {
        const std::uint32_t lanes = std::min(ptx::warp, threads - w);
        ended += go(std::span(threads_).subspan(
            turns_ == Turns::backwards ? threads - lanes - w : w, lanes));
      }
      if (ended != 0 && ended != threads) give_up("some threads of a block missed a barrier");
      for (std::uint32_t t = 0; t < threads; ++t) {
        ptx::Thread& thread = threads_[t];
        if (ended == 0 && thread.next != threads_[t / ptx::warp * ptx::warp].next)
          thread.fail("waits at another barrier than its warp");
        if (ended != 0) thread.end_copies();
      }
    }
  }

  /// Carries a warp's instructions out up to a barrier or its end; how many of its threads have ended.
  std::uint32_t go(std::span<ptx::Thread> lanes) {
    for (;;) {
      std::uint32_t meet = 0, ended = 0;
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        ptx::Thread& thread = lanes[turns_ == Turns::backwards ? lanes.size() - 1 - i : i];
        go(thread);
        meet += thread.state == ptx::Thread::State::meets ? 1 : 0;
        ended += thread.state == ptx::Thread::State::has_ended ? 1 : 0;
      }
      if (meet == 0) return ended;
      for (const ptx::Thread& thread : lanes) {
        if (meet != ptx::warp || thread.next != lanes[0].next)
          thread.fail("does not meet its warp, which works together here");
      }
      ptx::multiply_tiles(lanes);
    }
  }

  /// Carries a thread's instructions out up to where it meets others, a barrier or its end.
  void go(ptx::Thread& thread) {
    const std::vector<ptx::Instruction>& code = block_.kernel->code;
    for (thread.state = ptx::Thread::State::runs; thread.state == ptx::Thread::State::runs;) {
      if (thread.next == code.size()) give_up("a kernel goes on behind its end");
      const ptx::Instruction& instruction = code[thread.next++];
      if (thread.log.is_on) ++thread.log.times[thread.next - 1];
      if (instruction.is_guarded &&
          (thread.registers[instruction.guard] != 0) != instruction.wanted)
        continue;
      thread.instruction = &instruction;
      instruction.step(thread, instruction);
    }
  }

  ptx::Program program_;
  std::vector<const ptx::Kernel*> kernels_;  // by number
  std::vector<ptx::Counts> counts_;          // likewise
  std::vector<ptx::Thread> threads_;
  ptx::Block block_;
  const Turns turns_ = named_turns();
  const bool counts_anything_ = std::getenv("STARLING_PTX_COUNTS") != nullptr;
};

}  // namespace

std::size_t argument_bytes(std::uint32_t kernel) {
  return kernel < std::size(entries) ? entries[kernel].argument_bytes : 0;
}

void run_blocks(std::uint32_t kernel, std::uint32_t blocks, std::uint32_t shared,
                const void* arguments, const DeviceMemory& memory) {
  static Machine machine;
  machine.run(kernel, blocks, shared, arguments, memory);
}

}  // namespace starling::cuda
