// A device plug-in without a device: the kernels' own source, compiled for the host, behind the interface that the CUDA
// plug-in has. Stricter than a GPU where it can be:
//
//   * nothing queued happens before somebody waits, so whoever forgets to wait, or changes what a queued copy still
//     reads, gets wrong numbers;
//   * device memory cannot be touched outside of kernels and copies: a host that follows a device pointer crashes;
//   * fresh device memory and the shared memory of every block hold NaNs, and shared memory ends with a canary;
//   * copies to shared memory that a thread queues (copy_quad_ahead) happen when it waits for them, and must be aligned.
//
// A block's threads do each phase in a loop. With STARLING_EMULATED_THREADS = forwards or backwards every thread goes alone
// from barrier to barrier, also through the code between phases, the first thread and block first or the last: then a thread
// that reads what another one writes in the same phase (or before it, between phases) makes results differ, and threads that
// do not all come to a barrier end the program.
//
// STARLING_EMULATED_BYTES limits the device memory. STARLING_EMULATED_NAME gives another name, as if it were a GPU.
// STARLING_EMULATED_FAULT makes the plug-in refuse: "version" (another interface), "driver" (no device).
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

#include "kernels/cuda/interface.hpp"
#include "kernels/cuda/kernels.hpp"

namespace starling::cuda {
namespace {

constexpr std::size_t page = 4096;
constexpr std::uint32_t shared_limit = 232448;  // of a block on compute capability 9.0
constexpr std::size_t canary_bytes = 64;
constexpr unsigned char poison = 0xff;  // as floats and doubles: NaN

thread_local const char* message = "";

bool has_fault(const char* name) {
  const char* fault = std::getenv("STARLING_EMULATED_FAULT");
  return fault != nullptr && std::strcmp(fault, name) == 0;
}

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "emulated device: %s\n", why);
  std::abort();
}

struct Emulated {
  std::map<void*, std::size_t> blocks;  // in whole pages
  std::size_t limit = std::size_t{4} << 30;
  std::size_t used = 0;
  std::vector<std::function<void()>> queue;

  void protect(int protection) {
    for (const auto& [memory, bytes] : blocks) {
      if (mprotect(memory, bytes, protection) != 0) give_up("mprotect failed");
    }
  }
  void run() {
    if (queue.empty()) return;
    protect(PROT_READ | PROT_WRITE);
    for (const auto& work : queue) work();
    queue.clear();
    protect(PROT_NONE);
  }
};

Emulated* of(void* device) { return static_cast<Emulated*>(device); }

enum class Turns { loop, forwards, backwards };

Turns find_turns() {
  const char* named = std::getenv("STARLING_EMULATED_THREADS");
  if (named == nullptr) return Turns::loop;
  if (std::strcmp(named, "forwards") == 0) return Turns::forwards;
  if (std::strcmp(named, "backwards") == 0) return Turns::backwards;
  give_up("STARLING_EMULATED_THREADS must be forwards or backwards");
}
const Turns turns = find_turns();

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

const char* error() { return message; }

void* open(std::uint32_t, DeviceFacts* facts) {
  if (has_fault("driver")) {
    message = "no NVIDIA driver (emulated)";
    return nullptr;
  }
  auto* device = new Emulated;
  if (const char* bytes = std::getenv("STARLING_EMULATED_BYTES"))
    device->limit = std::strtoull(bytes, nullptr, 10);
  std::memset(facts, 0, sizeof *facts);
  const char* named = std::getenv("STARLING_EMULATED_NAME");
  std::snprintf(facts->name, sizeof facts->name, "%s",
                named != nullptr ? named : "emulated device");
  facts->total_bytes = facts->free_bytes = device->limit;
  facts->shared_bytes = shared_limit;
  facts->multiprocessors = 1;
  return device;
}

