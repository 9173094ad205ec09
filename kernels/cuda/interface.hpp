// What a device plug-in offers: memory, copies, and launches of the kernels of kernels.inc. A table of C functions,
// so that program and plug-in may come from different compilers; everything else (job tables, workloads, staging)
// is on the program's side of it (device.hpp).
//
// One in-order queue per device: copies and launches run one after the other, in the order of the calls, and only
// wait() waits for them. Functions that answer a status give 0 for success; error() then says in one sentence what
// went wrong with the calling thread's last failing call. What goes wrong in others, wait() tells.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::cuda {

/// The one symbol that a plug-in exports, of type EntryPoint.
inline constexpr const char* entry_point_name = "starling_device_interface";

struct DeviceFacts {
  char name[256];              // "NVIDIA H200"
  std::uint64_t total_bytes;   // of device memory
  std::uint64_t free_bytes;    // when the device was opened
  std::uint32_t shared_bytes;  // most shared memory of a block
};

/// count products, one after the other in memory of pointers, each C (rows x columns) = A B with A (rows x inner) and B
/// (inner x columns), all row-major with a stride between rows. In no promised order of sums, and in TF32 if the device
/// has it: the fast mode.
struct ProductBatch {
  /// Every matrix begins at a multiple of so many bytes, as cuBLAS asks for where it computes in TF32.
  static constexpr std::uint32_t alignment = 16;
  const float* const* a;  // (count) in device memory
  const float* const* b;
  float* const* c;
  std::uint32_t count;
  std::uint32_t rows, inner, columns;
  std::uint32_t a_stride, b_stride, c_stride;
};

struct Interface {
  std::uint32_t version;  // interface_version of the plug-in's build: which sources it is made of
  const char* (*error)();
  /// Opens the `choice`-th device, counted round; null if that fails.
  void* (*open)(std::uint32_t choice, DeviceFacts* facts);
  void (*close)(void* device);
  /// Device memory, aligned to 256 bytes; null if there is not enough.
  void* (*allocate)(void* device, std::size_t bytes);
  void (*release)(void* device, void* memory);
  std::uint64_t (*free_bytes)(void* device);
  /// Host memory that copies may use while the host goes on, and kernels, where it is; null if there is not enough.
  void* (*allocate_pinned)(void* device, std::size_t bytes);
  void (*release_pinned)(void* device, void* memory);
  /// Queue a copy; the host side is pinned.
  int (*upload)(void* device, void* to, const void* from, std::size_t bytes);
  int (*download)(void* device, void* to, const void* from, std::size_t bytes);
  /// Queues kernel number `kernel` on so many blocks, each with `shared` bytes of shared memory.
  int (*launch)(void* device, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t shared,
                const void* arguments, std::size_t argument_bytes);
  int (*products)(void* device, const ProductBatch* batch);
  int (*wait)(void* device);
};

/// Answers with the plug-in's table whatever version the caller has; the caller compares.
using EntryPoint = const Interface* (*)();

}  // namespace starling::cuda
