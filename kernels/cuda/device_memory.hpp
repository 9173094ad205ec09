// DeviceMemory: a block of device memory and its owner. The device's lock must be held to change it, but not at its end.
#pragma once

#include <span>

#include "kernels/cuda/device.hpp"

namespace starling::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if (memory_ == nullptr) return;
    const auto lock = device_->use();
    free();
  }

  /// At least `bytes`, with what was there lost if it must grow.
  void* fit(Device& device, std::size_t bytes, const char* purpose) {
    if (bytes > bytes_) {
      free();
      memory_ = device.allocate(bytes, purpose);
      bytes_ = bytes;
      device_ = &device;
    }
    return memory_;
  }
  /// A copy of `values`.
  template <class T>
  const T* fill(Device& device, std::span<const T> values, const char* purpose) {
    auto* memory = static_cast<T*>(fit(device, values.size_bytes(), purpose));
    device.write(memory, values.data(), values.size_bytes());
    return memory;
  }

 private:
  void free() noexcept {
    if (memory_ != nullptr) device_->release(memory_, bytes_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  Device* device_ = nullptr;  // of the memory
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace starling::cuda
