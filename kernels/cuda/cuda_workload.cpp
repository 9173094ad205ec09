#include "kernels/cuda/cuda_workload.hpp"

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
    const std::size_t size = facts().parameters;
    std::vector<float> models = fetch(requests), gradients(models.size());
    std::vector<GradientRequest> here(requests.begin(), requests.end());
    for (std::size_t r = 0; r < here.size(); ++r) {
      here[r].x = models.data() + r * size;
      here[r].gradient = gradients.data() + r * size;
    }
    workload_.gradients(here);
    const auto lock = device_.use();
    for (std::size_t r = 0; r < here.size(); ++r) {
      device_.write(requests[r].gradient, here[r].gradient, size * sizeof(float));
      requests[r].loss = here[r].loss;
      requests[r].episodes = here[r].episodes;
    }
  }

  void evaluate(std::span<EvaluationRequest> requests) const override {
    const std::vector<float> models = fetch(requests);
    std::vector<EvaluationRequest> here(requests.begin(), requests.end());
    for (std::size_t r = 0; r < here.size(); ++r)
      here[r].x = models.data() + r * facts().parameters;
    workload_.evaluate(here);
    for (std::size_t r = 0; r < here.size(); ++r) {
      requests[r].loss = here[r].loss;
      requests[r].accuracy = here[r].accuracy;
    }
  }

 private:
  template <class Request>
  std::vector<float> fetch(std::span<Request> requests) const {
    const std::size_t size = facts().parameters;
    std::vector<float> models(requests.size() * size);
    const auto lock = device_.use();
    for (std::size_t r = 0; r < requests.size(); ++r)
      device_.read(models.data() + r * size, requests[r].x, size * sizeof(float));
    return models;
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
