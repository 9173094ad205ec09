// Convolutional networks on a GPU, with the bits of kernels/cnn.cpp: operation by operation over all models and samples
// that fit into scratch memory. Which samples a mini-batch has is decided on the host; what is dropped, on the GPU.
#pragma once

#include <vector>

#include "kernels/cnn.hpp"
#include "kernels/cuda/device_memory.hpp"
#include "kernels/cuda/sample_tasks.hpp"

namespace starling {

class CudaCnn final : public Workload {
 public:
  /// `scratch_bytes`: for what lies between layers, at most a quarter of the device's memory; larger batches come in pieces.
  /// Results do not depend on it.
  CudaCnn(const Cnn& cnn, cuda::Device& device, std::size_t scratch_bytes = std::size_t{4} << 30);
  /// Normalizations of a block must fit into its shared memory.
  static bool fits(const Cnn& cnn, const cuda::Device& device);

  const WorkloadFacts& facts() const override { return cnn_.facts(); }
  void initial_model(std::span<float> x) const override { cnn_.initial_model(x); }
  std::int64_t batch_cost(NodeId node, Step draw) const override {
    return cnn_.batch_cost(node, draw);
  }
  void gradients(std::span<GradientRequest> requests) const override;
  void evaluate(std::span<EvaluationRequest> requests) const override;

 private:
  struct Batch;
  struct Passes;

  std::size_t deal(Batch& batch, float* base) const;
  std::size_t tasks_at_once(std::size_t rows, CnnNetwork::Mode mode) const;
  Batch take(std::size_t tasks, std::size_t rows, std::size_t indices, const cuda::Samples& data,
             CnnNetwork::Mode mode) const;
  static std::size_t room_of(std::size_t tasks, std::size_t indices, std::size_t streams);
  /// streams: (dropout layers, requests, samples of a batch).
  void fill_dropout_streams(std::span<const GradientRequest> requests, cuda::Stream* streams) const;
  void queue_gradients(std::span<GradientRequest> requests) const;
  void calibrate(std::span<const EvaluationRequest> requests, float* statistics) const;

  const Cnn& cnn_;
  cuda::Device& device_;
  std::size_t scratch_bytes_;
  std::vector<std::size_t> sizes_;           // [buffer]: numbers of a sample
  std::vector<std::size_t> dropout_layers_;  // [dropout]: what its streams are named by
  cuda::DeviceSamples train_, test_;
  mutable cuda::DeviceMemory scratch_, statistics_;  // of one call; under the device's lock
};

}  // namespace starling
