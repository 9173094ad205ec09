#include "kernels/cuda/cuda_workload.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cuda/cuda_cnn.hpp"
#include "kernels/cuda/cuda_mlp.hpp"
#include "kernels/cuda/cuda_quadratic.hpp"
#include "kernels/cuda/cuda_transformer.hpp"

namespace starling {
namespace {

/// The workload as an MLP whose layers a task table has room for; else null.
const Mlp* as_mlp(const Workload& workload) {
  const auto* mlp = dynamic_cast<const Mlp*>(&workload);
  return mlp != nullptr && mlp->layers().size() <= cuda::most_layers ? mlp : nullptr;
}

/// The workload as a CNN whose normalizations fit into a block's shared memory; else null.
const Cnn* as_cnn(const Workload& workload, const cuda::Device& device) {
  const auto* cnn = dynamic_cast<const Cnn*>(&workload);
  return cnn != nullptr && CudaCnn::fits(*cnn, device) ? cnn : nullptr;
}

/// Any workload, computed on the CPU: models come down, gradients go up.
class HostedWorkload final : public Workload {
 public:
  HostedWorkload(const Workload& workload, cuda::Device& device)
      : workload_(workload), device_(device) {}

  const WorkloadFacts& facts() const override { return workload_.facts(); }
  void initial_model(std::span<float> x) const override { workload_.initial_model(x); }
  std::int64_t batch_cost(NodeId node, Step draw) const override {
    return workload_.batch_cost(node, draw);
  }

  void gradients(std::span<GradientRequest> requests) const override {
    for_pieces(requests, [&](std::span<GradientRequest> piece, std::span<const float> models) {
      std::vector<float> gradients(models.size());
      std::vector<GradientRequest> here = at_models(piece, models);
      for (std::size_t r = 0; r < here.size(); ++r)
        here[r].gradient = gradients.data() + r * facts().parameters;
      workload_.gradients(here);
      const auto lock = device_.use();
      for (std::size_t r = 0; r < here.size(); ++r) {
        device_.write(piece[r].gradient, here[r].gradient, model_bytes());
        piece[r].loss = here[r].loss;
        piece[r].episodes = here[r].episodes;
      }
    });
  }

  void evaluate(std::span<EvaluationRequest> requests) const override {
    for_pieces(requests, [&](std::span<EvaluationRequest> piece, std::span<const float> models) {
      std::vector<EvaluationRequest> here = at_models(piece, models);
      workload_.evaluate(here);
      for (std::size_t r = 0; r < here.size(); ++r) {
        piece[r].loss = here[r].loss;
        piece[r].accuracy = here[r].accuracy;
      }
    });
  }

 private:
  static constexpr std::size_t bytes_at_once = std::size_t{256} << 20;  // of models in host memory

  std::size_t model_bytes() const { return facts().parameters * sizeof(float); }

  /// Calls task(piece, its models, one after the other) for all requests, in order.
  template <class Request, class Task>
  void for_pieces(std::span<Request> requests, const Task& task) const {
    const std::size_t most = std::max<std::size_t>(1, bytes_at_once / model_bytes());
    std::vector<float> models;
    for (std::size_t first = 0; first < requests.size(); first += most) {
      const auto piece = requests.subspan(first, std::min(most, requests.size() - first));
      models.resize(piece.size() * facts().parameters);
      {
        const auto lock = device_.use();
        for (std::size_t r = 0; r < piece.size(); ++r)
          device_.read(models.data() + r * facts().parameters, piece[r].x, model_bytes());
      }
      task(piece, std::span<const float>(models));
    }
  }

  template <class Request>
  std::vector<Request> at_models(std::span<Request> piece, std::span<const float> models) const {
    std::vector<Request> here(piece.begin(), piece.end());
    for (std::size_t r = 0; r < here.size(); ++r) here[r].x = &models[r * facts().parameters];
    return here;
  }

  const Workload& workload_;
  cuda::Device& device_;
};

}  // namespace

bool has_cuda_gradients(const Workload& workload, const cuda::Device& device) {
  return as_mlp(workload) != nullptr || as_cnn(workload, device) != nullptr ||
         dynamic_cast<const Transformer*>(&workload) != nullptr ||
         dynamic_cast<const Quadratic*>(&workload) != nullptr;
}

Precision precision_of(const Workload& moved) {
  const auto* mlp = dynamic_cast<const CudaMlp*>(&moved);
  return mlp != nullptr ? mlp->precision() : Precision::strict;
}

std::unique_ptr<Workload> make_cuda_workload(const Workload& workload, cuda::Device& device,
                                             Precision precision) {
  if (const Mlp* mlp = as_mlp(workload)) return std::make_unique<CudaMlp>(*mlp, device, precision);
  if (const Cnn* cnn = as_cnn(workload, device)) return std::make_unique<CudaCnn>(*cnn, device);
  if (const auto* transformer = dynamic_cast<const Transformer*>(&workload))
    return std::make_unique<CudaTransformer>(*transformer, device);
  if (const auto* quadratic = dynamic_cast<const Quadratic*>(&workload))
    return std::make_unique<CudaQuadratic>(*quadratic, device);
  return std::make_unique<HostedWorkload>(workload, device);
}

}  // namespace starling
