// Diagonal quadratics on a GPU: the bits of kernels/quadratic.cpp. The noise is drawn on the host, whose normal numbers
// are those of the CPU's runs.
#pragma once

#include "kernels/cuda/device_memory.hpp"
#include "kernels/quadratic.hpp"

namespace starling {

class CudaQuadratic final : public Workload {
 public:
  CudaQuadratic(const Quadratic& quadratic, cuda::Device& device);

  const WorkloadFacts& facts() const override { return quadratic_.facts(); }
  void initial_model(std::span<float> x) const override { quadratic_.initial_model(x); }
  std::int64_t batch_cost(NodeId node, Step draw) const override {
    return quadratic_.batch_cost(node, draw);
  }
  void gradients(std::span<GradientRequest> requests) const override;
  void evaluate(std::span<EvaluationRequest> requests) const override;

 private:
  void some_gradients(std::span<GradientRequest> requests) const;

  const Quadratic& quadratic_;
  cuda::Device& device_;
  cuda::DeviceMemory curvature_, center_, mean_curvature_, optimum_;
  const float* curvature_at_ = nullptr;  // (nodes, dimension)
  const float* center_at_ = nullptr;
  const double* mean_curvature_at_ = nullptr;  // (dimension)
  const double* optimum_at_ = nullptr;
};

}  // namespace starling
