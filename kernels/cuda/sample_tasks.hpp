// Gradients and evaluations over labeled samples, as tasks for the device: what CudaMlp and CudaCnn share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device_memory.hpp"
#include "kernels/cuda/draw_kernel.hpp"
#include "kernels/cuda/mlp_task.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/data/partition.hpp"
#include "kernels/score.hpp"
#include "sim/node/workload.hpp"

namespace starling::cuda {

/// A copy of a data set in device memory. Takes the device's lock to come and to go.
class DeviceSamples {
 public:
  /// `kind` completes "asked for .. bytes for .. samples".
  DeviceSamples(Device& device, const Dataset& dataset, const std::string& kind);
  DeviceSamples(const DeviceSamples&) = delete;
  DeviceSamples& operator=(const DeviceSamples&) = delete;

  const Samples& get() const { return samples_; }

 private:
  Device& device_;
  DeviceMemory x_, y_;
  Samples samples_{};
};

/// A copy of who holds which samples in device memory; lock as above.
class DeviceSampler {
 public:
  DeviceSampler(Device& device, const BatchSampler& sampler);
  DeviceSampler(const DeviceSampler&) = delete;
  DeviceSampler& operator=(const DeviceSampler&) = delete;

  /// Queues the draws of the mini-batches of `draws`, which are uploaded; indices.device is (draws, batch size).
  void draw(const Twin<DrawTask>& draws, const Twin<std::int32_t>& indices) const;
  /// For kernels that draw themselves.
  const Parts& get() const { return parts_; }

 private:
  Device& device_;
  DeviceMemory begin_, samples_;
  Parts parts_{};
};

/// A task for each gradient, on its mini-batch: `indices` is (requests, batch size).
void fill_gradient_tasks(std::span<const GradientRequest> requests, const BatchSampler& sampler,
                         const Twin<StepTask>& tasks, const Twin<std::int32_t>& indices);

/// Evaluations of all samples, cut into tasks of `block` samples: of every request the first block, the second ..
class Evaluations {
 public:
  Evaluations(std::span<EvaluationRequest> requests, std::size_t samples, std::size_t block);

  std::size_t tasks() const { return scores_.size(); }
  std::size_t request_of(std::size_t task) const { return task / blocks_; }
  /// Tasks `begin`, begin + 1, ..
  void fill(std::size_t begin, const Twin<StepTask>& tasks) const;
  /// What these found.
  void note(std::size_t begin, const Twin<StepTask>& tasks, const Twin<double>& losses,
            const Twin<std::uint32_t>& right);
  void answer() { starling::answer(requests_, scores_); }

 private:
  std::span<EvaluationRequest> requests_;
  std::size_t samples_, block_, blocks_;
  std::vector<Score> scores_;  // (requests, blocks)
};

}  // namespace starling::cuda