void* allocate(void* device, std::size_t bytes) {
  Emulated* d = of(device);
  const std::size_t size = (bytes + page - 1) / page * page;
  if (d->used + size > d->limit) {
    message = "no memory left (emulated)";
    return nullptr;
  }
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("mmap failed");
  std::memset(memory, poison, size);
  mprotect(memory, size, PROT_NONE);
  d->blocks[memory] = size;
  d->used += size;
  return memory;
}

void release(void* device, void* memory) {
  Emulated* d = of(device);
  d->run();
  const auto found = d->blocks.find(memory);
  if (found == d->blocks.end()) give_up("released what was not allocated");
  munmap(memory, found->second);
  d->used -= found->second;
  d->blocks.erase(found);
}

void close(void* device) {
  Emulated* d = of(device);
  d->run();
  if (!d->blocks.empty()) give_up("closed with memory in use");
  delete d;
}

std::uint64_t free_bytes(void* device) { return of(device)->limit - of(device)->used; }

void* allocate_pinned(void*, std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory != nullptr) std::memset(memory, poison, bytes);
  return memory;
}

void release_pinned(void* device, void* memory) {
  of(device)->run();
  std::free(memory);
}

int copy(void* device, void* to, const void* from, std::size_t bytes) {
  of(device)->queue.emplace_back([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return 0;
}

int launch(void* device, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t shared,
           const void* arguments, std::size_t argument_bytes) {
  if (kernel >= std::size(entries) || argument_bytes != entries[kernel].argument_bytes)
    give_up("a launch with the wrong arguments");
  if (shared > shared_limit) {
    message = "more shared memory than a block may have (emulated)";
    return 1;
  }
  const auto* raw = static_cast<const unsigned char*>(arguments);
  of(device)->queue.emplace_back(
      [=, copied = std::vector<unsigned char>(raw, raw + argument_bytes)] {
        entries[kernel].run(blocks, shared, copied.data());
      });
  return 0;
}

/// As TF32 has it: 10 bits of mantissa.
float rounded(float x) { return float_of((bits_of(x) + 0x1000) & 0xffffe000U); }

void expect_aligned(const float* matrix) {
  if (reinterpret_cast<std::uintptr_t>(matrix) % ProductBatch::alignment != 0)
    give_up("a matrix of a product is not aligned");
}

int products(void* device, const ProductBatch* batch) {
  of(device)->queue.emplace_back([p = *batch] {
    for (std::uint32_t i = 0; i < p.count; ++i) {
      for (const float* matrix : {p.a[i], p.b[i], static_cast<const float*>(p.c[i])})
        expect_aligned(matrix);
      for (std::uint32_t r = 0; r < p.rows; ++r) {
        for (std::uint32_t c = 0; c < p.columns; ++c) {
          float& to = p.c[i][std::size_t{r} * p.c_stride + c];
          float sum = 0;
          for (std::uint32_t k = 0; k < p.inner; ++k) {
            const float a = p.a[i][p.is_a_transposed != 0 ? std::size_t{k} * p.a_stride + r
                                                          : std::size_t{r} * p.a_stride + k];
            const float b = p.b[i][p.is_b_transposed != 0 ? std::size_t{c} * p.b_stride + k
                                                          : std::size_t{k} * p.b_stride + c];
            sum += rounded(a) * rounded(b);
          }
          to = p.beta == 0 ? sum : sum + p.beta * to;
        }
      }
    }
  });
  return 0;
}

int wait(void* device) {
  of(device)->run();
  return 0;
}

}  // namespace
}  // namespace starling::cuda

extern "C" __attribute__((visibility("default"))) const starling::cuda::Interface*
starling_device_interface() {
  using namespace starling::cuda;
  static Interface interface = {interface_version,
                                static_cast<std::uint32_t>(KernelNumber::count),
                                error,
                                open,
                                close,
                                allocate,
                                release,
                                free_bytes,
                                allocate_pinned,
                                release_pinned,
                                copy,
                                copy,
                                launch,
                                products,
                                wait};
  interface.version = has_fault("version") ? interface_version + 1 : interface_version;
  return &interface;
}
