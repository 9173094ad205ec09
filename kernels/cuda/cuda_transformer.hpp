// Transformers on a GPU, with the bits of kernels/transformer.cpp: operation by operation over all models and tokens that
// fit into scratch memory. Which sequences a mini-batch has is decided on the host, which packs them.
#pragma once

#include "kernels/cuda/device_memory.hpp"
#include "kernels/transformer.hpp"

namespace starling {

class CudaTransformer final : public Workload {
 public:
  /// `scratch_bytes`: for what lies between layers; larger batches come in pieces. Results do not depend on it.
  CudaTransformer(const Transformer& transformer, cuda::Device& device,
                  std::size_t scratch_bytes = std::size_t{1} << 30);

  const WorkloadFacts& facts() const override { return transformer_.facts(); }
  void initial_model(std::span<float> x) const override { transformer_.initial_model(x); }
  std::int64_t batch_cost(NodeId node, Step draw) const override {
    return transformer_.batch_cost(node, draw);
  }
  void gradients(std::span<GradientRequest> requests) const override;
  void evaluate(std::span<EvaluationRequest> requests) const override;

 private:
  /// One mini-batch and the model that reads it; an evaluation has no gradient.
  struct Item {
    const float* x;
    float* gradient;
    const PackedBatch* batch;
  };
  struct Room;
  struct Batch;
  struct Passes;

  /// Calls run(first, count) for pieces that fit into scratch memory.
  template <class Run>
  void in_pieces(std::span<const Item> items, bool is_training, const Run& run) const;
  Batch take(std::span<const Item> items, bool is_training) const;
  void fill_tables(const Batch& batch, std::span<const Item> items, bool is_training) const;
  void cut_up_scratch(Batch& batch, bool is_training) const;

  const Transformer& transformer_;
  const TransformerModel& model_;
  cuda::Device& device_;
  std::size_t scratch_bytes_;
  mutable cuda::DeviceMemory scratch_;  // of one call; under the device's lock
};

}  // namespace starling
