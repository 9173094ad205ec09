// Multilayer perceptrons on a GPU. Strict: the bits of kernels/mlp.cpp, whatever the batch. A model that fits into a
// block's shared memory takes its whole step in one block (step_kernel.hpp); a larger one runs layer by layer over all
// nodes (layer_kernels.hpp), and in fast mode multiplies on tensor cores. The data set is on the GPU, and who holds
// which samples: mini-batches are drawn there, too (draw_kernel.hpp).
#pragma once

#include <vector>

#include "kernels/cuda/cuda_workload.hpp"
#include "kernels/cuda/device_memory.hpp"
#include "kernels/cuda/sample_tasks.hpp"
#include "kernels/mlp.hpp"

namespace starling {

class CudaMlp final : public Workload {
 public:
  /// Most shared memory of a block if so many are to share a multiprocessor of compute capability 9.0, which has 228 KiB,
  /// deals them out in units of 128 bytes and keeps 1 KiB of each block's for itself.
  static constexpr std::uint32_t shared_by(std::uint32_t blocks) {
    return 228 * 1024 / blocks / 128 * 128 - 1024;
  }
  /// What a step may use; results do not depend on it.
  struct Limits {
    std::size_t scratch_bytes = std::size_t{1}
                                << 30;  // activations of larger batches come in pieces
    /// Of a block: two share a multiprocessor, one computes while the other waits.
    std::uint32_t shared_bytes = shared_by(2);
    unsigned threads = 0;  // of a block; 0: as many as suit how many blocks share a multiprocessor
  };

  CudaMlp(const Mlp& mlp, cuda::Device& device, Precision precision)
      : CudaMlp(mlp, device, precision, Limits{}) {}
  CudaMlp(const Mlp& mlp, cuda::Device& device, Precision precision, const Limits& limits);

  const WorkloadFacts& facts() const override { return mlp_.facts(); }
  void initial_model(std::span<float> x) const override { mlp_.initial_model(x); }
  std::int64_t batch_cost(NodeId node, Step draw) const override {
    return mlp_.batch_cost(node, draw);
  }
  bool folds_sums() const override { return true; }
  void gradients(std::span<GradientRequest> requests) const override;
  void evaluate(std::span<EvaluationRequest> requests) const override;

  /// Whether a step runs in one block.
  bool is_small() const { return is_small_; }
  /// What was asked for, or strict, if nothing is large enough for the fast mode.
  Precision precision() const { return precision_; }

 private:
  struct Batch;

  /// Sums and their terms, of some requests.
  struct SumCount {
    std::size_t sums = 0, terms = 0;
  };
  static SumCount count_sums(std::span<const GradientRequest> requests);
  static bool list_sums(const GradientRequest& request, cuda::LinearTask* sums,
                        cuda::TermOnDevice* terms, SumCount& next);
  Batch queue_gradients(std::span<const GradientRequest> requests, const SumCount& count) const;
  void lay_out(Batch& batch) const;
  std::size_t block_bytes(std::size_t sums, std::size_t terms) const;
  unsigned step_threads() const;
  void gradients_by_layers(std::span<GradientRequest> requests) const;
  void gradients_in_blocks(std::span<GradientRequest> requests) const;
  cuda::Twin<cuda::BlockResult> queue_in_blocks(std::span<const GradientRequest> requests,
                                                std::uint32_t words) const;
  void forward_layer(const Batch& batch, std::size_t layer) const;
  void forward(const Batch& batch) const;
  void backward(const Batch& batch) const;
  /// Fast mode: products of a layer in TF32; the rest of a step is as in strict mode.
  bool is_fast(std::size_t layer) const;
  void forward_fast(const Batch& batch, const cuda::LayerArguments& layer) const;
  void multiply_panels(const Batch& batch, const cuda::LayerArguments& layer) const;
  /// Whether the mini-batches have to lie side by side in memory.
  bool gathers(std::size_t rows) const;
  cuda::LayerArguments arguments(const Batch& batch, std::size_t layer) const;
  std::size_t room_of(std::size_t tasks, std::size_t indices, const SumCount& count) const;
  Batch take(std::size_t tasks, std::size_t rows, std::size_t indices, const cuda::Samples& data,
             const SumCount& count) const;
  static void fill(const Batch& batch, std::span<const GradientRequest> requests);
  std::uint32_t slope_stride() const;
  std::size_t scratch_floats(std::size_t rows) const;
  std::size_t pointer_room(std::size_t tasks, std::size_t rows) const;

  const Mlp& mlp_;
  cuda::Device& device_;
  Precision precision_;
  Limits limits_;
  std::vector<cuda::LayerShape> layers_;
  bool is_small_;
  unsigned threads_ = 0;  // of a block, if it is small
  cuda::StepLayout layout_{};
  cuda::DeviceSamples train_, test_;
  cuda::DeviceSampler sampler_;
  mutable cuda::DeviceMemory scratch_;  // of one call; under the device's lock
};

}  // namespace starling
