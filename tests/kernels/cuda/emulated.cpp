// A device plug-in without a device, behind the interface that the CUDA plug-in has. It is built twice: with source_blocks.cpp,
// which runs the kernels' own source, compiled for the host, and with ptx_blocks.cpp, which carries out what nvcc compiled.
// Stricter than a GPU where it can be:
//
//   * nothing queued happens before somebody waits, so whoever forgets to wait, or changes what a queued copy or kernel
//     still reads, gets wrong numbers;
//   * device memory cannot be touched outside of kernels and copies: a host that follows a device pointer crashes;
//   * fresh device memory and the shared memory of every block hold NaNs;
//   * threads of a block may go in any order from barrier to barrier (emulated_blocks.hpp).
//
// STARLING_EMULATED_THREADS = forwards or backwards says in which. STARLING_EMULATED_BYTES limits the device memory,
// STARLING_EMULATED_SHARED_BYTES the shared memory of a block, which is that of compute capability 9.0 otherwise.
// STARLING_EMULATED_NAME gives another name, as if it were a GPU. STARLING_EMULATED_FAULT makes the plug-in refuse: "version"
// (another interface), "driver" (no device).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <sys/mman.h>

#include "kernels/cuda/block.hpp"
#include "kernels/cuda/interface.hpp"
#include "kernels/cuda/interface_version.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/emulated_blocks.hpp"

namespace starling::cuda {
namespace {

constexpr std::size_t page = 4096;
constexpr auto kernel_count = static_cast<std::uint32_t>(KernelNumber::count);

thread_local const char* message = "";

std::uint32_t shared_limit() {
  const char* bytes = std::getenv("STARLING_EMULATED_SHARED_BYTES");
  return bytes == nullptr ? 232448 : static_cast<std::uint32_t>(std::strtoul(bytes, nullptr, 10));
}

bool has_fault(const char* name) {
  const char* fault = std::getenv("STARLING_EMULATED_FAULT");
  return fault != nullptr && std::strcmp(fault, name) == 0;
}

struct Emulated {
  DeviceMemory memory;   // the device's
  DeviceMemory reached;  // what kernels reach: the same, and pinned memory
  std::size_t limit = std::size_t{4} << 30;
  std::size_t used = 0;
  std::vector<std::function<void()>> queue;

  void protect(int protection) {
    for (const auto& [begin, bytes] : memory) {
      if (mprotect(const_cast<void*>(begin), bytes, protection) != 0) give_up("mprotect failed");
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
  facts->shared_bytes = shared_limit();
  return device;
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

void* allocate(void* device, std::size_t bytes) {
  Emulated* d = of(device);
  const std::size_t size = whole_pages(bytes);
  if (d->used + size > d->limit) {
    message = "no memory left (emulated)";
    return nullptr;
  }
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("mmap failed");
  std::memset(memory, poison, size);
  mprotect(memory, size, PROT_NONE);
  d->memory[memory] = d->reached[memory] = bytes;
  d->used += size;
  return memory;
}

void release(void* device, void* memory) {
  Emulated* d = of(device);
  d->run();
  const auto found = d->memory.find(memory);
  if (found == d->memory.end()) give_up("released what was not allocated");
  munmap(memory, found->second);
  d->used -= whole_pages(found->second);
  d->memory.erase(found);
  d->reached.erase(memory);
}

void close(void* device) {
  Emulated* d = of(device);
  d->run();
  if (!d->memory.empty()) give_up("closed with memory in use");
  delete d;
}

std::uint64_t free_bytes(void* device) { return of(device)->limit - of(device)->used; }

void* allocate_pinned(void* device, std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) return nullptr;
  std::memset(memory, poison, bytes);
  of(device)->reached[memory] = bytes;
  return memory;
}

void release_pinned(void* device, void* memory) {
  of(device)->run();
  of(device)->reached.erase(memory);
  std::free(memory);
}

int copy(void* device, void* to, const void* from, std::size_t bytes) {
  of(device)->queue.emplace_back([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return 0;
}

int launch(void* device, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t shared,
           const void* arguments, std::size_t bytes) {
  if (kernel >= kernel_count || bytes != argument_bytes(kernel))
    give_up("a launch with the wrong arguments");
  if (shared > shared_limit()) {
    message = "more shared memory than a block may have (emulated)";
    return 1;
  }
  const auto* raw = static_cast<const unsigned char*>(arguments);
  of(device)->queue.emplace_back(
      [=, reached = &of(device)->reached, copied = std::vector<unsigned char>(raw, raw + bytes)] {
        run_blocks(kernel, blocks, shared, copied.data(), *reached);
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
          float sum = 0;
          for (std::uint32_t k = 0; k < p.inner; ++k)
            sum += rounded(p.a[i][std::size_t{r} * p.a_stride + k]) *
                   rounded(p.b[i][std::size_t{k} * p.b_stride + c]);
          p.c[i][std::size_t{r} * p.c_stride + c] = sum;
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

void give_up(const char* why) {
  std::fprintf(stderr, "emulated device: %s\n", why);
  std::abort();
}

Turns named_turns() {
  const char* named = std::getenv("STARLING_EMULATED_THREADS");
  if (named == nullptr) return Turns::loop;
  if (std::strcmp(named, "forwards") == 0) return Turns::forwards;
  if (std::strcmp(named, "backwards") == 0) return Turns::backwards;
  give_up("STARLING_EMULATED_THREADS must be forwards or backwards");
}

}  // namespace starling::cuda

extern "C" __attribute__((visibility("default"))) const starling::cuda::Interface*
starling_device_interface() {
  using namespace starling::cuda;
  static Interface interface = {
      interface_version, error,          open, close, allocate, release,  free_bytes,
      allocate_pinned,   release_pinned, copy, copy,  launch,   products, wait};
  interface.version = has_fault("version") ? interface_version + 1 : interface_version;
  return &interface;
}
