#include "kernels/place.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "kernels/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/cuda_workload.hpp"
#include "sim/base/error.hpp"

namespace starling {
namespace {

ComputePlace on_cpu(std::string description) {
  ComputePlace place;
  place.backend = std::make_unique<CpuBackend>();
  place.description = std::move(description);
  return place;
}

void check_models_fit(const cuda::Device& device, std::int64_t nodes, std::size_t parameters) {
  const double needed = 4.0 * static_cast<double>(parameters) * static_cast<double>(nodes);
  const auto free = static_cast<double>(device.facts().free_bytes);
  if (needed <= free) return;
  throw Error(
      fmt::format("the models alone need {} nodes * {} parameters * 4 B = {:.1f} GiB, but {:.1f} "
                  "GiB of {} are free",
                  nodes, parameters, needed / (1 << 30), free / (1 << 30), device.description()));
}

}  // namespace

std::int64_t ComputePlace::window_bytes(std::int64_t wanted) const {
  if (!device) return wanted;
  return std::min(wanted, static_cast<std::int64_t>(device->facts().free_bytes / 4));
}

ComputePlace find_place(DeviceChoice choice, Precision precision, const Workload& workload,
                        std::int64_t nodes, std::uint32_t rank_here) {
  if (choice == DeviceChoice::cpu || !workload.facts().has_numbers) return on_cpu("CPU");
  ComputePlace place;
  try {
    place.device = cuda::Device::open(rank_here);
    check_models_fit(*place.device, nodes, workload.facts().parameters);
    place.moved_workload = make_cuda_workload(workload, *place.device, precision);
    place.backend = std::make_unique<CudaBackend>(*place.device);
  } catch (const Error& error) {
    if (choice == DeviceChoice::cuda)
      throw Error(fmt::format("run.device = cuda: {}", error.what()));
    return on_cpu(fmt::format("CPU ({})", error.what()));
  }
  place.description =
      fmt::format("{}, {}{}", place.device->description(),
                  precision_of(*place.moved_workload) == Precision::fast ? "fast" : "strict",
                  has_cuda_gradients(workload, *place.device) ? "" : ", gradients on the CPU");
  return place;
}

}  // namespace starling
