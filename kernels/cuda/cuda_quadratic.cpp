#include "kernels/cuda/cuda_quadratic.hpp"

#include <algorithm>

namespace starling {

using namespace cuda;

namespace {

constexpr std::size_t noise_floats = std::size_t{1} << 22;  // drawn and sent at a time

}  // namespace

CudaQuadratic::CudaQuadratic(const Quadratic& quadratic, Device& device)
    : quadratic_(quadratic), device_(device) {
  const auto lock = device_.use();
  curvature_at_ = curvature_.fill(device_, quadratic.curvatures(), "curvatures");
  center_at_ = center_.fill(device_, quadratic.centers(), "minima");
  mean_curvature_at_ =
      mean_curvature_.fill(device_, quadratic.mean_curvature(), "the mean curvature");
  optimum_at_ = optimum_.fill(device_, quadratic.optimum(), "the optimum");
}

void CudaQuadratic::gradients(std::span<GradientRequest> requests) const {
  const std::size_t most = quadratic_.noise() > 0
                               ? std::max<std::size_t>(1, noise_floats / facts().parameters)
                               : std::max<std::size_t>(1, requests.size());
  for (std::size_t r = 0; r < requests.size(); r += most)
    some_gradients(requests.subspan(r, std::min(most, requests.size() - r)));
}

void CudaQuadratic::some_gradients(std::span<GradientRequest> requests) const {
  const std::size_t dimension = facts().parameters;
  const std::size_t noisy = quadratic_.noise() > 0 ? requests.size() * dimension : 0;
  const auto lock = device_.use();
  device_.begin(Device::room_of<QuadraticTask>(requests.size()) +
                Device::room_of<double>(requests.size()) + Device::room_of<float>(noisy));
  const auto tasks = device_.twin<QuadraticTask>(requests.size());
  const auto slopes = device_.twin<float>(noisy);
  const auto losses = device_.twin<double>(requests.size());
#pragma omp parallel for schedule(static)
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const GradientRequest& request = requests[r];
    const std::size_t at = r * dimension;
    if (noisy > 0)
      quadratic_.draw_slopes(request.node, request.draw, {slopes.host + at, dimension});
    tasks.host[r] = {request.x, request.gradient, noisy > 0 ? slopes.device + at : nullptr,
                     static_cast<std::uint64_t>(request.node) * dimension};
  }
  device_.upload(tasks, slopes);
  device_.launch<QuadraticKernel>(requests.size(),
                                  {tasks.device, curvature_at_, center_at_, losses.device,
                                   static_cast<std::uint32_t>(dimension)},
                                  QuadraticKernel::shared_bytes);
  device_.download(losses);
  device_.wait();
  for (std::size_t r = 0; r < requests.size(); ++r) requests[r].loss = losses.host[r];
}

void CudaQuadratic::evaluate(std::span<EvaluationRequest> requests) const {
  const auto lock = device_.use();
  device_.begin(Device::room_of<const float*>(requests.size()) +
                Device::room_of<double>(requests.size()));
  const auto models = device_.twin<const float*>(requests.size());
  const auto losses = device_.twin<double>(requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) models.host[r] = requests[r].x;
  device_.upload(models);
  device_.launch<QuadraticScoreKernel>(
      requests.size(),
      {models.device, mean_curvature_at_, optimum_at_, quadratic_.optimal_loss(), losses.device,
       static_cast<std::uint32_t>(facts().parameters)},
      QuadraticScoreKernel::shared_bytes);
  device_.download(losses);
  device_.wait();
  for (std::size_t r = 0; r < requests.size(); ++r) requests[r].loss = losses.host[r];
}

}  // namespace starling
