// The CUDA device plug-in: interface.hpp over the CUDA runtime (linked in) and cuBLAS (loaded when the fast mode asks for
// it, so that a machine without it still computes). Every call's answer is looked at: wait() tells what went wrong in calls that
// answer nothing themselves, but for close(), after which nobody asks.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include "kernels/cuda/interface.hpp"
#include "kernels/cuda/interface_version.hpp"
#include "kernels/cuda/kernels.hpp"

namespace starling::cuda {
namespace {

thread_local char message[512];

int fail(const char* what, const char* why) {
  std::snprintf(message, sizeof message, "%s: %s", what, why);
  return 1;
}

int check(cudaError_t status, const char* what) {
  return status == cudaSuccess ? 0 : fail(what, cudaGetErrorString(status));
}

/// The three functions of cuBLAS that the fast mode needs.
struct Blas {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  using Products = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m,
                                      int n, int k, const void* alpha, const void* const a[],
                                      cudaDataType, int lda, const void* const b[], cudaDataType,
                                      int ldb, const void* beta, void* const c[], cudaDataType,
                                      int ldc, int count, cublasComputeType_t, cublasGemmAlgo_t);
  Products products = nullptr;
  cublasHandle_t handle = nullptr;

  int load(cudaStream_t stream) {
    if (handle != nullptr) return 0;
    char name[32];
    std::snprintf(name, sizeof name, "libcublas.so.%d", CUDART_VERSION / 1000);
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail("precision = fast needs cuBLAS", dlerror());
    find(library, "cublasCreate_v2", create);
    find(library, "cublasDestroy_v2", destroy);
    find(library, "cublasSetStream_v2", set_stream);
    find(library, "cublasGemmBatchedEx", products);
    if (create == nullptr || destroy == nullptr || set_stream == nullptr || products == nullptr)
      return fail(name, "lacks a function");
    cublasHandle_t made = nullptr;
    if (create(&made) != CUBLAS_STATUS_SUCCESS) return fail(name, "cannot be set up");
    if (set_stream(made, stream) != CUBLAS_STATUS_SUCCESS) {
      destroy(made);
      return fail(name, "cannot be set up");
    }
    handle = made;
    return 0;
  }

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
};

struct Queue {
  int ordinal = 0;
  cudaStream_t stream = nullptr;
  Blas blas;
  cudaError_t untold = cudaSuccess;  // the first error that no call has told, and what went wrong
  const char* what = nullptr;

  void note(cudaError_t status, const char* doing) {
    if (status == cudaSuccess || untold != cudaSuccess) return;
    untold = status;
    what = doing;
  }
  int tell() { return check(std::exchange(untold, cudaSuccess), what); }
};

/// The queue, with its GPU made the calling thread's.
Queue* enter(void* device) {
  auto* queue = static_cast<Queue*>(device);
  queue->note(cudaSetDevice(queue->ordinal), "choosing the GPU");
  return queue;
}

/// So many blocks of a kernel at least shall fit into a multiprocessor's registers.
template <class Kernel>
constexpr unsigned resident_blocks() {
  if constexpr (requires { Kernel::resident; }) {
    return Kernel::resident;
  } else {
    return 0;  // as many as nvcc likes
  }
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, resident_blocks<Kernel>())
    entry(const __grid_constant__ typename Kernel::Arguments arguments) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  Kernel::run(Block{blockIdx.x, shared_memory}, arguments);
}

struct KernelEntry {
  const void* function;
  unsigned threads;
  bool shares;  // a multiprocessor with as many others as its memory has room for
  std::size_t argument_bytes;
};

template <class Kernel>
KernelEntry entry_of() {
  return {reinterpret_cast<const void*>(&entry<Kernel>), Kernel::threads,
          resident_blocks<Kernel>() > 0, sizeof(typename Kernel::Arguments)};
}

const KernelEntry* entries() {
  static const KernelEntry all[] = {
#define STARLING_KERNEL(name) entry_of<name>(),
#include "kernels/cuda/kernels.inc"
#undef STARLING_KERNEL
  };
  return all;
}

constexpr auto kernel_count = static_cast<std::uint32_t>(KernelNumber::count);

const char* error() { return message; }

void close(void* device) {
  Queue* queue = enter(device);
  if (queue->stream != nullptr) cudaStreamSynchronize(queue->stream);
  if (queue->blas.handle != nullptr) queue->blas.destroy(queue->blas.handle);
  if (queue->stream != nullptr) cudaStreamDestroy(queue->stream);
  delete queue;
}

