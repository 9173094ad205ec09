// A device for tests: the emulated one, unless STARLING_CUDA_PLUGIN names the real plug-in (tools/gpu_check does that on
// a machine with a GPU, and then the same tests compare a GPU with the CPU).
#pragma once

#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/device.hpp"

#ifndef STARLING_EMULATED_PLUGIN  // the build says where the emulated device is
#define STARLING_EMULATED_PLUGIN ""
#endif

namespace starling::test {

inline void name_plugin() { setenv("STARLING_CUDA_PLUGIN", STARLING_EMULATED_PLUGIN, 0); }

inline std::unique_ptr<cuda::Device> open_device() {
  name_plugin();
  return cuda::Device::open();
}

inline bool is_emulated(const cuda::Device& device) {
  return std::string_view(device.facts().name) == "emulated device";
}

/// An environment variable for as long as this lives; then it is what it was.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Floats in device memory, beginning `offset` floats after an aligned address.
class DeviceRow {
 public:
  DeviceRow(cuda::Device& device, std::span<const float> values, std::size_t offset = 0)
      : device_(device),
        bytes_((values.size() + offset + 1) * sizeof(float)),
        memory_(static_cast<float*>(device.allocate(bytes_, "a test"))),
        row_(memory_ + offset, values.size()) {
    device.write(row_.data(), values.data(), values.size_bytes());
  }
  ~DeviceRow() { device_.release(memory_, bytes_); }
  DeviceRow(const DeviceRow&) = delete;
  DeviceRow& operator=(const DeviceRow&) = delete;

  std::span<float> row() const { return row_; }
  std::vector<float> values() const {
    std::vector<float> values(row_.size());
    device_.read(values.data(), row_.data(), row_.size_bytes());
    return values;
  }

 private:
  cuda::Device& device_;
  std::size_t bytes_;
  float* memory_;
  std::span<float> row_;
};

/// Whether the bits are the same; a NaN is a NaN.
inline bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}
inline bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}
/// Index of the first difference, or the size if there is none.
inline std::size_t first_difference(std::span<const float> a, std::span<const float> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return i;
  }
  return a.size();
}

}  // namespace starling::test
