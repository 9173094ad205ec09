#include "kernels/cuda/sample_tasks.hpp"

#include <algorithm>

#include "kernels/first_failure.hpp"

namespace starling::cuda {

DeviceSamples::DeviceSamples(Device& device, const Dataset& dataset, const std::string& kind)
    : device_(device) {
  const auto lock = device_.use();
  samples_ = {x_.fill(device_, std::span(dataset.x), (kind + " samples").c_str()),
              y_.fill(device_, std::span(dataset.y), (kind + " labels").c_str()),
              static_cast<std::uint32_t>(dataset.features)};
}

DeviceSampler::DeviceSampler(Device& device, const BatchSampler& sampler) : device_(device) {
  const BatchSampler::State state = sampler.state();
  const std::vector<std::uint32_t> begin(state.begin.begin(), state.begin.end());
  const Random::State random = state.random.state();
  const auto lock = device_.use();
  parts_ = {begin_.fill(device_, std::span<const std::uint32_t>(begin), "the nodes' samples"),
            samples_.fill(device_, state.samples, "the nodes' samples"),
            {random.key[0], random.key[1]},
            state.with_replacement ? 1U : 0U};
}

void DeviceSampler::draw(const Twin<DrawTask>& draws, const Twin<std::int32_t>& indices) const {
  if (draws.count == 0) return;
  const auto rows = static_cast<std::uint32_t>(indices.count / draws.count);
  const std::uint32_t together = DrawKernel::tasks_together(rows);
  device_.launch<DrawKernel>(
      (draws.count + together - 1) / together,
      {draws.device, parts_, static_cast<std::uint32_t>(draws.count), rows, indices.device},
      DrawKernel::shared_bytes);
}

void fill_gradient_tasks(std::span<const GradientRequest> requests, const BatchSampler& sampler,
                         const Twin<StepTask>& tasks, const Twin<std::int32_t>& indices) {
  const std::size_t rows = indices.count / requests.size();
  FirstFailure failure;
#pragma omp parallel for schedule(static)
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const GradientRequest& request = requests[r];
    try {
      sampler.batch(request.node, request.draw, {indices.host + r * rows, rows});
    } catch (...) {
      failure.note();
    }
    StepTask& task = tasks.host[r];
    task.x = request.x;
    task.gradient = request.gradient;
    task.samples = indices.device + r * rows;
    task.rows = static_cast<std::uint32_t>(rows);
  }
  failure.rethrow();
}

Evaluations::Evaluations(std::span<EvaluationRequest> requests, std::size_t samples,
                         std::size_t block)
    : requests_(requests),
      samples_(samples),
      block_(block),
      blocks_((samples + block - 1) / block),
      scores_(requests.size() * blocks_) {}

void Evaluations::fill(std::size_t begin, const Twin<StepTask>& tasks) const {
  for (std::size_t t = 0; t < tasks.count; ++t) {
    const std::size_t first = (begin + t) % blocks_ * block_;
    StepTask& task = tasks.host[t];
    task.x = requests_[request_of(begin + t)].x;
    task.first = static_cast<std::uint32_t>(first);
    task.rows = static_cast<std::uint32_t>(std::min(block_, samples_ - first));
  }
}

void Evaluations::note(std::size_t begin, const Twin<StepTask>& tasks, const Twin<double>& losses,
                       const Twin<std::uint32_t>& right) {
  for (std::size_t t = 0; t < tasks.count; ++t) {
    scores_[begin + t] = {losses.host[t], static_cast<std::int64_t>(tasks.host[t].rows),
                          right.host[t]};
  }
}

}  // namespace starling::cuda
