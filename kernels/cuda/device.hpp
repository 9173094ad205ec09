// Device: a GPU as the program sees it, through a plug-in that is loaded at run time (interface.hpp). The program neither
// links CUDA nor needs it; without plug-in, driver or GPU, open() says which of them is missing.
//
// Job tables and results pass through a Twin: the same bytes in pinned host memory and in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/cuda/interface.hpp"
#include "kernels/cuda/kernels.hpp"
#include "sim/base/error.hpp"

namespace starling::cuda {

/// The same `count` items on host and device.
template <class T>
struct Twin {
  T* host = nullptr;
  T* device = nullptr;
  std::size_t count = 0;
};

class Device {
 public:
  /// Opens the `choice`-th GPU (counted round) through the plug-in: the file that the environment variable
  /// STARLING_CUDA_PLUGIN names, else starling_cuda.so where the program was built or installed. Throws Error, one
  /// sentence that says what is missing.
  static std::unique_ptr<Device> open(std::uint32_t choice = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  /// "NVIDIA H200, 139.8 GiB"
  std::string description() const;

  /// Calls on one device come from one thread at a time; whoever makes several that belong together holds this.
  std::unique_lock<std::mutex> use() { return std::unique_lock(mutex_); }

  /// Throws Error with the arithmetic if memory is out; `purpose` completes "for ..".
  void* allocate(std::size_t bytes, const char* purpose);
  void release(void* memory, std::size_t bytes) noexcept;
  /// Makes room for twins of so many bytes altogether (each rounded up by room_of). Twins made before must not be used any more.
  void begin(std::size_t bytes);
  /// That begin() would leave those made before as they are.
  bool has_room(std::size_t bytes) const { return claimed_ + bytes <= capacity_; }
  template <class T>
  static constexpr std::size_t room_of(std::size_t count) {
    return (count * sizeof(T) + 255) / 256 * 256;
  }
  template <class T>
  Twin<T> twin(std::size_t count) {
    const std::size_t at = claim(room_of<T>(count));
    return {reinterpret_cast<T*>(pinned_ + at), reinterpret_cast<T*>(paired_ + at), count};
  }
  /// Starts one copy of twins that were made one after the other.
  template <class T, class... Ts>
  void upload(const Twin<T>& first, const Twin<Ts>&... others) {
    std::size_t bytes = first.count * sizeof(T), room = room_of<T>(first.count);
    [[maybe_unused]] const auto join = [&]<class Next>(const Twin<Next>& next) {
      const auto* begin = reinterpret_cast<const std::byte*>(first.host);
      ensure(reinterpret_cast<const std::byte*>(next.host) == begin + room, "twins apart");
      bytes = room + next.count * sizeof(Next);
      room += room_of<Next>(next.count);
    };
    (join(others), ...);
    check(interface_->upload(device_, first.device, first.host, bytes));
  }
  template <class T>
  void download(const Twin<T>& twin) {
    check(interface_->download(device_, twin.host, twin.device, twin.count * sizeof(T)));
  }

  template <class Kernel>
  void launch(std::uint64_t blocks, const typename Kernel::Arguments& arguments,
              std::uint32_t shared_bytes) {
    launch(static_cast<std::uint32_t>(number_of<Kernel>), blocks, shared_bytes, &arguments,
           sizeof arguments);
  }
  void products(const ProductBatch& batch) { check(interface_->products(device_, &batch)); }
  /// Until everything queued is done; results of downloads are there afterwards.
  void wait() { check(interface_->wait(device_)); }

  /// Any host memory to device memory and back, through pinned memory. After write() `from` may change; read() waits.
  void write(void* to, const void* from, std::size_t bytes);
  void read(void* to, const void* from, std::size_t bytes);

 private:
  Device(const Interface* interface, void* device, const DeviceFacts& facts)
      : interface_(interface), device_(device), facts_(facts) {}
  void check(int status) const;
  std::size_t claim(std::size_t bytes);
  void launch(std::uint32_t kernel, std::uint64_t blocks, std::uint32_t shared_bytes,
              const void* arguments, std::size_t argument_bytes);

  const Interface* interface_;
  void* device_;
  DeviceFacts facts_;
  std::mutex mutex_;
  std::size_t bytes_in_use_ = 0;
  std::byte* pinned_ = nullptr;  // twins: host side,
  std::byte* paired_ = nullptr;  // device side,
  std::size_t capacity_ = 0;     // bytes of either,
  std::size_t claimed_ = 0;      // and given out
  std::size_t granted_ = 0;      // by begin()
};

}  // namespace starling::cuda
