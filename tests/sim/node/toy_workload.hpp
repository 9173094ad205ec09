// A workload that is easy to predict: f_i(x) = 1/2 |x - i|^2, so gradient and loss of node i need no data.
#pragma once

#include <span>

#include "sim/node/workload.hpp"

namespace starling::test {

class ToyWorkload : public Workload {
 public:
  explicit ToyWorkload(NodeId nodes, std::size_t parameters = 37) {
    facts_.parameters = parameters;
    facts_.wire_parameters = static_cast<std::int64_t>(parameters);
    facts_.samples.assign(static_cast<std::size_t>(nodes), 1);
  }
  const WorkloadFacts& facts() const override { return facts_; }
  void initial_model(std::span<float> x) const override {
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k);
  }
  std::int64_t batch_cost(NodeId, Step) const override { return 1; }
  void gradients(std::span<GradientRequest> requests) const override {
    for (GradientRequest& request : requests) {
      request.loss = 0;
      for (std::size_t k = 0; k < facts_.parameters; ++k) {
        const float d = request.x[k] - static_cast<float>(request.node);
        request.gradient[k] = d;
        request.loss += 0.5 * static_cast<double>(d) * static_cast<double>(d);
      }
    }
  }
  void evaluate(std::span<EvaluationRequest> requests) const override {
    for (EvaluationRequest& request : requests) {
      request.loss = static_cast<double>(request.x[0]);
      request.accuracy = request.loss * request.loss;
    }
  }

 private:
  WorkloadFacts facts_;
};

}  // namespace starling::test
