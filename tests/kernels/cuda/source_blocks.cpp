// The kernels' own source, compiled for the host. A block's threads do each phase in a loop, or, by contexts of their own, go
// alone from barrier to barrier, also through the code between phases: then a thread that reads what another one writes in the
// same phase (or before it, between phases) makes results differ with their order, and threads that do not all come to a
// barrier end the program. Copies to shared memory that a thread queues (copy_quad_ahead) happen when it waits for them,
// and must be aligned; shared memory ends with a canary.
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <iterator>
#include <vector>

#include <ucontext.h>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/emulated_blocks.hpp"

namespace starling::cuda {
namespace {

constexpr std::size_t canary_bytes = 64;
const Turns turns = named_turns();

/// The threads of a block, each on a stack of its own.
class Threads {
 public:
  using Work = void (*)(unsigned thread, const void* context);

  /// Calls work(thread, context) for `count` threads, all of which come to a barrier before any goes on behind it.
  static void run(unsigned count, Work work, const void* context) {
    Threads& all = instance();
    all.work_ = work;
    all.context_ = context;
    if (all.threads_.size() < count) all.threads_.resize(count);
    for (unsigned t = 0; t < count; ++t) all.threads_[t].has_ended = false;
    for (unsigned ended = 0; ended < count;) {
      for (unsigned i = 0; i < count; ++i) {
        all.current_ = turns == Turns::backwards ? count - 1 - i : i;
        Thread& thread = all.threads_[all.current_];
        all.enter(thread);
        ended += thread.has_ended ? 1 : 0;
      }
      if (ended != 0 && ended != count) give_up("some threads of a block missed a barrier");
    }
  }
  static void barrier() { instance().leave(); }

 private:
  struct Thread {
    std::vector<char> stack = std::vector<char>(std::size_t{1} << 18);
    ucontext_t start;
    jmp_buf place;  // where it waits
    bool has_begun = false, has_ended = false;
  };

  static Threads& instance() {
    static Threads threads;
    return threads;
  }
  static void begin() {
    for (Threads& all = instance();; all.leave()) {
      all.work_(all.current_, all.context_);
      all.threads_[all.current_].has_ended = true;
    }
  }
  /// A context begins a thread's stack, where it stays for all blocks; jumps, from then on, ask nothing of the system.
  void enter(Thread& thread) {
    if (_setjmp(main_) != 0) return;
    if (thread.has_begun) _longjmp(thread.place, 1);
    thread.has_begun = true;
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.data();
    thread.start.uc_stack.ss_size = thread.stack.size();
    makecontext(&thread.start, &Threads::begin, 0);
    setcontext(&thread.start);
  }
  void leave() {
    if (_setjmp(threads_[current_].place) == 0) _longjmp(main_, 1);
  }

  std::vector<Thread> threads_;
  unsigned current_ = 0;
  Work work_ = nullptr;
  const void* context_ = nullptr;
  jmp_buf main_;
};

template <class Kernel>
void run_block(std::uint32_t index, unsigned char* shared_memory,
               const typename Kernel::Arguments& arguments) {
  if (turns == Turns::loop) {
    Kernel::run(Block{index, shared_memory, 0, Kernel::threads, nullptr}, arguments);
    return;
  }
  struct Context {
    std::uint32_t index;
    unsigned char* shared_memory;
    const typename Kernel::Arguments& arguments;
  };
  const Context context{index, shared_memory, arguments};
  Threads::run(
      Kernel::threads,
      [](unsigned thread, const void* raw) {
        const auto& c = *static_cast<const Context*>(raw);
        Kernel::run(Block{c.index, c.shared_memory, thread, thread + 1, &Threads::barrier},
                    c.arguments);
      },
      &context);
}

template <class Kernel>
void run_blocks(std::uint32_t blocks, std::uint32_t shared, const void* raw) {
  typename Kernel::Arguments arguments;
  std::memcpy(&arguments, raw, sizeof arguments);
  std::vector<double> memory((shared + canary_bytes) / sizeof(double) + 2);
  auto* bytes = reinterpret_cast<unsigned char*>(memory.data());
  bytes += (16 - reinterpret_cast<std::uintptr_t>(bytes) % 16) % 16;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    std::memset(bytes, poison, shared);
    std::memset(bytes + shared, 0x5a, canary_bytes);
    run_block<Kernel>(turns == Turns::backwards ? blocks - 1 - b : b, bytes, arguments);
    for (const CopiesAhead& copies : copies_ahead) {
      if (!copies.are_over())
        give_up("a block ended with copies to its shared memory on their way");
    }
    for (std::size_t i = 0; i < canary_bytes; ++i) {
      if (bytes[shared + i] != 0x5a) give_up("a kernel wrote past its shared memory");
    }
  }
}

struct Entry {
  void (*run)(std::uint32_t blocks, std::uint32_t shared, const void* arguments);
  std::size_t argument_bytes;
};

constexpr Entry entries[] = {
#define STARLING_KERNEL(name) {run_blocks<name>, sizeof(name::Arguments)},
#include "kernels/cuda/kernels.inc"
#undef STARLING_KERNEL
};

}  // namespace

std::size_t argument_bytes(std::uint32_t kernel) {
  return kernel < std::size(entries) ? entries[kernel].argument_bytes : 0;
}

void run_blocks(std::uint32_t kernel, std::uint32_t blocks, std::uint32_t shared,
                const void* arguments, const DeviceMemory&) {
  entries[kernel].run(blocks, shared, arguments);
}

}  // namespace starling::cuda