int set_up(Queue* queue, DeviceFacts* facts) {
  cudaDeviceProp properties;
  if (check(cudaSetDevice(queue->ordinal), "choosing the GPU") != 0) return 1;
  if (check(cudaGetDeviceProperties(&properties, queue->ordinal), "asking for the GPU") != 0)
    return 1;
  std::size_t free = 0, total = 0;
  if (check(cudaMemGetInfo(&free, &total), "asking for the GPU's memory") != 0) return 1;
  if (check(cudaStreamCreateWithFlags(&queue->stream, cudaStreamNonBlocking), "making a stream") !=
      0)
    return 1;
  std::memset(facts, 0, sizeof *facts);
  std::snprintf(facts->name, sizeof facts->name, "%s", properties.name);
  facts->total_bytes = total;
  facts->free_bytes = free;
  facts->shared_bytes = static_cast<std::uint32_t>(properties.sharedMemPerBlockOptin);
  for (std::uint32_t k = 0; k < kernel_count; ++k) {
    cudaFuncAttributes attributes;
    if (check(cudaFuncGetAttributes(&attributes, entries()[k].function),
              "the plug-in has no kernels for this GPU (meson option gpu_arch)") != 0)
      return 1;
    if (check(
            cudaFuncSetAttribute(entries()[k].function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(facts->shared_bytes)),
            "asking for shared memory") != 0)
      return 1;
    // Memory that caches would have otherwise: no fewer blocks than have room in all of it.
    if (entries()[k].shares &&
        check(cudaFuncSetAttribute(entries()[k].function,
                                   cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared),
              "asking for most shared memory") != 0)
      return 1;
  }
  return 0;
}

void* open(std::uint32_t choice, DeviceFacts* facts) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    fail("no NVIDIA driver, or one older than the plug-in's CUDA", cudaGetErrorString(status));
    return nullptr;
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    fail("no GPU", "the driver knows of none");
    return nullptr;
  }
  if (check(status, "looking for GPUs") != 0) return nullptr;
  auto* queue = new Queue;
  queue->ordinal = static_cast<int>(choice % static_cast<std::uint32_t>(count));
  if (set_up(queue, facts) == 0) return queue;
  close(queue);
  return nullptr;
}

void* allocate(void* device, std::size_t bytes) {
  enter(device);
  void* memory = nullptr;
  if (check(cudaMalloc(&memory, bytes), "cudaMalloc") == 0) return memory;
  cudaGetLastError();  // running out of memory is no lasting error
  return nullptr;
}

void release(void* device, void* memory) {
  Queue* queue = enter(device);
  queue->note(cudaStreamSynchronize(queue->stream), "waiting for the GPU");
  queue->note(cudaFree(memory), "cudaFree");
}

std::uint64_t free_bytes(void* device) {
  enter(device);
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

void* allocate_pinned(void* device, std::size_t bytes) {
  enter(device);
  void* memory = nullptr;
  if (check(cudaMallocHost(&memory, bytes), "cudaMallocHost") == 0) return memory;
  cudaGetLastError();
  return nullptr;
}

void release_pinned(void* device, void* memory) {
  Queue* queue = enter(device);
  queue->note(cudaStreamSynchronize(queue->stream), "waiting for the GPU");
  queue->note(cudaFreeHost(memory), "cudaFreeHost");
}

int upload(void* device, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return 0;
  return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, enter(device)->stream),
               "copying to the GPU");
}

int download(void* device, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return 0;
  return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, enter(device)->stream),
               "copying from the GPU");
}

int launch(void* device, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t shared,
           const void* arguments, std::size_t argument_bytes) {
  Queue* queue = enter(device);
  if (kernel >= kernel_count || argument_bytes != entries()[kernel].argument_bytes)
    return fail("launching a kernel", "program and plug-in disagree on its arguments");
  if (blocks == 0) return 0;
  void* parameters[] = {const_cast<void*>(arguments)};
  const KernelEntry& entry = entries()[kernel];
  return check(cudaLaunchKernel(entry.function, dim3(blocks), dim3(entry.threads), parameters,
                                shared, queue->stream),
               "launching a kernel");
}

int products(void* device, const ProductBatch* p) {
  Queue* queue = enter(device);
  if (queue->blas.load(queue->stream) != 0) return 1;
  constexpr std::uint32_t most =
      32768;  // batches beyond 65535 have failed in more than one library
  const float one = 1, zero = 0;
  for (std::uint32_t first = 0; first < p->count; first += most) {
    const std::uint32_t count = std::min(most, p->count - first);
    // Row-major C = A B is column-major C^T = B^T A^T.
    const cublasStatus_t status = queue->blas.products(
        queue->blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(p->columns),
        static_cast<int>(p->rows), static_cast<int>(p->inner), &one,
        reinterpret_cast<const void* const*>(p->b + first), CUDA_R_32F,
        static_cast<int>(p->b_stride), reinterpret_cast<const void* const*>(p->a + first),
        CUDA_R_32F, static_cast<int>(p->a_stride), &zero,
        reinterpret_cast<void* const*>(p->c + first), CUDA_R_32F, static_cast<int>(p->c_stride),
        static_cast<int>(count), CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) {
      std::snprintf(message, sizeof message, "cublasGemmBatchedEx answered %d",
                    static_cast<int>(status));
      return 1;
    }
  }
  return 0;
}

int wait(void* device) {
  Queue* queue = enter(device);
  queue->note(cudaStreamSynchronize(queue->stream), "waiting for the GPU");
  return queue->tell();
}

}  // namespace
}  // namespace starling::cuda

extern "C" __attribute__((visibility("default"))) const starling::cuda::Interface*
starling_device_interface() {
  using namespace starling::cuda;
  static const Interface interface = {
      interface_version, error,          open,   close,    allocate, release,  free_bytes,
      allocate_pinned,   release_pinned, upload, download, launch,   products, wait};
  return &interface;
}
