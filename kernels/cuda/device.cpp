#include "kernels/cuda/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include <dlfcn.h>
#include <fmt/core.h>

#include "kernels/cuda/interface_version.hpp"
#include "sim/base/error.hpp"
#include "sim/base/shipped_file.hpp"

namespace starling::cuda {
namespace {

constexpr std::size_t first_capacity = std::size_t{8} << 20;
constexpr const char* file_name = "starling_cuda.so";

/// Where the plug-in is: beside the program as the build leaves it, as an installation has it, or in the same folder.
std::string find_plugin() {
  if (const char* named = std::getenv("STARLING_CUDA_PLUGIN")) return named;
  std::error_code error;
  const auto program = std::filesystem::path(program_path()).parent_path();
  for (const auto& folder :
       {program, program / "../kernels/cuda", program / STARLING_PLUGIN_FOLDER}) {
    if (std::filesystem::exists(folder / file_name, error)) return (folder / file_name).string();
  }
  throw Error(fmt::format(
      "this build has no GPU plug-in ({} beside the program): build it where nvcc is, see "
      "docs/gpu.md",
      file_name));
}

/// The library stays loaded until the program ends: a CUDA runtime does not survive being unloaded.
const Interface* load_plugin(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(fmt::format("the GPU plug-in cannot be loaded: {}", dlerror()));
  void* entry = dlsym(library, entry_point_name);
  if (entry == nullptr)
    throw Error(fmt::format("{} is no GPU plug-in: it lacks {}", path, entry_point_name));
  EntryPoint entry_point = nullptr;
  std::memcpy(&entry_point, &entry, sizeof entry_point);
  const Interface* interface = entry_point();
  if (interface->version != interface_version) {
    throw Error(fmt::format(
        "the GPU plug-in {} was built from other sources ({:08x}) than the program ({:08x}): build "
        "both together",
        path, interface->version, interface_version));
  }
  return interface;
}

double gib(double bytes) { return bytes / (1 << 30); }

}  // namespace

std::unique_ptr<Device> Device::open(std::uint32_t choice) {
  const Interface* interface = load_plugin(find_plugin());
  DeviceFacts facts{};
  void* device = interface->open(choice, &facts);
  if (device == nullptr) throw Error(fmt::format("no GPU can be used: {}", interface->error()));
  return std::unique_ptr<Device>(new Device(interface, device, facts));
}

Device::~Device() {
  if (pinned_ != nullptr) interface_->release_pinned(device_, pinned_);
  if (paired_ != nullptr) interface_->release(device_, paired_);
  interface_->close(device_);
}

std::string Device::description() const {
  return fmt::format("{}, {:.1f} GiB", facts_.name, gib(static_cast<double>(facts_.total_bytes)));
}

void Device::check(int status) const {
  if (status != 0) throw Error(fmt::format("{}: {}", facts_.name, interface_->error()));
}

void* Device::allocate(std::size_t bytes, const char* purpose) {
  void* memory = interface_->allocate(device_, std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) {
    const std::string why = interface_->error();
    throw Error(fmt::format(
        "{}: asked for {} bytes for {}, got none ({}); {} are in use by this process, {} free, {} "
        "in all: take a smaller run.window, fewer nodes or a smaller model, end what else uses the "
        "GPU, or set run.device = cpu",
        facts_.name, bytes, purpose, why, bytes_in_use_, interface_->free_bytes(device_),
        facts_.total_bytes));
  }
  bytes_in_use_ += bytes;
  return memory;
}

void Device::release(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  bytes_in_use_ -= bytes;
  interface_->release(device_, memory);
}

void Device::begin(std::size_t bytes) {
  if (claimed_ + bytes > capacity_) {
    wait();  // nothing queued looks at the twins any more
    claimed_ = 0;
  }
  if (bytes > capacity_) {
    if (pinned_ != nullptr) interface_->release_pinned(device_, pinned_);
    release(paired_, capacity_);
    pinned_ = paired_ = nullptr;
    capacity_ = 0;
    const std::size_t wanted = std::max(2 * bytes, first_capacity);
    pinned_ = static_cast<std::byte*>(interface_->allocate_pinned(device_, wanted));
    if (pinned_ == nullptr) {
      throw Error(fmt::format(
          "{}: asked for {} bytes of the host's memory for job tables, got none ({}): take a "
          "smaller run.window, fewer nodes, smaller batches or a smaller model, or set run.device "
          "= cpu",
          facts_.name, wanted, interface_->error()));
    }
    paired_ = static_cast<std::byte*>(allocate(wanted, "job tables"));
    capacity_ = wanted;
  }
  granted_ = claimed_ + bytes;
}

std::size_t Device::claim(std::size_t bytes) {
  ensure(claimed_ + bytes <= granted_, "a twin larger than what begin() made room for");
  const std::size_t at = claimed_;
  claimed_ += bytes;
  return at;
}

void Device::launch(std::uint32_t kernel, std::uint64_t blocks, std::uint32_t shared_bytes,
                    const void* arguments, std::size_t argument_bytes) {
  if (blocks == 0) return;
  ensure(blocks <= std::numeric_limits<std::int32_t>::max(), "a launch of more than 2^31 blocks");
  check(interface_->launch(device_, kernel, static_cast<std::uint32_t>(blocks), shared_bytes,
                           arguments, argument_bytes));
}

void Device::write(void* to, const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += first_capacity) {
    const std::size_t here = std::min(first_capacity, bytes - at);
    begin(room_of<std::byte>(here));
    const Twin<std::byte> twin = this->twin<std::byte>(here);
    std::memcpy(twin.host, static_cast<const std::byte*>(from) + at, here);
    check(interface_->upload(device_, static_cast<std::byte*>(to) + at, twin.host, here));
  }
}

void Device::read(void* to, const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += first_capacity) {
    const std::size_t here = std::min(first_capacity, bytes - at);
    begin(room_of<std::byte>(here));
    const Twin<std::byte> twin = this->twin<std::byte>(here);
    check(interface_->download(device_, twin.host, static_cast<const std::byte*>(from) + at, here));
    wait();
    std::memcpy(static_cast<std::byte*>(to) + at, twin.host, here);
  }
}

}  // namespace starling::cuda
